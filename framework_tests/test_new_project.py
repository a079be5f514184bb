"""What a newcomer begins with, in the framework's environment: the project of `parley new NAME --with FRAMEWORK` passes
its own test and answers, and so does the whole program on the framework's page.

Each environment tries its own framework: `.frameworks/langgraph` is that of `--with langgraph`. The template of a2a-sdk
is for 1.x, so the environment of 0.3 tries that the command knows no such framework.
"""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.served import served

from parley import Client
from parley.cli.commands.new import FrameworkChoice
from parley.cli.serving.agent_loading import load_agent
from parley.protocol.messages import Message
from parley.testing import running

FRAMEWORK = Path(sys.prefix).name.removesuffix("-1")
ADAPTERS = Path(__file__).parents[1] / "docs" / "adapters"


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
            assert client.card.description, "`parley card` calls it a fault"
            first = await client.send("Rome")
            second = await client.send("Oslo", context=first.task.context_id if first.task else None)
    assert first.text == "The weather in Rome: sun, 25 degrees."
    assert second.text == "The weather in Oslo: sun, 25 degrees."


@pytest.mark.anyio
async def test_the_whole_program_on_the_framework_s_page_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of OpenAI Agents has none, because a model with a script takes too many lines."""
    if FRAMEWORK not in list(FrameworkChoice):
        return
    monkeypatch.setenv("HOME", str(tmp_path))
    page = (ADAPTERS / f"{FRAMEWORK}.md").read_text()
    programs = re.findall(r'```python title="app.py"\n(.*?)```', page, re.DOTALL)
    assert len(programs) == (FRAMEWORK != FrameworkChoice.OPENAI_AGENTS)
    for program in programs:
        (tmp_path / "app.py").write_text(program)
        *_, name = [name for name in re.findall(r"parley serve app:(\w+)", page) if f"\n{name} = " in program]
        async with running(load_agent(f"{tmp_path}/app.py:{name}")) as client:
            answer = await client.exchange("Rome")
        assert "The sun shines" in (answer.text if isinstance(answer, Message) else client.text(answer))
