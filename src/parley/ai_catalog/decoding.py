"""Reading a catalogue of another server: what is valid is kept, and what is not is reported with its JSON path.

A document that is not a catalogue at all is an error. An entry that is invalid, repeats another one or has a trust
manifest for another identifier is left out. Entries of unknown types are kept. The number of entries is bounded; the
caller bounds the bytes.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from parley.ai_catalog.model import AiCatalog, AiCatalogEntry, AiCatalogHost, AiCatalogPublisher, last_segment
from parley.network.urls import InvalidUrlError, parse_url
from parley.protocol.errors import PeerProtocolError
from parley.protocol.jsonvalue import JsonObject
from parley.safe_text import printable_line

MAX_ENTRIES = 10_000
"""Entries of one document: more than any directory of agents lists; the rest is reported."""

MAX_METADATA_BYTES = 64 * 1024
"""Of the metadata or the trust manifest of one entry. What is larger is not parsed: it would take memory and time."""

MAX_PROBLEMS = 100
"""Problems that are listed; the last one says how many more there are."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+")
_MAJOR = re.compile(r"1(\.\d{1,4}){0,2}")

Text = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Identifier = Annotated[str, Meta(min_length=1, max_length=2_048)]


class InvalidCatalogError(PeerProtocolError):
    """The document is not an AI Catalog."""


class ReadCatalog(Struct, frozen=True):
    """A catalogue without its invalid entries, and what is wrong with those."""

    catalog: AiCatalog
    problems: tuple[str, ...] = ()


class _WireHost(Struct, rename="camel"):
    display_name: Name
    identifier: Text | None = None
    documentation_url: Text | None = None
    logo_url: str | None = None


class _WirePublisher(Struct, rename="camel"):
    identifier: Identifier
    display_name: Name


class _WireEntry(Struct, rename="camel"):
    identifier: Identifier
    display_name: Name | None = None
    media_type: Name | None = None
    type: Name | None = None
    """As the later draft calls the media type."""
    url: str | None = None
    data: Raw | UnsetType = UNSET
    description: Text | None = None
    tags: Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=200)] | None = None
    version: Annotated[str, Meta(max_length=200)] | None = None
    updated_at: Annotated[str, Meta(max_length=100)] | None = None
    publisher: _WirePublisher | None = None
    metadata: Raw | UnsetType = UNSET
    trust_manifest: Raw | UnsetType = UNSET


class _WireCatalog(Struct, rename="camel"):
    spec_version: str
    entries: list[Raw]
    host: _WireHost | None = None
    metadata: Raw | UnsetType = UNSET


class _Invalid(Exception):
    """Why an entry is left out, and the path inside it."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def decode_catalog(body: bytes, *, max_entries: int = MAX_ENTRIES) -> ReadCatalog:
    """The catalogue in a document.

    Raises:
        InvalidCatalogError: it is not a catalogue, or of a major version that is not known.
    """
    wire = _decode(body)
    if not _MAJOR.fullmatch(wire.spec_version):
        raise InvalidCatalogError(f"The catalogue has the version {printable_line(wire.spec_version[:20])!r}, not 1.x")
    entries: dict[tuple[str, str | None], AiCatalogEntry] = {}
    problems: list[str] = []
    for number, raw in enumerate(wire.entries[:max_entries]):
        try:
            entry = _entry(raw)
            if (entry.identifier, entry.version) in entries:
                raise _Invalid("An entry before this one has the same identifier and version", ".identifier")
            entries[entry.identifier, entry.version] = entry
        except _Invalid as invalid:
            problems.append(f"$.entries[{number}]{invalid.path}: {invalid.reason}")
    if len(wire.entries) > max_entries:
        problems.insert(0, f"$.entries: Only the first {max_entries} of {len(wire.entries)} entries are read")
    metadata: JsonObject | None = None
    try:
        metadata = _object(wire.metadata, ".metadata")
    except _Invalid as invalid:
        problems.insert(0, f"${invalid.path}: {invalid.reason}")
    host = wire.host and AiCatalogHost(*[getattr(wire.host, name) for name in AiCatalogHost.__struct_fields__])
    catalog = AiCatalog(tuple(entries.values()), host, wire.spec_version, metadata or {})
    return ReadCatalog(catalog, bounded_problems(problems))


def bounded_problems(problems: list[str]) -> tuple[str, ...]:
    """The first problems, and how many more there are."""
    if len(problems) <= MAX_PROBLEMS:
        return tuple(problems)
    return (*problems[: MAX_PROBLEMS - 1], f"and {len(problems) - MAX_PROBLEMS + 1} more problems")


def _decode(body: bytes) -> _WireCatalog:
    try:
        return msgspec.json.decode(body, type=_WireCatalog)
    except msgspec.ValidationError as error:
        raise InvalidCatalogError(f"The document is not an AI Catalog: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidCatalogError("The document is not JSON") from None


def _entry(raw: Raw) -> AiCatalogEntry:
    """A valid entry. Raises _Invalid."""
    try:
        wire = msgspec.json.decode(raw, type=_WireEntry)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise _Invalid(reason, path.rstrip("`")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Invalid("It cannot be read") from None
    if not _URI.fullmatch(wire.identifier):
        raise _Invalid("It must be a URN or another URI", ".identifier")
    manifest = _object(wire.trust_manifest, ".trustManifest")
    _check_identity(wire.identifier, manifest)
    publisher = wire.publisher
    return AiCatalogEntry(
        identifier=wire.identifier,
        display_name=wire.display_name or last_segment(wire.identifier),
        media_type=_media_type(wire),
        url=_url(wire),
        data=bytes(wire.data) if isinstance(wire.data, Raw) else None,
        description=wire.description or "",
        tags=tuple(wire.tags or ()),
        version=wire.version,
        updated_at=wire.updated_at,
        publisher=publisher and AiCatalogPublisher(publisher.identifier, publisher.display_name),
        metadata=_object(wire.metadata, ".metadata") or {},
        trust_manifest=manifest,
    )


def _media_type(wire: _WireEntry) -> str:
    stated = {kind.partition(";")[0].strip().lower() for kind in (wire.media_type, wire.type) if kind}
    if not stated:
        raise _Invalid("The member is missing", ".mediaType")
    if len(stated) > 1:
        raise _Invalid("It differs from `type`", ".mediaType")
    return stated.pop()


def _url(wire: _WireEntry) -> str | None:
    if (wire.url is None) is (wire.data is UNSET):
        raise _Invalid("It must have either `url` or `data`")
    if wire.url is not None:
        try:
            parse_url(wire.url)
        except InvalidUrlError as error:
            raise _Invalid(error.message, ".url") from None
    return wire.url


def _object(raw: Raw | UnsetType, path: str) -> JsonObject | None:
    """A member that is a free-form object. Raises _Invalid."""
    if not isinstance(raw, Raw):
        return None
    if len(memoryview(raw)) > MAX_METADATA_BYTES:
        raise _Invalid(f"It has more than {MAX_METADATA_BYTES} bytes", path)
    try:
        return msgspec.json.decode(raw, type=dict[str, Any] | None)
    except msgspec.ValidationError as error:
        raise _Invalid(str(error), path) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Invalid("It cannot be read", path) from None


def _check_identity(identifier: str, manifest: JsonObject | None) -> None:
    """A trust manifest speaks for one identifier: one that was copied from another entry is a forgery."""
    if manifest is not None and manifest.get("identity") != identifier:
        raise _Invalid("It is not the entry's identifier", ".trustManifest.identity")
