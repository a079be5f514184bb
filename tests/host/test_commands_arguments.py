"""The arguments of commands as typed values, and errors that state the right syntax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from parley.host.commands.argument_checks import CommandSyntaxError
from parley.host.commands.arguments import (
    ArtifactToRead,
    CallRemoteAgent,
    FileToRead,
    FileToWrite,
    ListRemoteAgents,
    SearchQuery,
    ShowRemoteCard,
    SubAgentCall,
    parse_a2a,
    parse_advise,
    parse_agent,
    parse_fetch,
    parse_help,
    parse_parallel,
    parse_read,
    parse_search,
    parse_write,
)
from parley.host.commands.mcp_arguments import CallMcpTool, ListMcpTools, parse_mcp
from parley.host.commands.memory_arguments import parse_memory_command
from parley.host.commands.memory_commands import (
    AddEntry,
    AddLink,
    ClearScratchpad,
    ExpandEntry,
    InvalidateEntry,
    ListEntries,
    MeasureDensity,
    ReadScratchpad,
    SearchEntries,
    ShowEntry,
    WriteScratchpad,
)
from parley.host.commands.syntax import Command, parse_commands
from parley.host.commands.usage import FORMS

PARSERS: dict[str, Callable[[Command], object]] = {
    "agent": parse_agent,
    "parallel": parse_parallel,
    "a2a": parse_a2a,
    "mcp": parse_mcp,
    "search": parse_search,
    "fetch": parse_fetch,
    "write": parse_write,
    "read": parse_read,
    "mem": parse_memory_command,
    "advise": parse_advise,
    "help": parse_help,
}


def parsed(reply: str) -> Any:
    (command,) = parse_commands(reply)
    return PARSERS[command.name](command)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("/agent dates days  until Friday", SubAgentCall("dates", "days  until Friday")),
        ("/agent\tdates\tnow", SubAgentCall("dates", "now")),
        ("/parallel\n/agent a one\n# no\n  /agent x y\n/agent b two\n/endparallel",
         (SubAgentCall("a", "one"), SubAgentCall("b", "two"))),
        ("/a2a list", ListRemoteAgents()),
        ("/a2a card travel", ShowRemoteCard("travel")),
        ("/a2a call travel to Rome, please", CallRemoteAgent("travel", "to Rome, please")),
        ("/mcp tools", ListMcpTools()),
        ("/mcp tools git", ListMcpTools("git")),
        ("/mcp call time now", CallMcpTool("time", "now", {})),
        ('/mcp call  git git/log {"a": [1, " b "]}', CallMcpTool("git", "git/log", {"a": [1, " b "]})),
        ("/search a2a protocol", SearchQuery("a2a protocol", 10)),
        ("/search what does top=x mean top=20", SearchQuery("what does top=x mean", 20)),
        ("/fetch HTTPS://example.com/a?b=c", "HTTPS://example.com/a?b=c"),
        ("/write my notes.md\n\n/endwrite", FileToWrite("my notes.md", "")),
        ("/write --persist a/b.md\n1\n2\n/endwrite", FileToWrite("a/b.md", "1\n2", is_persistent=True)),
        ("/read my notes.md", FileToRead("my notes.md")),
        ("/read #17", ArtifactToRead("17")),
        ("/read #17 via=mem:4", ArtifactToRead("17", "4")),
        ("/advise Is it safe?", "Is it safe?"),
        ("/help", ""),
        ("/help /Mem add", "mem"),
        ("/mem read", ReadScratchpad()),
        ("/mem show", ReadScratchpad()),
        ("/mem write a  b", WriteScratchpad("a  b")),
        ("/mem clear", ClearScratchpad()),
        ("/mem shared read", ReadScratchpad(is_shared=True)),
        ("/mem shared write a b", WriteScratchpad("a b", is_shared=True)),
        ("/mem shared clear", ClearScratchpad(is_shared=True)),
        ("/mem entries", ListEntries()),
        ("/mem entries project,user tag=q3", ListEntries(("project", "user"), "q3")),
        ("/mem entries type=project", ListEntries(("project",))),
        ("/mem entry #42", ShowEntry("42")),
        ("/mem search hosting prices --rerank", SearchEntries("hosting prices", is_reranked=True)),
        ("/mem expand 42", ExpandEntry("42", 1)),
        ("/mem expand 42 depth=2", ExpandEntry("42", 2)),
        ("/mem density 42", MeasureDensity("42")),
        ("/mem add entry user Her name --artifact #3 --supersedes #1,#2\nAda\n/endmem",
         AddEntry("user", "Her name", "Ada", "3", ("1", "2"))),
        ("/mem add link 1 supports #2", AddLink("1", "supports", "2")),
        ("/mem invalidate 42", InvalidateEntry("42")),
    ],
)  # fmt: skip
def test_arguments_become_values(reply: str, value: object) -> None:
    assert parsed(reply) == value


@pytest.mark.parametrize(
    ("reply", "form"),
    [
        ("/agent", "agent"),
        ("/agent dates", "agent"),
        ("/parallel\nhello\n/endparallel", "parallel"),
        ("/parallel\n/agent a b", "parallel"),
        ("/parallel\n/agent a\n/endparallel", "agent"),
        ("/parallel\n" + "/agent a b\n" * 17 + "/endparallel", "parallel"),
        ("/a2a list all", "a2a list"),
        ("/a2a card", "a2a card"),
        ("/a2a card a b", "a2a card"),
        ("/a2a call travel", "a2a call"),
        ("/mcp tools a b", "mcp tools"),
        ("/mcp call time", "mcp call"),
        ("/mcp call time now [1]", "mcp call"),
        ("/mcp call time now {'zone': 'UTC'}", "mcp call"),
        ('/mcp call time now {"zone":', "mcp call"),
        ("/mcp call time now " + "[" * 5_000, "mcp call"),
        ("/search", "search"),
        ("/search top=3", "search"),
        ("/search a top=0", "search"),
        ("/search a top=21", "search"),
        ("/search a top=x", "search"),
        ("/fetch", "fetch"),
        ("/fetch file:///etc/passwd", "fetch"),
        ("/fetch https://a.example and more", "fetch"),
        ("/write\n/endwrite", "write"),
        ("/write --persist\n/endwrite", "write"),
        ("/write a.md --persist\n/endwrite", "write"),
        ("/write a.md\nhalf", "write"),
        ("/read", "read"),
        ("/read #", "read"),
        ("/read #1 via=4", "read"),
        ("/read #1 via=mem:", "read"),
        ("/read notes.md via=mem:4", "read"),
        ("/advise", "advise"),
        ("/mem read it", "mem read"),
        ("/mem write", "mem write"),
        ("/mem clear all", "mem clear"),
        ("/mem shared", "mem shared"),
        ("/mem shared write", "mem shared"),
        ("/mem entries projects", "mem entries"),
        ("/mem entries tag=", "mem entries"),
        ("/mem entry", "mem entry"),
        ("/mem entry 1 2", "mem entry"),
        ("/mem search --rerank", "mem search"),
        ("/mem expand 1 depth=3", "mem expand"),
        ("/mem expand 1 2", "mem expand"),
        ("/mem add entry\nx\n/endmem", "mem add entry"),
        ("/mem add entry fact Title\nx\n/endmem", "mem add entry"),
        ("/mem add entry user\nx\n/endmem", "mem add entry"),
        ("/mem add entry user Title\n \n/endmem", "mem add entry"),
        ("/mem add entry user Title\nx", "mem add entry"),
        ("/mem add entry user Title --artifact\nx\n/endmem", "mem add entry"),
        ("/mem add entry user Title --supersedes 1,,2\nx\n/endmem", "mem add entry"),
        ("/mem add entry user Title --tag a\nx\n/endmem", "mem add entry"),
        ("/mem add link 1 2", "mem add link"),
        ("/mem add link 1 likes 2", "mem add link"),
        ("/mem invalidate ../1", "mem invalidate"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_answered_with_the_syntax(reply: str, form: str) -> None:
    with pytest.raises(CommandSyntaxError) as error:
        parsed(reply)
    assert error.value.message.endswith(f"Usage: {FORMS[form].syntax}")


@pytest.mark.parametrize("reply", ["/a2a", "/a2a delete x", "/mem", "/mem delete 1", "/mem add fact"])
def test_an_unknown_subcommand_is_answered_with_the_known_ones(reply: str) -> None:
    with pytest.raises(CommandSyntaxError, match=r"Usage: /(a2a list \| card \| call|mem read \| .* add link \| inv)"):
        parsed(reply)


@pytest.mark.parametrize("form", [form for key, form in FORMS.items() if key != "list"])
def test_every_example_of_the_prompt_is_valid(form: Any) -> None:
    parsed(form.example)
