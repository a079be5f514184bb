"""What structured memory consists of: entries, which are facts of a type, and links between them.

An entry is valid from `valid_from` until it is invalidated. It stays in the store then, so that a reader can see what
was believed earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from parley.host.data.errors import AlreadyExistsError, InvalidValueError, LimitReachedError, NotFoundError

EntryType: TypeAlias = Literal["user", "feedback", "project", "reference", "learning", "context"]
Relation: TypeAlias = Literal["relates_to", "refines", "contradicts", "supersedes", "supports"]

ENTRY_TYPES: tuple[str, ...] = get_args(EntryType)
RELATIONS: tuple[str, ...] = get_args(Relation)

MAX_TITLE = 200
MAX_CONTENT = 64 * 1024
MAX_SOURCE = 200
MAX_TAGS = 32
MAX_TAG = 64


class MemoryEntryNotFoundError(NotFoundError):
    """There is no such memory entry."""


class LinkExistsError(AlreadyExistsError):
    """The two entries are linked by this relation already. `existing` is that link."""

    def __init__(self, existing: MemoryLink) -> None:
        super().__init__(f"{existing.source_id} {existing.relation} {existing.target_id} already")
        self.existing = existing


class InvalidMemoryError(InvalidValueError):
    """A member of an entry or of a link is not valid."""


class MemoryFullError(LimitReachedError):
    """The tenant has as many entries, or an entry as many links, as it may have."""


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """One fact. Times are seconds since 1970."""

    id: int
    type: EntryType
    title: str
    content: str = ""
    source: str = ""
    """Where it comes from, in any words."""
    tags: tuple[str, ...] = ()
    artifact_id: int | None = None
    conversation_id: int | None = None
    """The conversation in which it was written: there it is found before others. None: it belongs to none."""
    valid_from: int
    valid_to: int | None = None
    """When it was invalidated."""
    created_at: int
    updated_at: int

    @property
    def is_valid(self) -> bool:
        """Whether it was not invalidated."""
        return self.valid_to is None

    def was_valid_at(self, moment: int) -> bool:
        """Whether it was valid at a second. At that of its invalidation it was not."""
        return self.valid_from <= moment and (self.valid_to is None or moment < self.valid_to)

    @property
    def size(self) -> int:
        """The bytes of its texts."""
        return sum(len(text.encode()) for text in (self.title, self.content, self.source, *self.tags))


class MemoryLink(Struct, frozen=True, kw_only=True):
    """A directed relation between two entries."""

    id: int
    source_id: int
    relation: Relation
    target_id: int
    created_at: int

    def other_end(self, entry_id: int) -> int:
        """The entry at the end of the link that is not this one."""
        return self.target_id if entry_id == self.source_id else self.source_id


def check_entry(type: str, title: str, content: str, source: str, tags: Sequence[str]) -> None:
    """Refuse an entry with a member that is not valid.

    Raises:
        InvalidMemoryError: the path names the member.
    """
    check_type(type)
    _check(len(title.strip()) > 0 and len(title) <= MAX_TITLE, f"must be 1 to {MAX_TITLE} characters", "$.title")
    _check(len(source) <= MAX_SOURCE, f"must be at most {MAX_SOURCE} characters", "$.source")
    is_tags = len(tags) <= MAX_TAGS and all(len(tag.strip()) > 0 and len(tag) <= MAX_TAG for tag in tags)
    _check(is_tags, f"must be at most {MAX_TAGS} tags of 1 to {MAX_TAG} characters", "$.tags")
    try:
        sizes = [len(text.encode()) for text in (content, title, source, *tags)]
    except UnicodeEncodeError:
        raise InvalidMemoryError("is not valid Unicode") from None
    _check(sizes[0] <= MAX_CONTENT, f"must be at most {MAX_CONTENT} bytes", "$.content")


def check_type(type: str) -> None:
    """Refuse what is not a type of entries.

    Raises:
        InvalidMemoryError: it is none.
    """
    _check(type in ENTRY_TYPES, f"must be one of: {', '.join(ENTRY_TYPES)}", "$.type")


def check_link(source_id: int, relation: str, target_id: int) -> None:
    """Refuse a link that cannot be.

    Raises:
        InvalidMemoryError: there is no such relation, or the two entries are one.
    """
    _check(relation in RELATIONS, f"must be one of: {', '.join(RELATIONS)}", "$.relation")
    _check(source_id != target_id, "must be another entry than the source", "$.target_id")


def _check(is_valid: bool, reason: str, path: str) -> None:
    if not is_valid:
        raise InvalidMemoryError(reason, path)
