"""Calls agents of any version, over any binding, on bad networks. Nothing here knows the engine or the server.

Programs import every public name from here: `from parley.client import Retries, Timeouts`. A module is imported when
one of its names is first used, so that commands start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parley.client.calls import Attempt, Interceptor
    from parley.client.client import Client, ask
    from parley.client.credentials.credentials import Credentials, Secret, SecretRequest
    from parley.client.credentials.oauth_client import OAuthClient
    from parley.client.credentials.token_store import FileLogins, Login, LoginStore, Tokens
    from parley.client.discovery.card_cache import CardCache
    from parley.client.discovery.signatures import SignaturePolicy
    from parley.client.errors import (
        ClientError,
        CredentialsError,
        DiscoveryError,
        ForbiddenTargetError,
        StreamTruncatedError,
        TaskFailedError,
        TimedOutError,
        UnreachableError,
    )
    from parley.client.guard import Guard
    from parley.client.options import Bounds, Retries, Timeouts
    from parley.client.reply import Reply, Update
    from parley.client.transports.connections import Tls
    from parley.client.webhooks import PushNotification, WebhookReceiver
    from parley.protocol.cards import AgentCard, Binding
    from parley.protocol.push import PushAuthentication, PushConfig
    from parley.protocol.tasks import Task, TaskState
    from parley.protocol.versions import Version

__all__ = [
    "AgentCard",
    "Attempt",
    "Binding",
    "Bounds",
    "CardCache",
    "Client",
    "ClientError",
    "Credentials",
    "CredentialsError",
    "DiscoveryError",
    "FileLogins",
    "ForbiddenTargetError",
    "Guard",
    "Interceptor",
    "Login",
    "LoginStore",
    "OAuthClient",
    "PushAuthentication",
    "PushConfig",
    "PushNotification",
    "Reply",
    "Retries",
    "Secret",
    "SecretRequest",
    "SignaturePolicy",
    "StreamTruncatedError",
    "Task",
    "TaskFailedError",
    "TaskState",
    "TimedOutError",
    "Timeouts",
    "Tls",
    "Tokens",
    "UnreachableError",
    "Update",
    "Version",
    "WebhookReceiver",
    "ask",
]

_EXPORTS = {
    "parley.client.calls": ("Attempt", "Interceptor"),
    "parley.client.discovery.card_cache": ("CardCache",),
    "parley.client.client": ("Client", "ask"),
    "parley.client.transports.connections": ("Tls",),
    "parley.client.credentials.credentials": ("Credentials", "Secret", "SecretRequest"),
    "parley.client.errors": (
        "ClientError",
        "CredentialsError",
        "DiscoveryError",
        "ForbiddenTargetError",
        "StreamTruncatedError",
        "TaskFailedError",
        "TimedOutError",
        "UnreachableError",
    ),
    "parley.client.guard": ("Guard",),
    "parley.client.credentials.oauth_client": ("OAuthClient",),
    "parley.client.options": ("Bounds", "Retries", "Timeouts"),
    "parley.client.reply": ("Reply", "Update"),
    "parley.client.discovery.signatures": ("SignaturePolicy",),
    "parley.client.credentials.token_store": ("FileLogins", "Login", "LoginStore", "Tokens"),
    "parley.client.webhooks": ("PushNotification", "WebhookReceiver"),
    "parley.protocol.cards": ("AgentCard", "Binding"),
    "parley.protocol.push": ("PushAuthentication", "PushConfig"),
    "parley.protocol.tasks": ("Task", "TaskState"),
    "parley.protocol.versions": ("Version",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

if not TYPE_CHECKING:  # type checkers read the imports above

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
