"""The keys of a store: they are checked when it opens, and secrets that are plain, or under older keys, are renewed.

The record `store_keys/ID` says that the store may hold values under a key. It is written before the key encrypts
anything, so a store that was opened without one of its keys is found out at once, and not when a webhook is called.

Secrets are renewed in pages, after opening and when the file of keys changes. Each row is replaced only if it is still
what was read. So a pass may end anywhere, and the next one begins from the start: rows that are done are only read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

from msgspec import Struct

from parley.sealed.errors import SecretError
from parley.sealed.keys import StoreKey
from parley.sealed.sealer import Sealer
from parley.sealed.sources import KeyFile, KeySource
from parley.stores.interface import DeleteRecord, PutRecord, RecordKey, Records, StoreError
from parley.stores.secret_fields import SECRET_RECORDS, RowKey, renewed_item, renewed_record, renewed_webhook

logger = logging.getLogger(__name__)

STORE_KEYS = "store_keys"
"""The collection of the ids of keys that a store may hold values of."""

PAGE = 200
"""Rows that are read at a time: their writes take some milliseconds, between which others write."""

LOOK_SECONDS = 30.0
"""How often the sources of keys are read again."""


class SealedTable(Struct, frozen=True):
    """A table with secrets: its key, the column with the secrets, and how a text of that is renewed."""

    name: str
    key: tuple[str, str, str]
    column: str
    renew: Callable[[Sealer, RowKey, str], str]
    condition: str = "TRUE"
    """Which of its rows have secrets, in SQL."""


SECRET_TABLES = (
    SealedTable("push_configs", ("tenant", "task", "id"), "config", renewed_webhook),
    SealedTable(
        "records",
        ("collection", "tenant", "id"),
        "value",
        renewed_record,
        f"collection IN {tuple(SECRET_RECORDS)!r}",
    ),
    SealedTable("inbox", ("tenant", "task", "id"), "item", renewed_item),
)

TEXT_COLUMNS = (
    ("push_configs", "config", "webhooks"),
    ("records", "value", "records"),
    ("inbox", "item", "messages that wait"),
    ("events", "events", "writes of events"),
    ("snapshots", "snapshot", "snapshots"),
    ("context_values", "value", "values of conversations"),
)
"""Where encrypted values may be, and what the rows are called."""

Renewal: TypeAlias = tuple[RowKey, str, str]
"""The key of a row, what it was, and what it becomes."""


class SecretRows(Protocol):
    """The rows with secrets of one database."""

    async def page(self, table: SealedTable, after: RowKey | None, limit: int) -> Sequence[tuple[RowKey, str]]:
        """Rows after a key, in the order of their keys."""
        ...

    async def key_ids(self) -> Sequence[str]:
        """The keys that the store may hold values of."""
        ...

    async def replace(self, table: SealedTable, renewals: Sequence[Renewal]) -> None:
        """Replace rows that are still what they were, in one transaction."""
        ...

    async def erase_old(self) -> None:
        """Make what rows were before they were replaced unreadable, as far as the database can."""
        ...

    async def count_with(self, text: str) -> dict[str, int]:
        """How many rows of `TEXT_COLUMNS` contain a text, by what they are called, without those that have none."""
        ...


class StoreSecrets:
    """The keys of one store, and the work of renewing its secrets."""

    def __init__(
        self,
        sealer: Sealer,
        rows: SecretRows,
        records: Records,
        *,
        source: KeySource | None,
        beside: KeyFile | None = None,
    ) -> None:
        """Keys come from `source`. `beside` is the file beside the store: without a source, it is made and used.

        With a source, the keys of that file still decrypt, so that a store can be given another source.
        """
        self._sealer = sealer
        self._rows = rows
        self._records = records
        self._source = source
        self._beside = beside
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read the keys, check that none is missing, and begin to renew secrets in the background.

        Raises:
            SecretError: a key cannot be read, or the store holds secrets under a key that is missing.
        """
        registered = await self._rows.key_ids()
        keys = self._read()
        self._sealer.add(keys or ())
        missing = await self._missing(registered)
        if missing:
            raise SecretError(self._complaint(missing))
        keys = keys or self._made()
        if isinstance(self._source, KeyFile) and self._source.is_exposed:
            logger.warning("Every user of this machine can read the keys in %s", self._source.name)
        if not keys:
            logger.warning("Secrets in the store are not encrypted. Name a file with a key: --store-key FILE")
            return
        await self._use(keys[0])
        is_complete = await self.renew(at_most_one_page=True)
        self._renewing = asyncio.create_task(self._keep_renewed(is_complete))

    async def close(self) -> None:
        """End the work in the background; the next process goes on with it."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _read(self) -> tuple[StoreKey, ...] | None:
        """The keys, the one that encrypts first; None if no source is given and there is no file beside the store."""
        beside = self._beside.read() if self._beside is not None else None
        if self._source is None:
            return beside
        keys = self._source.read()
        if keys is None:
            raise SecretError(
                f"{self._source.name} does not exist, and --store-key names it. It must hold the keys that all "
                "processes on the store have. The first one is made with: openssl rand -base64 32"
            )
        return (*keys, *(beside or ()))

    def _made(self) -> tuple[StoreKey, ...] | None:
        """A new key in the file beside the store; None if there is no place beside the store."""
        if self._beside is None:
            return None
        if self._beside.make():
            text = "The secrets in the store are encrypted with a new key in %s. Keep a copy of it, apart from backups"
            logger.warning(text, self._beside.path)
        return self._beside.read()

    async def _missing(self, registered: Sequence[str]) -> dict[str, dict[str, int]]:
        """The keys that are not here and that the store holds values of, with how many. Unused ones are forgotten."""
        missing: dict[str, dict[str, int]] = {}
        for key_id in registered:
            if key_id in self._sealer.key_ids:
                continue
            if used := await self._rows.count_with(f"parley-sealed.1.{key_id}."):
                missing[key_id] = used
            else:
                await self._records.write(DeleteRecord(RecordKey(STORE_KEYS, "", key_id)))
        return missing

    def _complaint(self, missing: dict[str, dict[str, int]]) -> str:
        parts = [
            f"key {key_id} ({', '.join(f'{number} {name}' for name, number in used.items())})"
            for key_id, used in missing.items()
        ]
        names = [source.name for source in (self._source, self._beside) if source is not None]
        known = ", ".join(self._sealer.key_ids) or "no key"
        where = f"{' and '.join(names)} {'hold' if len(names) > 1 else 'holds'} {known}" if names else "there is no key"
        return (
            f"The store holds secrets encrypted with {' and '.join(parts)}, and {where}. Restore the key from its "
            "copy, or name its file with --store-key. docs/secrets.md says what to do if it is lost."
        )

    async def _use(self, key: StoreKey) -> None:
        """Encrypt with a key, once the store says so."""
        self._sealer.add([key])
        name = RecordKey(STORE_KEYS, "", key.id)
        if await self._records.get(name) is None:
            await self._records.write(PutRecord(name, {}))
        self._sealer.use(key.id)

    # --- renewing -----------------------------------------------------------------------------------------------------

    async def _keep_renewed(self, is_complete: bool) -> None:
        """Renew what is left, and everything again each time another key comes first."""
        while True:
            try:
                if not is_complete:
                    await self.renew()
                    is_complete = True
            except StoreError as error:  # the next look tries again
                logger.error("The secrets in the store could not be encrypted again: %s", error)
            await asyncio.sleep(LOOK_SECONDS)
            try:
                is_complete = not await self.look_for_keys() and is_complete
            except StoreError as error:
                logger.error("The keys of the store could not be read again; the earlier ones are used: %s", error)

    async def look_for_keys(self) -> bool:
        """Read the sources again; whether another key encrypts from now on. Raises StoreError."""
        keys = await asyncio.to_thread(self._read)
        if keys is None:
            raise SecretError("The file with the keys is gone. Restore it.")
        self._sealer.add(keys)
        if keys[0].id == self._sealer.current:
            return False
        await self._use(keys[0])
        return True

    async def renew(self, *, at_most_one_page: bool = False) -> bool:
        """Renew the secrets of all rows, or of a page of each table; whether that was all. Raises StoreError."""
        count, is_complete = 0, True
        for table in SECRET_TABLES:
            after: RowKey | None = None
            while True:
                page = await self._rows.page(table, after, PAGE)
                renewals = [(key, text, new) for key, text in page if (new := self._renewed(table, key, text)) != text]
                if renewals:
                    await self._rows.replace(table, renewals)
                    count += len(renewals)
                if len(page) < PAGE:
                    break
                after, _ = page[-1]
                if at_most_one_page:
                    is_complete = False
                    break
        if count:
            await self._rows.erase_old()
            logger.info("Encrypted the secrets of %d rows with key %s", count, self._sealer.current)
        return is_complete

    def _renewed(self, table: SealedTable, key: RowKey, text: str) -> str:
        try:
            return table.renew(self._sealer, key, text)
        except StoreError as error:  # one row must not keep the others from being encrypted
            logger.error("A secret of %s %s stays as it is: %s", table.name, "/".join(key), error)
            return text
