"""`parley new`: the project that it makes passes its own test and answers, and nothing is written over."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from parley.cli.commands.new import FRAMEWORKS, FrameworkChoice, project_files
from tests.cli.sampler import parley
from tests.cli.served import call, message, served


def test_a_new_project_passes_its_test_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = parley("new", "my-weather")
    assert (made.exit_code, made.stderr) == (0, "")
    project = tmp_path / "my-weather"
    assert sorted(file.name for file in project.iterdir()) == [
        ".dockerignore",
        ".gitignore",
        "Dockerfile",
        "README.md",
        "agent.py",
        "conftest.py",
        "pyproject.toml",
        "scripted_model.py",
        "test_agent.py",
    ]
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "2 passed" in tested.stdout
    with served("agent.py", "--port", "0", "--store", "memory:", cwd=project) as server:
        reply = call(server.until_ready(), "SendMessage", message("Rome"))
    (artifact,) = reply["result"]["task"]["artifacts"]
    assert artifact["parts"] == [{"text": "The weather in Rome: sun, 25 degrees."}]


def test_it_says_what_to_do_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parley("new", "weather", "--with", "langgraph").stdout.splitlines() == [
        "Created weather. Next:",
        "",
        "  cd weather",
        '  pip install pytest "langchain>=1" "langgraph>=1.2"',
        "  pytest",
        "  parley serve agent.py",
        "",
        "and in another terminal:",
        "",
        "  parley send localhost:8080 Rome",
    ]


def test_it_writes_over_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("taken", "notes.txt").write_text("mine")
    Path("file").write_text("mine")
    for name in ("taken", "file"):
        refused = parley("new", name)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr == (
            f"Error: {name} exists already, and is not an empty directory. Nothing was written.\n"
        )
    assert [file.name for file in Path("taken").iterdir()] == ["notes.txt"]
    assert Path("file").read_text() == "mine"


def test_an_empty_directory_and_directories_above_it_are_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert parley("new", "empty").exit_code == 0
    assert parley("new", "some/where/Night_owl").exit_code == 0
    assert 'Agent("Night owl"' in Path("some/where/Night_owl/agent.py").read_text()


@pytest.mark.parametrize("name", ["9lives", "with space", "umläut", "dash-", "-dash/../_x", 'quote"'])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = parley("new", "--", name)
    assert refused.exit_code == 2
    assert "Invalid name: " in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    refused = parley("new", "file/project")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("Error: ")
    assert "file/project" in refused.stderr


@pytest.mark.parametrize("framework", [None, *FrameworkChoice], ids=str)
def test_every_template_is_complete(framework: FrameworkChoice | None) -> None:
    """What they do is tried in the frameworks' environments, by `framework_tests/test_new_project.py`."""
    made = project_files("my-weather", framework)
    assert "{{" not in "".join(made.values())
    for name in ("agent.py", "scripted_model.py", "test_agent.py", "conftest.py"):
        compile(made[name], name, "exec")
    is_wrapped = "\nfrom parley import Agent\n" in made["agent.py"]
    assert ("running(agent)" in made["test_agent.py"], "import Agent" in made["test_agent.py"]) == (
        is_wrapped,
        not is_wrapped,
    )
    project = tomllib.loads(made["pyproject.toml"])["project"]
    packages = FRAMEWORKS[framework].packages if framework else ()
    assert (project["name"], project["dependencies"]) == ("my-weather", ["parley-a2a", *packages])
    for file in project_modules(made["pyproject.toml"]):
        assert f"!{file}.py\n" in made[".dockerignore"]
        assert f" {file}.py " in made["Dockerfile"]


def project_modules(pyproject: str) -> list[str]:
    modules: list[str] = tomllib.loads(pyproject)["tool"]["setuptools"]["py-modules"]
    return modules
