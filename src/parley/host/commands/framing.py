"""The message that gives a model the results of its commands, each in a frame.

Whether a command succeeded is what the caller says, never what the text looks like. A text cannot forge a frame: its
lines that look like the start or end of one get a leading space. If all results together exceed the size limit, the
longest ones are shortened to the same length; commands whose results still do not fit are named.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate, chain

from msgspec import Struct

from parley.host.commands.syntax import Command

BODY_LIMIT = 16_384
"""The bytes of one result; results of sub-agents may be longer."""

MESSAGE_LIMIT = 32_768
"""The bytes of the whole message."""

_OPENING = "[TOOL RESULTS]\n"
_CLOSING = "[END TOOL RESULTS]"
_MARK = "\n... [truncated]"
_SHORTEST = 256
"""The bytes that every result of the message may have at least: less tells the model nothing."""
_MAX_LABEL = 200
_MAX_NAMES = 20
_MAX_NAME = 60
_NOTE_LIMIT = 6_144
"""An upper bound of the note's bytes: its names with four bytes a character, and the words around them."""

_SUB_AGENT_COMMANDS = ("agent", "parallel")
_ONE_LINERS = ("mem write", "mem clear", "mem shared write", "mem shared clear")
_FRAME_START = re.compile(
    r"(?:\A|(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]))(?=\[(?:/|END\b|CHILD [0-9]|TOOL RESULTS\b))", re.IGNORECASE
)
_STATUS_START = re.compile(r"\A(?=ERR:|SKIPPED:|UPSTREAM FAILED)")
_ADVICE = "UPSTREAM FAILED — the same request will fail again. Change it, ask another agent, or go on without it."


class ResultStatus(StrEnum):
    """How a command went."""

    OK = "ok"
    ERROR = "error"
    SKIPPED = "skipped"
    """It was not run: a budget is used up."""
    UPSTREAM_FAILED = "upstream_failed"
    """The agent or model that it asked failed."""


class ChildResult(Struct, frozen=True):
    """What one agent of a `/parallel` answered."""

    agent_id: str
    body: str
    status: ResultStatus = ResultStatus.OK


class ResultBlock(Struct, frozen=True):
    """What a command came to. The body has neither a frame nor a prefix such as `ERR:`."""

    command: Command
    body: str = ""
    status: ResultStatus = ResultStatus.OK
    children: tuple[ChildResult, ...] = ()
    """The results of a `/parallel` that was run; it has no body then."""


class _Section(Struct, frozen=True):
    """A text and the parts of frames around it, which are never shortened."""

    before: str
    text: str
    after: str

    @property
    def frame_bytes(self) -> int:
        return _bytes(self.before) + _bytes(self.after)

    def render(self, longest: int) -> str:
        text = self.text if _bytes(self.text) <= longest else _shortened(self.text, longest - len(_MARK))
        return f"{self.before}{text}{self.after}"


def frame_result(block: ResultBlock) -> str:
    """One result in its frame, followed by an empty line.

    `[/list]`, `notes.md`, `[END LIST]`
    """
    return "".join(f"{section.before}{section.text}{section.after}" for section in _sections(block))


def frame_results(blocks: Sequence[ResultBlock]) -> str:
    """The message for the model, of at most `MESSAGE_LIMIT` bytes."""
    framed = [_sections(block) for block in blocks]
    space = MESSAGE_LIMIT - len(_OPENING) - len(_CLOSING)
    note = ""
    least = list(accumulate(sum(_least_bytes(section) for section in sections) for sections in framed))
    if least and least[-1] > space:
        kept = bisect_right(least, space - _NOTE_LIMIT)
        framed, note = framed[:kept], _note([block.command for block in blocks[kept:]])
    sections = list(chain.from_iterable(framed))
    longest = _longest_text(sections, space - _bytes(note))
    return "".join([_OPENING, *(section.render(longest) for section in sections), note, _CLOSING])


