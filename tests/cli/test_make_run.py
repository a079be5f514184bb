"""`make run` serves an example worth looking at, until it is stopped."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest
from examples import trip

from parley.protocol.messages import RawPart
from parley.protocol.tasks import TaskState
from tests.bounded import bounded
from tests.cli.served import SECONDS, call, fetch, message, running

ROOT = Path(__file__).parent.parent.parent
PLAN = "# 1 days in Rome\n\n## Day 1\n\nIn the morning the largest museum, in the evening a park by the water.\n\n"


def test_make_run_serves_an_agent_that_asks_streams_and_makes_a_file() -> None:
    # The environment is what runs this test: making it again would change it under our feet.
    make = ("make", "-o", ".venv/.installed", "run", "PORT=0", "STORE=memory:")
    with running(*make, cwd=ROOT) as command:
        url = command.until_ready()
        assert json.loads(fetch(f"{url}/.well-known/agent-card.json"))["name"] == "Trip planner"

        asked = call(url, "SendMessage", message("Rome", f"make-run-{url}"))["result"]["task"]
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert asked["status"]["message"]["parts"] == [{"text": "How many days in Rome? Up to 14."}]
        answer = message("just 1", f"make-run-answer-{url}")
        answer["message"]["taskId"] = asked["id"]
        done = call(url, "SendMessage", answer)["result"]["task"]
        assert "".join(part["text"] for part in done["artifacts"][0]["parts"]) == PLAN
        assert [part["filename"] for part in done["artifacts"][1]["parts"]] == ["budget.csv"]

        shown = subprocess.run(["sh", "-c", command.curl_stream], capture_output=True, text=True, timeout=SECONDS)
        assert shown.stdout.count("artifactUpdate") > 9
        command.process.send_signal(signal.SIGTERM)
        command.ended()


@pytest.mark.anyio
async def test_the_trip_goes_on_with_the_day_it_was_at_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[int] = []
    second_day = asyncio.Event()

    async def look_up(place: str, day: int) -> tuple[str, str, int]:
        looked_up.append(day)
        if looked_up == [1, 2]:
            second_day.set()
            await asyncio.Event().wait()
        return "walk", "rest", 10 * day

    monkeypatch.setattr(trip, "look_up", look_up)
    async with bounded(trip.agent) as client:
        task = await client.start("2 days in Oslo")
        await second_day.wait()
        await client.crash()
        await client.restart()
        task = await client.finished(task)
    assert looked_up == [1, 2, 2]
    assert task.status.state is TaskState.COMPLETED
    plan, made = task.artifacts
    days = "".join(f"## Day {day}\n\nIn the morning walk, in the evening rest.\n\n" for day in (1, 2))
    assert "".join(part.text for part in plan.parts) == f"# 2 days in Oslo\n\n{days}"
    assert made.parts == (RawPart(b"day,EUR\r\n1,10\r\n2,20\r\ntotal,30\r\n", "text/csv", "budget.csv"),)


@pytest.mark.anyio
async def test_the_trip_asks_until_the_answer_is_a_number_of_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trip, "PAUSE", 0)
    async with bounded(trip.agent) as client:
        task = await client.send("Rome")
        for answer in ("a few", "99"):
            task = await client.send(answer, task=task)
            assert task.status.state is TaskState.INPUT_REQUIRED
        task = await client.send("1", task=task)
    assert "".join(part.text for part in task.artifacts[0].parts) == PLAN
