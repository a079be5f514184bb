"""What a running host reads again at SIGHUP: what every server does, and the file with the issuers of people.

A file that is not valid is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from parley.host.host import Host
from parley.host.people import read_people_settings
from parley.protocol.errors import ParleyError
from parley.server.reloading import reload_settings
from parley.server.telemetry.audit import AuditLine, AuditTrail, utc_now
from parley.server.webhooks.auth_settings import WebhookAuthSettings

logger = logging.getLogger(__name__)


def reload_host(
    host: Host,
    people: Path | None,
    *,
    load_webhook_auth: Callable[[], WebhookAuthSettings | None],
    audit: AuditTrail | None,
) -> None:
    """Read keys and files for authentication again. `people` is the file with the issuers, if there is one."""
    reload_settings(host.app, load_webhook_auth=load_webhook_auth, audit=audit)
    if people is None:
        return
    try:
        host.use_people(read_people_settings(people))
    except (ParleyError, ValueError) as error:
        logger.error("The issuers of people were not reloaded; the old ones stay in force: %s", error)
        return
    logger.info("The issuers of people were reloaded from %s", people)
    if audit is not None:
        audit.append(AuditLine(utc_now(), "people-reloaded"))
