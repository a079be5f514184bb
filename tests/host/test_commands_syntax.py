"""From replies to commands: which lines are commands, and what belongs to them."""

from __future__ import annotations

import pytest

from parley.host.commands.syntax import COMMAND_NAMES, Command, parse_commands


def test_commands_are_found_between_lines_of_text() -> None:
    reply = "I will ask.\n/agent currency 100 USD in EUR  \r\nAnd then:\n/list\n"
    assert parse_commands(reply) == [
        Command("agent", "currency 100 USD in EUR", line="/agent currency 100 USD in EUR"),
        Command("list", line="/list"),
    ]


@pytest.mark.parametrize("name", sorted(COMMAND_NAMES))
def test_every_name_of_the_language_is_a_command(name: str) -> None:
    assert parse_commands(f"/{name}\tx")[0].name == name


@pytest.mark.parametrize(
    "line", [" /list", "- /list", "/lists", "/list.", "/list/all", "/etc/hosts", "/LIST", "//list", "/", "/endwrite"]
)
def test_a_line_that_does_not_start_with_a_known_command_is_text(line: str) -> None:
    assert parse_commands(line) == []


def test_fenced_lines_are_not_commands_until_the_same_fence_closes() -> None:
    reply = "```sh\n/list\n~~~\n/list\n```\n/read a\n~~~\n/list\n```\n/list"
    assert [command.line for command in parse_commands(reply)] == ["/read a"]


def test_a_block_keeps_its_lines_as_they_are_up_to_its_end_marker() -> None:
    reply = "/write --persist a.md\n# A  \r\n```\n/list\n\n/endwrite \r\n/list"
    assert parse_commands(reply) == [
        Command("write", "--persist a.md", "# A  \n```\n/list\n", line="/write --persist a.md"),
        Command("list", line="/list"),
    ]


@pytest.mark.parametrize("tail", ["", "\n", "\n/endmem x", "\n/endwri"])
def test_a_block_without_its_end_marker_is_truncated(tail: str) -> None:
    (command,) = parse_commands(f"/write a\none{tail}")
    assert command.is_truncated
    assert command.body == f"one{tail}".removesuffix("\n")


def test_only_mem_add_entry_is_a_block_of_mem() -> None:
    reply = "/mem  add entry user Name\nAda\n/endmem\n/mem add link 1 supports 2\n/parallel\n/agent a b\n/endparallel"
    assert [(command.args, command.body) for command in parse_commands(reply)] == [
        ("add entry user Name", "Ada"),
        ("add link 1 supports 2", ""),
        ("", "/agent a b"),
    ]
