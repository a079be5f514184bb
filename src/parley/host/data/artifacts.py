"""The files of conversations: what agents write with `/write --persist` and read with `/read` and `/list`.

An artifact belongs to a tenant and a conversation, and a path names one artifact of a conversation. Its content is a
record apart from its description, so that lists cost little. Both are written in one transaction with the bytes that
the conversation and the tenant keep, so limits hold whatever is written at the same time.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.clock import Clock
from parley.host.data.artifact_path import clean_path
from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError, NotFoundError
from parley.host.data.keys import ARTIFACT_CONTENTS, ARTIFACTS, collection_of, number_id
from parley.host.data.storage import (
    MEBIBYTE,
    StorageFullError,
    add_to_conversation,
    add_to_tenant,
    close_conversation,
    take_from_conversation,
)
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, RecordChange, RecordKey, Records

FILE_LIMIT = MEBIBYTE
MAX_ARTIFACTS = 2_000
"""Artifacts of one conversation: empty ones take no bytes, but they are not free."""
MAX_PAGE = 200
MAX_MIME_TYPE = 200
DEFAULT_MIME_TYPE = "text/plain"


class ArtifactNotFoundError(NotFoundError):
    """artifact not found"""


class StoredArtifact(Struct, frozen=True, kw_only=True):
    """An artifact without its content. `size` is in bytes; times are seconds since 1970."""

    id: int
    conversation_id: int
    path: str
    sha256: str
    mime_type: str
    size: int
    created_at: int
    updated_at: int


class Artifacts:
    """The artifacts of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._transactions = TenantTransactions(records, clock)

    async def write(
        self,
        tenant: str,
        conversation_id: int,
        path: str,
        content: str,
        *,
        mime_type: str | None = None,
        quota: int | None = None,
        key: str | None = None,
    ) -> StoredArtifact:
        """Create the artifact at a path, or replace its content. The same key twice changes nothing.

        `quota` is how many bytes the tenant may keep, if that is less than the limit of all tenants. The path decides
        the MIME type if none is given.

        Raises:
            InvalidPathError: the path is not valid.
            InvalidValueError: the content is not valid Unicode, or the MIME type is too long.
            StorageFullError: the file is too large, or the conversation or the tenant would keep too much.
            ConversationNotFoundError: the conversation was deleted.
        """
        path, encoded = clean_path(path), _encoded(content)
        mime_type = mime_type or mimetypes.guess_type(path)[0] or DEFAULT_MIME_TYPE
        if len(mime_type) > MAX_MIME_TYPE or not mime_type.isprintable():
            raise InvalidValueError(f"must be at most {MAX_MIME_TYPE} printable characters", "$.mime_type")

        async def decide() -> Decision[int]:
            before = await self._find(tenant, conversation_id, path)
            if before is None:
                await self._check_number(tenant, conversation_id)
            now = seconds(self._clock.now())
            artifact = StoredArtifact(
                id=before.id if before else await self._records.next_number(ARTIFACTS, tenant),
                conversation_id=conversation_id,
                path=path,
                sha256=sha256(encoded).hexdigest(),
                mime_type=mime_type,
                size=len(encoded),
                created_at=before.created_at if before else now,
                updated_at=now,
            )
            added = artifact.size - (before.size if before else 0)
            value = to_builtins(artifact)
            return artifact.id, [
                PutRecord(_key(tenant, artifact.id), value, artifact.id),
                PutRecord(_path_key(tenant, conversation_id, path), value, artifact.id),
                PutRecord(_content_key(tenant, artifact.id), {"content": content}),
                await add_to_conversation(self._records, tenant, conversation_id, added),
                await add_to_tenant(self._records, tenant, added, quota=quota),
            ]

        artifact_id = await self._transactions.run_once(tenant, f"write in {conversation_id}", decide, key=key)
        return await self.get(tenant, artifact_id)

    async def get(self, tenant: str, artifact_id: int) -> StoredArtifact:
        """One artifact.

        Raises:
            ArtifactNotFoundError: the tenant has none with this id.
        """
        record = await self._records.get(_key(tenant, artifact_id))
        if record is None:
            raise ArtifactNotFoundError
        return msgspec.convert(record.value, StoredArtifact)

    async def find(self, tenant: str, conversation_id: int, path: str) -> StoredArtifact:
        """The artifact at a path.

        Raises:
            ArtifactNotFoundError: the conversation has none there.
            InvalidPathError: the path is not valid.
        """
        found = await self._find(tenant, conversation_id, clean_path(path))
        if found is None:
            raise ArtifactNotFoundError
        return found

    async def read(self, tenant: str, artifact_id: int) -> str:
        """The content of an artifact.

        Raises:
            ArtifactNotFoundError: the tenant has none with this id.
        """
        record = await self._records.get(_content_key(tenant, artifact_id))
        if record is None:
            raise ArtifactNotFoundError
        return msgspec.convert(record.value["content"], str)

    async def list(
        self,
        tenant: str,
        *,
        conversation_id: int | None = None,
        before_id: int | None = None,
        limit: int = MAX_PAGE,
    ) -> Sequence[StoredArtifact]:
        """Artifacts of a conversation, or of all, that have smaller ids than `before_id`, newest first."""
        collection = ARTIFACTS if conversation_id is None else collection_of(ARTIFACTS, conversation_id)
        after = (before_id, "") if before_id is not None else None
        found = await self._records.list(collection, tenant, after=after, limit=min(max(limit, 1), MAX_PAGE))
        return [msgspec.convert(record.value, StoredArtifact) for record in found]

    async def delete(self, tenant: str, artifact_id: int) -> None:
        """Delete an artifact.

        Raises:
            ArtifactNotFoundError: the tenant has none with this id.
        """

        async def decide() -> Decision[None]:
            return None, await self._deletion(tenant, [await self.get(tenant, artifact_id)])

        await self._transactions.run(tenant, decide)

    async def delete_conversation(self, tenant: str, conversation_id: int) -> None:
        """Delete all artifacts of a conversation that was deleted. Nothing can be written into it any more."""

        async def close() -> Decision[None]:
            return None, [await close_conversation(self._records, tenant, conversation_id)]

        async def decide() -> Decision[int]:
            page = await self.list(tenant, conversation_id=conversation_id)
            return len(page), await self._deletion(tenant, page) if page else ()

        await self._transactions.run(tenant, close)
        while await self._transactions.run(tenant, decide):
            pass

    async def _deletion(self, tenant: str, artifacts: Sequence[StoredArtifact]) -> Sequence[RecordChange]:
        """The changes that delete artifacts of one conversation."""
        conversation_id = artifacts[0].conversation_id
        keys = [
            key
            for artifact in artifacts
            for key in (
                _key(tenant, artifact.id),
                _path_key(tenant, conversation_id, artifact.path),
                _content_key(tenant, artifact.id),
            )
        ]
        size = sum(artifact.size for artifact in artifacts)
        return [
            *(DeleteRecord(key) for key in keys),
            await take_from_conversation(self._records, tenant, conversation_id, size),
            await add_to_tenant(self._records, tenant, -size),
        ]

    async def _check_number(self, tenant: str, conversation_id: int) -> None:
        if await self._records.count(collection_of(ARTIFACTS, conversation_id), tenant) >= MAX_ARTIFACTS:
            raise StorageFullError(f"a conversation may have {MAX_ARTIFACTS} artifacts; delete one first")

    async def _find(self, tenant: str, conversation_id: int, path: str) -> StoredArtifact | None:
        record = await self._records.get(_path_key(tenant, conversation_id, path))
        return msgspec.convert(record.value, StoredArtifact) if record else None


def _encoded(content: str) -> bytes:
    try:
        encoded = content.encode()
    except UnicodeEncodeError:
        raise InvalidValueError("is not valid Unicode", "$.content") from None
    if len(encoded) > FILE_LIMIT:
        raise StorageFullError(f"a file may have {FILE_LIMIT} bytes, and this one has {len(encoded)}")
    return encoded


def _key(tenant: str, artifact_id: int) -> RecordKey:
    return RecordKey(ARTIFACTS, tenant, number_id(artifact_id))


def _path_key(tenant: str, conversation_id: int, path: str) -> RecordKey:
    return RecordKey(collection_of(ARTIFACTS, conversation_id), tenant, path)


def _content_key(tenant: str, artifact_id: int) -> RecordKey:
    return RecordKey(ARTIFACT_CONTENTS, tenant, number_id(artifact_id))