def _longest_text(sections: Sequence[_Section], space: int) -> int:
    """The bytes that each text may have, so that all sections together fit."""
    sizes = [_bytes(section.text) for section in sections]
    for_texts = space - sum(section.frame_bytes for section in sections)
    levels = range(max(sizes, default=0) + 1)
    return bisect_right(levels, for_texts, key=lambda level: sum(min(size, level) for size in sizes)) - 1


def _least_bytes(section: _Section) -> int:
    return section.frame_bytes + min(_bytes(section.text), _SHORTEST)


def _note(missing: Sequence[Command]) -> str:
    names = [_cut(_label(command), _MAX_NAME) for command in missing[:_MAX_NAMES]]
    if len(missing) > _MAX_NAMES:
        names.append(f"and {len(missing) - _MAX_NAMES} more")
    return f"[TOOL RESULTS TRUNCATED: there is no room for the results of {', '.join(names)}]\n\n"


def _sections(block: ResultBlock) -> list[_Section]:
    command = block.command
    label = _label(command)
    if label.removeprefix("/") in _ONE_LINERS:
        return [_one_line(label, block)]
    opening, end = f"[{label}]\n", f"[END {_end_name(command)}]\n\n"
    if not block.children:
        text = _harmless(block.body, block.status)
        if command.name not in _SUB_AGENT_COMMANDS:
            text = _capped(text)
        return [_Section(opening + _prefix(block.status), text, f"\n{_advice(block.status)}{end}")]
    sections: list[_Section] = []
    for number, child in enumerate(block.children, 1):
        is_last = number == len(block.children)
        heading = f"[child {number}/{len(block.children)} — /agent {_cut(child.agent_id, _MAX_LABEL)}]\n"
        closing = f"[END CHILD {number}]\n{end if is_last else ''}"
        sections.append(
            _Section(
                f"{opening}{heading}{_prefix(child.status)}",
                _harmless(child.body, child.status),
                f"\n{_advice(child.status)}{closing}",
            )
        )
        opening = ""
    return sections


def _one_line(label: str, block: ResultBlock) -> _Section:
    text = _capped(" ".join(block.body.split()))
    prefix = _prefix(block.status) or ("OK: " if text else "OK")
    return _Section(f"[{label}] {prefix}", text, "\n\n")


def _label(command: Command) -> str:
    """The command as its frame names it; the text of a scratchpad is not repeated."""
    words = command.args.split()
    if command.name == "mem":
        for form in _ONE_LINERS:
            subcommand = form.split()[1:]
            if words[: len(subcommand)] == subcommand:
                return f"/{form}"
    return _cut(" ".join([f"/{command.name}", *words]), _MAX_LABEL)


def _end_name(command: Command) -> str:
    if command.name != "mem":
        return command.name.upper()
    return "SHARED MEMORY" if command.args.split()[:1] == ["shared"] else "MEMORY"


def _prefix(status: ResultStatus) -> str:
    match status:
        case ResultStatus.OK:
            return ""
        case ResultStatus.SKIPPED:
            return "SKIPPED: "
        case ResultStatus.ERROR | ResultStatus.UPSTREAM_FAILED:
            return "ERR: "


def _advice(status: ResultStatus) -> str:
    return f"{_ADVICE}\n" if status is ResultStatus.UPSTREAM_FAILED else ""


def _harmless(body: str, status: ResultStatus) -> str:
    """A body without lines that look like frames, or like the failure of a command that succeeded."""
    text = _FRAME_START.sub(" ", body.rstrip("\n"))
    return _STATUS_START.sub(" ", text) if status is ResultStatus.OK else text


def _capped(text: str) -> str:
    return text if _bytes(text) <= BODY_LIMIT else _shortened(text, BODY_LIMIT)


def _shortened(text: str, size: int) -> str:
    """The first bytes of a text, cut between characters, and the mark of a shortened text."""
    return text.encode(errors="replace")[:size].decode(errors="ignore") + _MARK


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
