"""What a running server reads again at SIGHUP: its keys, its auth file, and the file of its audit trail.

What is not valid is logged and changes nothing; the other parts are still read.
"""

from __future__ import annotations

import logging

from parley.protocol.errors import ParleyError
from parley.server.app import App
from parley.server.contracts import CallerAuthenticator
from parley.server.security.reloading import ReloadableSecurity
from parley.server.telemetry.audit import AuditLine, AuditTrail, KeyEvent, utc_now

logger = logging.getLogger(__name__)


def reload_settings(app: App, *, security: CallerAuthenticator | None = None, audit: AuditTrail | None = None) -> None:
    """Read keys and auth file again. `security` is the server's own, if the app has another around it."""
    if audit is not None:
        audit.reopen()
    _reload_keys(app, audit)
    _reload_security(app, security, audit)


def _reload_keys(app: App, audit: AuditTrail | None) -> None:
    signer = app.shared.signer
    if signer is None:
        return
    try:
        signer.reload()
    except ParleyError as error:
        logger.error("The keys were not reloaded; the old ones stay in use: %s", error)
        return
    key_id = signer.current.key_id
    logger.info("The keys were reloaded; %s signs", key_id, extra={"key": key_id})
    _record(audit, "keys-reloaded", key_id)


def _reload_security(app: App, security: CallerAuthenticator | None, audit: AuditTrail | None) -> None:
    if not isinstance(security, ReloadableSecurity):
        return
    try:
        security.reload()
    except (ParleyError, ValueError) as error:  # of which AuthFileError is one
        logger.error("The auth file was not reloaded; the old one stays in force: %s", error)
        return
    app.shared.security_was_replaced()
    logger.info("The auth file was reloaded; callers authenticate with %s", ", ".join(security.schemes))
    _record(audit, "auth-reloaded", None)


def _record(audit: AuditTrail | None, what: KeyEvent, key_id: str | None) -> None:
    if audit is not None:
        audit.append(AuditLine(utc_now(), what, key=key_id))
