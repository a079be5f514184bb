"""What `/mem` can be asked to do: one value for each subcommand. `memory_arguments` makes them."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class ReadScratchpad(Struct, frozen=True):
    """`/mem read`, `/mem show`, `/mem shared read`."""

    is_shared: bool = False


class WriteScratchpad(Struct, frozen=True):
    """`/mem write`, `/mem shared write`."""

    text: str
    is_shared: bool = False


class ClearScratchpad(Struct, frozen=True):
    """`/mem clear`, `/mem shared clear`."""

    is_shared: bool = False


class ListEntries(Struct, frozen=True):
    """`/mem entries`; without types, entries of all types."""

    types: tuple[str, ...] = ()
    tag: str | None = None


class ShowEntry(Struct, frozen=True):
    """`/mem entry`."""

    entry_id: str


class SearchEntries(Struct, frozen=True):
    """`/mem search`."""

    query: str
    is_reranked: bool = False


class ExpandEntry(Struct, frozen=True):
    """`/mem expand`."""

    entry_id: str
    depth: int = 1


class MeasureDensity(Struct, frozen=True):
    """`/mem density`."""

    entry_id: str


class AddEntry(Struct, frozen=True):
    """`/mem add entry`."""

    type: str
    title: str
    content: str
    artifact_id: str | None = None
    supersedes: tuple[str, ...] = ()


class AddLink(Struct, frozen=True):
    """`/mem add link`."""

    source_id: str
    relation: str
    target_id: str


class InvalidateEntry(Struct, frozen=True):
    """`/mem invalidate`."""

    entry_id: str


MemoryCommand: TypeAlias = (
    ReadScratchpad
    | WriteScratchpad
    | ClearScratchpad
    | ListEntries
    | ShowEntry
    | SearchEntries
    | ExpandEntry
    | MeasureDensity
    | AddEntry
    | AddLink
    | InvalidateEntry
)
