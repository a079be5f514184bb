"""Calls agents of any version, over any binding, on bad networks. Nothing here knows the engine or the server.

Programs import every public name from here: `from parley.client import Retries, Timeouts`. A module is imported when
one of its names is first used, so that commands start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `as` exports a name
    from parley.client.calls import Attempt as Attempt
    from parley.client.calls import Interceptor as Interceptor
    from parley.client.client import Client as Client
    from parley.client.client import ask as ask
    from parley.client.credentials.credentials import Credentials as Credentials
    from parley.client.credentials.credentials import Secret as Secret
    from parley.client.credentials.credentials import SecretRequest as SecretRequest
    from parley.client.credentials.oauth_client import OAuthClient as OAuthClient
    from parley.client.credentials.token_store import FileLogins as FileLogins
    from parley.client.credentials.token_store import Login as Login
    from parley.client.credentials.token_store import LoginStore as LoginStore
    from parley.client.credentials.token_store import Tokens as Tokens
    from parley.client.discovery.card_cache import CardCache as CardCache
    from parley.client.discovery.signatures import SignaturePolicy as SignaturePolicy
    from parley.client.errors import ClientError as ClientError
    from parley.client.errors import CredentialsError as CredentialsError
    from parley.client.errors import DiscoveryError as DiscoveryError
    from parley.client.errors import FileError as FileError
    from parley.client.errors import FileForbiddenError as FileForbiddenError
    from parley.client.errors import FileTooLargeError as FileTooLargeError
    from parley.client.errors import FileUnavailableError as FileUnavailableError
    from parley.client.errors import ForbiddenTargetError as ForbiddenTargetError
    from parley.client.errors import StreamTruncatedError as StreamTruncatedError
    from parley.client.errors import TaskFailedError as TaskFailedError
    from parley.client.errors import TimedOutError as TimedOutError
    from parley.client.errors import UnreachableError as UnreachableError
    from parley.client.guard import Guard as Guard
    from parley.client.options import Bounds as Bounds
    from parley.client.options import Retries as Retries
    from parley.client.options import Timeouts as Timeouts
    from parley.client.reply import Reply as Reply
    from parley.client.reply import Update as Update
    from parley.client.transports.connections import Tls as Tls
    from parley.client.webhooks.notification import PushNotification as PushNotification
    from parley.client.webhooks.receiver import WebhookAnswer as WebhookAnswer
    from parley.client.webhooks.receiver import WebhookReceiver as WebhookReceiver
    from parley.client.webhooks.seen import MemorySeen as MemorySeen
    from parley.client.webhooks.seen import SeenDeliveries as SeenDeliveries
    from parley.client.webhooks.seen import SqliteSeen as SqliteSeen
    from parley.protocol.cards import AgentCard as AgentCard
    from parley.protocol.cards import Binding as Binding
    from parley.protocol.push import PushAuthentication as PushAuthentication
    from parley.protocol.push import PushConfig as PushConfig
    from parley.protocol.tasks import Task as Task
    from parley.protocol.tasks import TaskState as TaskState
    from parley.protocol.versions import Version as Version

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
        "FileError",
        "FileForbiddenError",
        "FileTooLargeError",
        "FileUnavailableError",
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
    "parley.client.webhooks.notification": ("PushNotification",),
    "parley.client.webhooks.receiver": ("WebhookAnswer", "WebhookReceiver"),
    "parley.client.webhooks.seen": ("MemorySeen", "SeenDeliveries", "SqliteSeen"),
    "parley.protocol.cards": ("AgentCard", "Binding"),
    "parley.protocol.push": ("PushAuthentication", "PushConfig"),
    "parley.protocol.tasks": ("Task", "TaskState"),
    "parley.protocol.versions": ("Version",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = sorted(_MODULE_OF)

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
