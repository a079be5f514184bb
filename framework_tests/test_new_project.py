"""`parley new NAME --with FRAMEWORK`: the project passes its own test and answers, in the framework's environment.

Each environment tries its own framework: `.frameworks/langgraph` is that of `--with langgraph`. The template of a2a-sdk
is for 1.x, so the environment of 0.3 tries that the command knows no such framework.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.served import served

from parley import Client
from parley.cli.commands.new import FrameworkChoice

FRAMEWORK = Path(sys.prefix).name.removesuffix("-1")


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.anyio
async def test_a_project_with_the_framework_passes_its_test_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # CrewAI keeps files there
    made = run("parley.cli.main", "new", "my-weather", "--with", FRAMEWORK, cwd=tmp_path)
    if FRAMEWORK not in list(FrameworkChoice):
        assert (FRAMEWORK, made.returncode) == ("a2a-sdk-0.3", 2)
        return
    assert made.stdout.startswith("Created my-weather."), made.stderr
    project = tmp_path / "my-weather"
    tested = await asyncio.to_thread(run, "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    with served("agent.py", "--port", "0", "--store", "memory:", cwd=project) as server:
        async with Client(await asyncio.to_thread(server.until_ready)) as client:
            assert client.card.name in ("My weather", "my_weather")
            first = await client.send("Rome")
            second = await client.send("Oslo", context=first.task.context_id if first.task else None)
    assert first.text == "The weather in Rome: sun, 25 degrees."
    assert second.text == "The weather in Oslo: sun, 25 degrees."
