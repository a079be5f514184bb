"""What users see of a stream: the text without commands, the same for all ways to cut it, and as early as possible."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.host.commands.syntax import Command, parse_commands
from parley.host.commands.visible_text import VisibleText

lines = st.sampled_from(
    [
        "", "Hello", "/list", "/lis", "/listen", "/agent a b", "  /list", "/", "/write a.md", "/endwrite", "/endwrite ",
        "/mem read", "/mem add entry user A", "/endmem", "/parallel", "/endparallel", "```", "```py", "~~~", "`",
        "/list\r", "é/list", "/exec ls",
    ]
)  # fmt: skip
replies = st.lists(lines | st.text("/al ist`~\r\n", max_size=8), max_size=12).map("\n".join)


def visible(pieces: list[str]) -> str:
    text = VisibleText()
    return "".join([*map(text.feed, pieces), text.flush()])


@st.composite
def cut_replies(draw: st.DrawFn) -> list[str]:
    reply = draw(replies)
    cuts = sorted(draw(st.sets(st.integers(0, len(reply)), max_size=8)))
    return [reply[start:end] for start, end in zip([0, *cuts], [*cuts, len(reply)], strict=True)]


@given(cut_replies())
def test_the_text_does_not_depend_on_how_the_reply_is_cut(pieces: list[str]) -> None:
    reply = "".join(pieces)
    assert visible(pieces) == visible([reply]) == visible(list(reply))


def lines_of(command: Command) -> list[str]:
    end_marker = (
        [] if command.is_truncated or command.name not in ("write", "mem", "parallel") else [f"/end{command.name}"]
    )
    is_block = command.name in ("write", "parallel") or command.args.split()[:2] == ["add", "entry"]
    return [command.line, *command.body.split("\n"), *(end_marker if is_block else [])]


def counted(texts: list[str]) -> Counter[str]:
    return Counter(text.rstrip(" \t\r") for text in texts if text.rstrip(" \t\r"))


@given(replies)
def test_every_line_is_either_shown_or_part_of_a_command(reply: str) -> None:
    shown = visible([reply]).split("\n")
    run = [line for command in parse_commands(reply) for line in lines_of(command)]
    assert counted(shown) + counted(run) == counted(reply.split("\n"))


@given(replies)
def test_the_text_keeps_the_order_of_the_reply(reply: str) -> None:
    characters = iter(reply)
    assert all(character in characters for character in visible([reply]))


@pytest.mark.parametrize(
    ("reply", "released"),
    [
        ("Hi", ["H", "i"]),
        ("/li!", ["", "", "", "/li!"]),
        ("/x/", ["", "/x", "/"]),
        ("/list", ["", "", "", "", ""]),
        ("a\n/list\nb", ["a", "\n", "", "", "", "", "", "", "b"]),
        ("```\n/l", ["`", "`", "`", "\n", "/", "l"]),
        (" /l", [" ", "/", "l"]),
    ],
)
def test_a_character_is_released_as_soon_as_its_line_cannot_be_a_command(reply: str, released: list[str]) -> None:
    text = VisibleText()
    assert [text.feed(character) for character in reply] == released


def test_blocks_are_hidden_and_fenced_and_indented_commands_are_shown() -> None:
    reply = "Here:\n/write a.md\nsecret\n```\n/endwrite\n```\n/list\n```\n  /list\nDone"
    assert visible([reply]) == "Here:\n```\n/list\n```\n  /list\nDone"


def test_the_start_of_a_command_at_the_end_of_the_reply_is_text_unless_it_is_a_whole_command() -> None:
    assert visible(["a\n/lis"]) == "a\n/lis"
    assert visible(["a\n/list"]) == "a\n"


def test_a_continued_reply_stays_in_its_block() -> None:
    text = VisibleText()
    assert text.feed("/write a\none") + text.feed(" more\n/endwrite\nDone") + text.flush() == "Done"
