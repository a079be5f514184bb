"""What capabilities grant, how cards show them, and what agents are told about commands."""

from __future__ import annotations

import pytest

from parley.host.commands.argument_checks import CommandSyntaxError
from parley.host.commands.capabilities import BUNDLES, is_allowed, skill_of
from parley.host.commands.help_text import command_inventory, help_text
from parley.host.commands.syntax import COMMAND_NAMES
from parley.host.commands.usage import FORMS

WORKING = {"agent", "parallel", "a2a", "mcp", "mem", "search", "fetch", "write", "read", "list", "advise", "help"}


def allowed(*capabilities: str) -> set[str]:
    return {name for name in COMMAND_NAMES if is_allowed(capabilities, name)}


def test_every_command_but_help_is_in_one_bundle() -> None:
    assert sorted(name for bundle in BUNDLES.values() for name in bundle) == sorted(COMMAND_NAMES - {"help"})


def test_an_agent_without_capabilities_may_use_everything() -> None:
    assert allowed() == COMMAND_NAMES


def test_one_command_of_a_bundle_grants_the_bundle_and_nothing_else() -> None:
    assert allowed("/search") == {"search", "fetch", "browse", "help"}
    assert allowed("/parallel", "/write --persist") == {"agent", "parallel", "pane", "write", "help"}


@pytest.mark.parametrize("word", ["research", "web", "fetch", "/fetcher", "", "/"])
def test_words_that_are_not_commands_grant_nothing(word: str) -> None:
    assert allowed(word) == {"help"}


@pytest.mark.parametrize(
    ("capability", "skill_id"),
    [
        ("/fetch", "fetch-url"), ("/search", "web-search"), ("/browse", "browse-page"), ("/exec", "shell-exec"),
        ("/write", "write-file"), ("/read", "read-file"), ("/list", "list-files"), ("/map", "workspace-map"),
        ("/mem", "memory"), ("/mcp", "mcp-tools"), ("/agent", "delegate"), ("/parallel", "parallel-fanout"),
        ("/advise", "advisor-consult"), ("/todo", "todos"), ("/schedule", "schedule"), ("/lesson", "lessons"),
        ("/a2a", "a2a"), ("/pane", "pane"), ("research", "research"), ("/", "capability"), ("", "capability"),
    ],
)  # fmt: skip
def test_a_capability_becomes_a_skill(capability: str, skill_id: str) -> None:
    id, description = skill_of(capability)
    assert id == skill_id
    assert description


def test_the_prompt_lists_the_forms_that_the_agent_may_use() -> None:
    assert command_inventory(["/search"]).split("\n") == [
        "/search <query> [top=N] — Search the web for N results (1 to 20, by default 10). "
        "Example: /search agent2agent protocol specification top=5",
        "/fetch <url> — Get the text of a web page. Example: /fetch https://example.com/",
        "/help [<command>] — Explain the commands, or one of them. Example: /help mem",
    ]


def test_the_prompt_shows_blocks_as_they_must_be_written() -> None:
    assert "Example:\n/write --persist notes/plan.md\n# Plan\n1. Ask the user.\n/endwrite" in command_inventory(
        ["/write"]
    )


def test_prompt_and_help_know_exactly_the_commands_that_work_here() -> None:
    assert {key.split()[0] for key in FORMS} == WORKING
    overview = help_text("", []).split("\n")
    assert {line.split()[0].removeprefix("/") for line in overview[:-1]} == WORKING


def test_help_about_a_command_shows_its_forms_and_limits() -> None:
    text = help_text("search", [])
    assert text.startswith("/search <query> [top=N] — ")
    assert "4 searches per turn" in text
    assert "/mem add entry <type> <title>" in help_text("mem", [])
    assert help_text("help", []).startswith("/help")


@pytest.mark.parametrize("topic", ["exec", "dance", "mem"])
def test_help_about_a_command_that_the_agent_does_not_have_names_those_it_has(topic: str) -> None:
    with pytest.raises(CommandSyntaxError, match=rf"'{topic}'.*/help \[search \| fetch \| help\]"):
        help_text(topic, ["/fetch"])
