"""`make run` and `make run-trip` start what is worth looking at, until they are stopped."""

import json
import re
import signal
import subprocess
from itertools import islice
from pathlib import Path

import pytest
from examples import currency, trip

from parley.protocol.messages import RawPart, TextPart
from parley.testing import survives_crashes
from tests.bounded import bounded
from tests.cli.served import SECONDS, call, fetch, message, running

ROOT = Path(__file__).parent.parent.parent


# The environment is what runs these tests: making it again would change it under our feet.
MAKE = ("make", "-o", ".venv/.installed")


def test_every_make_run_has_a_line_to_paste_that_streams_an_answer_of_several_agents(tmp_path: Path) -> None:
    for is_first in (True, False):
        with running(*MAKE, "run", "PORT=0", f"STORE=sqlite:///{tmp_path}/run.db", cwd=ROOT) as command:
            url = command.until_ready()
            assert json.loads(fetch(f"{url}/.well-known/agent-card.json"))["name"] == "parley"
            assert bool(re.search("atr_[0-9a-f]{64}", "\n".join(command.said))) == is_first
            (line,) = [line for line in command.said if " send " in line]
            done = subprocess.run(["sh", "-c", line], cwd="/", capture_output=True, text=True, timeout=SECONDS)
            assert (done.returncode, done.stdout.splitlines()[0]) == (0, "- 5 miles is 8.04672 km."), done.stderr
            assert "\n· currency: 100 USD is " in f"\n{done.stderr}"
            command.process.send_signal(signal.SIGTERM)
            command.ended()
    assert (tmp_path / "run.db.tenant-token").stat().st_mode & 0o777 == 0o600


def test_make_run_trip_serves_an_agent_that_asks_streams_makes_a_file_and_delegates() -> None:
    with running(*MAKE, "run-trip", "PORT=0", "STORE=memory:", cwd=ROOT) as command:
        url = command.until_ready().partition("/agents/")[0]
        assert json.loads(fetch(f"{url}/.well-known/agent-card.json"))["name"] == "Trip planner"

        task = call(url, "SendMessage", message("Rome", f"make-run-{url}"))["result"]["task"]
        for question, answer in {
            "How many days in Rome? Up to 14.": "just 1",
            "To which currency? I know USD, EUR, GBP, JPY.": "USD",
        }.items():
            assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            assert task["status"]["message"]["parts"] == [{"text": question}]
            sent = message(answer, f"make-run-{answer}-{url}")
            sent["message"]["taskId"] = task["id"]
            task = call(url, "SendMessage", sent)["result"]["task"]
        plan, response = task["artifacts"]
        assert plan["parts"][0]["text"].startswith("# Rome\n\n## Day 1\n\nIn the morning, ")
        assert [part.get("filename") or part["text"] for part in response["parts"]] == [
            "budget.csv",
            "60 EUR is 65.22 USD.",
        ]

        with subprocess.Popen(["sh", "-c", f"exec {command.curl_stream}"], stdout=subprocess.PIPE, text=True) as shown:
            assert shown.stdout is not None
            updates = (line for line in shown.stdout if "artifactUpdate" in line)
            assert all("plan.md" in line for line in islice(updates, 9))
            shown.terminate()
        command.process.send_signal(signal.SIGTERM)
        command.ended()


@pytest.mark.anyio
async def test_wherever_the_trip_planner_crashes_its_days_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trip, "PAUSE", 0)

    def is_whole(text: str) -> bool:
        """Whether each day has one plan: no two ideas are alike, and all their words are there."""
        days = text.partition("Day 1\n\n")[2].partition("120 EUR")[0].split("## Day 2\n\n")
        return len(days) == 2 and all(
            any(
                day == f"In the morning, {one}. In the evening, {other}. \n\n"
                for one in trip.IDEAS
                for other in trip.IDEAS
            )
            for day in days
        )

    task = await survives_crashes(
        trip.agent, "2 days in Oslo", answers=["USD"], accept=is_whole, others=[currency.agent], at_most=80
    )
    assert task.artifacts[1].parts == (
        RawPart(b"day,EUR\r\n1,60\r\n2,60\r\ntotal,120\r\n", "text/csv", "budget.csv"),
        TextPart("120 EUR is 130.43 USD."),
    )


@pytest.mark.anyio
async def test_the_trip_planner_asks_until_the_answer_is_a_number_of_days() -> None:
    async with bounded(trip.agent, others=[currency.agent]) as client:
        task = await client.send("Rome")
        for answer in ("a few", "99"):
            task = await client.send(answer, task=task)
            assert task.status.message is not None
            assert task.status.message.text == "How many days in Rome? Up to 14."
