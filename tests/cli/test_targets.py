"""Agents by the names that people give them on the command line."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from parley import Agent
from parley.cli.serving.agent_loading import TargetError, load_agent, source_of

SOURCE = "from parley import Agent\nagent = Agent('Echo')\nother = Agent('Other')\nnumber = 7\n"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A working directory whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str = SOURCE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("target", ["echo_target:agent", "echo_target", "echo_target.py:agent", "echo_target.py"])
def test_a_module_or_a_file_in_this_directory(directory: Path, target: str) -> None:
    write(directory / "echo_target.py")
    assert load_agent(target).name == "Echo"
    assert sys.path[0] == str(directory)


def test_a_file_elsewhere_finds_its_neighbours_and_this_directory(directory: Path) -> None:
    write(directory / "far" / "neighbour_target.py", "NAME = 'Far'\n")
    write(directory / "here_target.py", "WORD = 'away'\n")
    write(
        directory / "far" / "away_target.py",
        "import here_target, neighbour_target\nfrom parley import Agent\n"
        "agent = Agent(neighbour_target.NAME, description=here_target.WORD)\n",
    )
    agent = load_agent("far/away_target.py:agent")
    assert (agent.name, agent.description) == ("Far", "away")
    assert str(directory) in sys.path


def test_two_files_of_one_name_and_a_file_named_like_a_library(directory: Path) -> None:
    for place, name in (("a/same_target.py", "A"), ("b/same_target.py", "B"), ("json.py", "J")):
        write(directory / place, f"from parley import Agent\nagent = Agent({name!r})\n")
    json = sys.modules["json"]
    assert [load_agent(place).name for place in ("a/same_target.py", "b/same_target.py", "json.py")] == ["A", "B", "J"]
    assert sys.modules["json"] is json


def test_a_name_below_a_name(directory: Path) -> None:
    write(directory / "deep_target.py", f"{SOURCE}class Box:\n    inner = agent\n")
    assert isinstance(load_agent("deep_target:Box.inner"), Agent)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (":agent", "Invalid target: ':agent'. Write module:agent or path/to/file.py:agent."),
        ("echo_target:", "Invalid target: 'echo_target:'. Write module:agent or path/to/file.py:agent."),
        ("no_such.py:agent", "There is no file no_such.py. Is this the right directory? It is {cwd}."),
        ("no_such:agent", "There is no module no_such in {cwd} or among the installed packages."),
        ("no_such.deeper:agent", "There is no module no_such.deeper in {cwd} or among the installed packages."),
        (
            "dir/echo_target:agent",
            "There is no module dir/echo_target in {cwd} or among the installed packages. "
            "Did you mean dir/echo_target.py:agent?",
        ),
        (
            "echo_target:agnt",
            "echo_target has nothing called agnt. Did you mean echo_target:agent or echo_target:other?",
        ),
        ("empty_target", "empty_target has nothing called agent. It has no agents."),
        ("echo_target:number", "echo_target:number is not an Agent but a int. It may also be an agent of LangGraph, "
         "pydantic-ai, OpenAI Agents, CrewAI, google-adk, Microsoft Agent Framework, a2a-sdk."),
        ("imports_target", "imports_target cannot be imported. ModuleNotFoundError: No module named 'no_such_library' "
         "({cwd}/imports_target.py, line 1)"),
        ("echo_target.agent", "There is no module echo_target.agent in {cwd} or among the installed packages. "
         "Did you mean echo_target:agent?"),
        ("dir", "dir is a directory. Name a file in it, such as dir/echo_target.py."),
        ("dir/", "dir is a directory. Name a file in it, such as dir/echo_target.py."),
        ("bare/dir", "bare/dir is a directory. Name a file in it, such as bare/dir/agent.py."),
        ("raises_target.py", "{cwd}/raises_target.py cannot be imported. ZeroDivisionError: division by zero (line 2)"),
        ("handler_target.py", "{cwd}/handler_target.py cannot be imported. TypeError: The handler <lambda> "
         "must take one argument, the turn (line 2)"),
        ("syntax_target.py", "{cwd}/syntax_target.py cannot be imported. SyntaxError: '(' was never closed (line 1)"),
        ("raises_target", "raises_target cannot be imported. ZeroDivisionError: division by zero "
         "({cwd}/raises_target.py, line 2)"),
        ("exits_target", "exits_target cannot be imported. SystemExit: 3 ({cwd}/exits_target.py, line 1)"),
        ("syntax_target", "syntax_target cannot be imported. SyntaxError: '(' was never closed "
         "({cwd}/syntax_target.py, line 1)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_cure(directory: Path, target: str, message: str) -> None:
    write(directory / "echo_target.py")
    write(directory / "dir" / "echo_target.py")
    (directory / "bare" / "dir").mkdir(parents=True)
    write(directory / "empty_target.py", "")
    write(directory / "imports_target.py", "import no_such_library\n")
    write(directory / "raises_target.py", "def fail(): pass\n1 / 0\n")
    write(directory / "handler_target.py", "import parley\nparley.Agent('X').on_message(lambda: 7)\n")
    write(directory / "exits_target.py", "raise SystemExit(3)\n")
    write(directory / "syntax_target.py", "print(\n")
    with pytest.raises(TargetError) as caught:
        load_agent(target)
    assert str(caught.value) == message.format(cwd=directory)


def test_where_the_files_of_a_target_are(directory: Path) -> None:
    assert [source_of(target) for target in ("far/x.py:agent", "far/x.py", "module:agent")] == [
        directory / "far",
        directory / "far",
        directory,
    ]
