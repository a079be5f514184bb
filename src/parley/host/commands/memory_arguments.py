"""The arguments of `/mem` as typed values, checked: scratchpads, and entries with links between them."""

from __future__ import annotations

from collections.abc import Callable

from parley.host.commands.argument_checks import (
    first_word,
    id_of,
    misuse,
    number_in_range,
    require_closed_block,
    require_nothing,
    unknown_subcommand,
)
from parley.host.commands.memory_commands import (
    AddEntry,
    AddLink,
    ClearScratchpad,
    ExpandEntry,
    InvalidateEntry,
    ListEntries,
    MeasureDensity,
    MemoryCommand,
    ReadScratchpad,
    SearchEntries,
    ShowEntry,
    WriteScratchpad,
)
from parley.host.commands.syntax import Command
from parley.host.commands.usage import ENTRY_TYPES, MAX_EXPAND_DEPTH, RELATIONS
from parley.protocol.errors import quoted


def parse_memory_command(command: Command) -> MemoryCommand:
    """What `/mem` asks for.

    Raises:
        CommandSyntaxError: the subcommand is unknown, or its arguments are invalid.
    """
    subcommand, rest = first_word(command.args)
    if subcommand == "add":
        return _parse_add(command, rest)
    parse = _PARSERS.get(subcommand)
    if parse is None:
        raise unknown_subcommand(command)
    return parse(rest)


def _parse_read(rest: str) -> ReadScratchpad:
    require_nothing(rest, "mem read")
    return ReadScratchpad()


def _parse_write(rest: str) -> WriteScratchpad:
    if not rest:
        raise misuse("mem write", "The text is required.")
    return WriteScratchpad(rest)


def _parse_clear(rest: str) -> ClearScratchpad:
    require_nothing(rest, "mem clear")
    return ClearScratchpad()


def _parse_shared(rest: str) -> ReadScratchpad | WriteScratchpad | ClearScratchpad:
    action, text = first_word(rest)
    match action:
        case "write" if text:
            return WriteScratchpad(text, is_shared=True)
        case "read" if not text:
            return ReadScratchpad(is_shared=True)
        case "clear" if not text:
            return ClearScratchpad(is_shared=True)
        case _:
            raise misuse("mem shared", f"Invalid arguments: '{quoted(rest)}'." if rest else "An action is required.")


def _parse_entries(rest: str) -> ListEntries:
    types: list[str] = []
    tag = None
    for word in rest.split():
        if word.startswith("tag="):
            tag = word.removeprefix("tag=")
        else:
            # Agents also write `type=project`, as the parameter of the native API is called.
            types += [name for name in word.removeprefix("type=").split(",") if name]
    if tag == "":
        raise misuse("mem entries", "The tag is empty.")
    for name in types:
        _require_type(name, "mem entries")
    return ListEntries(tuple(types), tag)


def _parse_search(rest: str) -> SearchEntries:
    words = rest.split()
    query = " ".join(word for word in words if word != "--rerank")
    if not query:
        raise misuse("mem search", "The query is required.")
    return SearchEntries(query, is_reranked="--rerank" in words)


def _parse_expand(rest: str) -> ExpandEntry:
    word, option = first_word(rest)
    entry_id = id_of(word, "mem expand")
    if not option:
        return ExpandEntry(entry_id)
    depth = number_in_range(option.removeprefix("depth="), MAX_EXPAND_DEPTH)
    if depth is None or not option.startswith("depth="):
        raise misuse("mem expand", f"Invalid option: '{quoted(option)}'.")
    return ExpandEntry(entry_id, depth)


def _parse_add(command: Command, rest: str) -> AddEntry | AddLink:
    kind, rest = first_word(rest)
    match kind:
        case "entry":
            return _parse_add_entry(command, rest)
        case "link":
            return _parse_add_link(rest)
        case _:
            raise unknown_subcommand(command)


def _parse_add_entry(command: Command, rest: str) -> AddEntry:
    form = "mem add entry"
    require_closed_block(command, form, "/endmem")
    type_, rest = first_word(rest)
    _require_type(type_, form)
    title: list[str] = []
    artifact_id, supersedes = None, ()
    words = iter(rest.split())
    for word in words:
        match word:
            case "--artifact":
                artifact_id = id_of(next(words, ""), form)
            case "--supersedes":
                supersedes = tuple(id_of(id, form) for id in next(words, "").split(","))
            case _ if word.startswith("--"):
                raise misuse(form, f"Unknown option: '{quoted(word)}'.")
            case _:
                title.append(word)
    if not title:
        raise misuse(form, "The title is required.")
    if not command.body.strip():
        raise misuse(form, "The content is required: the lines between the first line and /endmem.")
    return AddEntry(type_, " ".join(title), command.body, artifact_id, supersedes)


def _parse_add_link(rest: str) -> AddLink:
    form = "mem add link"
    words = rest.split()
    if len(words) != 3:
        raise misuse(form, "Two ids with a relation between them are required.")
    source, relation, target = words
    if relation not in RELATIONS:
        raise misuse(form, f"Unknown relation: '{quoted(relation)}'. Known are {', '.join(RELATIONS)}.")
    return AddLink(id_of(source, form), relation, id_of(target, form))


def _require_type(name: str, form: str) -> None:
    if name not in ENTRY_TYPES:
        problem = f"Unknown type: '{quoted(name)}'." if name else "The type is required."
        raise misuse(form, f"{problem} Known are {', '.join(ENTRY_TYPES)}.")


_PARSERS: dict[str, Callable[[str], MemoryCommand]] = {
    "read": _parse_read,
    "show": _parse_read,
    "write": _parse_write,
    "clear": _parse_clear,
    "shared": _parse_shared,
    "entries": _parse_entries,
    "entry": lambda rest: ShowEntry(id_of(rest, "mem entry")),
    "search": _parse_search,
    "expand": _parse_expand,
    "density": lambda rest: MeasureDensity(id_of(rest, "mem density")),
    "invalidate": lambda rest: InvalidateEntry(id_of(rest, "mem invalidate")),
}
