"""Which fields of which rows are secret: those of webhooks, of webhooks in the inbox, and of some records.

A function that maps a row gives each secret in it, with its place, to another function, and puts the result in its
stead. So one list of fields serves to encrypt, to decrypt, and to encrypt again with another key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import structs

from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.push import PushAuthentication, PushConfig
from parley.sealed.sealer import Sealer, key_of
from parley.stores.encoding import decode_inbox_item, decode_object, decode_push_config, encode
from parley.stores.interface import InboxItem, RecordKey, TaskKey

SecretMap: TypeAlias = Callable[..., str]
"""Takes a secret and the names of its place."""

RowKey: TypeAlias = tuple[str, str, str]

_EXTRA = "parley-sealed"
"""The one member of further members that are encrypted: all of them, as one text."""

SECRET_RECORDS: Mapping[str, Sequence[str]] = {
    "registry_secrets": ("token",),
    "mcp_servers": ("definition", "headers", "*"),
    "task-credentials": ("credential", "*"),
    "task-authorizations": ("*",),
}
"""The collections of records with secrets, and the path to those; `*` stands for every member."""


# --- webhooks ---------------------------------------------------------------------------------------------------------


def seal_webhook(sealer: Sealer, key: TaskKey, config: PushConfig) -> PushConfig:
    """A webhook of a task, with its secrets encrypted."""
    return _map_config(config, sealer.seal, _webhook_place(key.owner.tenant, key.task_id, config))


def open_webhook(sealer: Sealer, key: TaskKey, config: PushConfig) -> PushConfig:
    """A webhook of a task, with its secrets decrypted. Raises SecretError."""
    return _map_config(config, sealer.open, _webhook_place(key.owner.tenant, key.task_id, config))


def seal_item(sealer: Sealer, item: InboxItem) -> InboxItem:
    """What waits for the holder of a task, with the secrets of its webhook encrypted."""
    return _map_item(item, sealer.seal)


def open_item(sealer: Sealer, item: InboxItem) -> InboxItem:
    """What waits for the holder of a task, with the secrets of its webhook decrypted. Raises SecretError."""
    return _map_item(item, sealer.open)


def _webhook_place(tenant: str, task_id: str, config: PushConfig) -> tuple[str, ...]:
    return "webhook", tenant, task_id, config.id or ""


def _map_item(item: InboxItem, change: SecretMap) -> InboxItem:
    if item.webhook is None:
        return item
    place = ("inbox", item.key.owner.tenant, item.key.task_id, item.id)
    return structs.replace(item, webhook=_map_config(item.webhook, change, place))


def _map_config(config: PushConfig, change: SecretMap, place: tuple[str, ...]) -> PushConfig:
    authentication = config.authentication
    if config.token is None and authentication is None:
        return config
    return structs.replace(
        config,
        token=change(config.token, *place, "token") if config.token is not None else None,
        authentication=_map_authentication(authentication, change, place) if authentication is not None else None,
    )


def _map_authentication(given: PushAuthentication, change: SecretMap, place: tuple[str, ...]) -> PushAuthentication:
    extra = given.extra
    if extra:
        sealed = extra.get(_EXTRA) if len(extra) == 1 else None
        is_sealed = isinstance(sealed, str) and key_of(sealed) is not None
        text = change(sealed if is_sealed else encode(extra), *place, "extra")
        extra = {_EXTRA: text} if key_of(text) is not None else decode_object(text)
    credentials = None if given.credentials is None else change(given.credentials, *place, "credentials")
    return structs.replace(given, credentials=credentials, extra=extra)


# --- records ----------------------------------------------------------------------------------------------------------


def seal_record(sealer: Sealer, key: RecordKey, value: JsonObject) -> JsonObject:
    """The value of a record, with its secrets encrypted."""
    return _map_record(key, value, sealer.seal)


def open_record(sealer: Sealer, key: RecordKey, value: JsonObject) -> JsonObject:
    """The value of a record, with its secrets decrypted. Raises SecretError."""
    return _map_record(key, value, sealer.open)


def without_secrets(key: RecordKey, value: JsonObject) -> JsonObject:
    """The value of a record, with empty texts in place of its secrets."""
    return _map_record(key, value, lambda *_: "")


def _map_record(key: RecordKey, value: JsonObject, change: SecretMap) -> JsonObject:
    path = SECRET_RECORDS.get(key.collection)
    if path is None:
        return value
    return cast(JsonObject, _map_value(value, path, change, ("record", key.collection, key.tenant, key.id)))


def _map_value(value: JsonValue, path: Sequence[str], change: SecretMap, place: tuple[str, ...]) -> JsonValue:
    if not path:
        return change(value, *place) if isinstance(value, str) else value
    if not isinstance(value, dict):
        return value
    wanted, *rest = path
    return {
        name: _map_value(member, rest, change, (*place, name)) if wanted in ("*", name) else member
        for name, member in value.items()
    }


# --- rows -------------------------------------------------------------------------------------------------------------


def renewed_webhook(sealer: Sealer, key: RowKey, text: str) -> str:
    """The text of a row of `push_configs`, with its secrets encrypted with the current key. Raises SecretError."""
    tenant, task_id, _ = key
    config = decode_push_config(text)
    renewed = _map_config(config, sealer.renew, _webhook_place(tenant, task_id, config))
    return text if renewed == config else encode(renewed)


def renewed_record(sealer: Sealer, key: RowKey, text: str) -> str:
    """The same for a row of `records`."""
    value = decode_object(text)
    renewed = _map_record(RecordKey(*key), value, sealer.renew)
    return text if renewed == value else encode(renewed)


def renewed_item(sealer: Sealer, _: RowKey, text: str) -> str:
    """The same for a row of `inbox`."""
    item = decode_inbox_item(text)
    renewed = _map_item(item, sealer.renew)
    return text if renewed == item else encode(renewed)
