"""What a running server reads again at SIGHUP: its keys, its files for authentication, and the file of its audit trail.

What is not valid is logged and changes nothing; the other parts are still read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from parley.protocol.errors import ParleyError
from parley.server.app import App
from parley.server.contracts import CallerAuthenticator
from parley.server.security.reloading import ReloadableSecurity
from parley.server.telemetry.audit import AuditLine, AuditTrail, KeyEvent, utc_now
from parley.server.webhooks.auth_settings import WebhookAuthSettings

logger = logging.getLogger(__name__)


def reload_settings(
    app: App,
    *,
    security: CallerAuthenticator | None = None,
    load_webhook_auth: Callable[[], WebhookAuthSettings | None] = lambda: None,
    audit: AuditTrail | None = None,
) -> None:
    """Read keys and files for authentication again.

    `security` is the server's own, if the app has another around it. `load_webhook_auth` reads how the server
    authenticates to webhooks; it returns None if there is no file for it.
    """
    if audit is not None:
        audit.reopen()
    _reload_keys(app, audit)
    _reload_security(app, security, audit)
    _reload_webhook_auth(app, load_webhook_auth, audit)


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


def _reload_webhook_auth(app: App, load: Callable[[], WebhookAuthSettings | None], audit: AuditTrail | None) -> None:
    authenticator = app.shared.webhook_auth
    if authenticator is None:  # another server calls the webhooks
        return
    try:
        settings = load()
        if settings is None:
            return
        authenticator.use(settings)
    except (ParleyError, ValueError) as error:
        logger.error("The settings for webhooks were not reloaded; the old ones stay in force: %s", error)
        return
    app.shared.security_was_replaced()
    logger.info("The settings for webhooks were reloaded; the server offers %s", ", ".join(authenticator.offered))
    _record(audit, "webhook-auth-reloaded", None)


def _record(audit: AuditTrail | None, what: KeyEvent, key_id: str | None) -> None:
    if audit is not None:
        audit.append(AuditLine(utc_now(), what, key=key_id))
