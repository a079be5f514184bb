"""Credentials that a task was given stay at the host: at another one, the task asks for them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.host.catalogue import GivenAgent
from parley.host.data.tenant import TenantSettings
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.masking import MASK
from parley.sealed.keys import new_key
from parley.stores.sqlite.store import SqliteStore
from tests.host.a2a_calls import message, result
from tests.host.running_host import RunningHost, running_host
from tests.host.test_transfer import exported
from tests.stores.secrets_suite import Keys

pytestmark = pytest.mark.anyio

SECRET, OTHER = "secret-of-the-answer", "secret-at-the-other-host"


def bank(heard: list[str], **described: Any) -> GivenAgent:
    """An agent that needs a token, which it uses once, and asks something afterwards."""
    agent = Agent("bank", id="bank", description="Needs a token")

    @agent.on_message
    async def pay(turn: Turn) -> str:
        require: Any = turn.require_auth  # the overloads cannot be told apart by a dictionary
        given = await require("Your token, please", **described)

        async def use() -> str:
            heard.append(given.credential if described else given.text)
            return "used"

        await turn.step("use", use)
        return f"Paid: {(await turn.ask('Sure?')).text}, {(await turn.ask('How much?')).text}"

    return GivenAgent(agent)


async def say(client: Any, text: str, task: Any = None, credential: str = "") -> Any:
    """What becomes of a task after a message: its state, and what it asks or says."""
    members: dict[str, Any] = {"taskId": task["id"]} if task else {}
    if credential:
        members["metadata"] = {AUTHORIZATION_REQUEST: {"credential": credential}}
    return (await result(client, "SendMessage", message(text, **members), agent="bank"))["task"]


async def begun(there: RunningHost) -> Any:
    """A task of a tenant whose agents may ask."""
    await there.host.tenants.update(there.acme.id, settings=TenantSettings(input_required=True))
    task = await say(there.acme.client, "Pay")
    assert state_of(task) == ("AUTH_REQUIRED", "Your token, please")
    return task


def state_of(task: Any) -> tuple[str, str]:
    told = task["status"].get("message")
    return task["status"]["state"].removeprefix("TASK_STATE_"), told["parts"][0]["text"] if told else ""


async def moved(there: RunningHost, here: RunningHost) -> tuple[Any, bytes]:
    """A client of the tenant at the other host, and the file that it moved in."""
    file = await exported(there, there.acme.id)
    report = await here.admin.post("/v1/admin/tenants/import", content=file)
    assert report.status_code == 201, report.text
    return await here.client(report.json()["token"]), file


async def test_a_task_that_moves_asks_for_its_credential_again_and_keeps_its_other_answers(tmp_path: Path) -> None:
    heard: list[str] = []
    stores = [SqliteStore(tmp_path / name, keys=Keys(new_key())) for name in ("there.db", "here.db")]
    async with (
        running_host(store=stores[0], given_agents=(bank(heard),)) as there,
        running_host(store=stores[1], given_agents=(bank(heard),), tenants=()) as here,
    ):
        task = await begun(there)
        assert state_of(await say(there.acme.client, SECRET, task)) == ("INPUT_REQUIRED", "Sure?")
        assert state_of(await say(there.acme.client, "yes", task)) == ("INPUT_REQUIRED", "How much?")
        client, file = await moved(there, here)
        assert b"parley-sealed" not in file
        assert SECRET.encode() not in file
        asked = await say(client, "ten", task)
        assert state_of(asked) == ("AUTH_REQUIRED", "Your token, please")
        done = await say(client, OTHER, task)
        assert (state_of(done)[0], done["artifacts"][0]["parts"][0]["text"]) == ("COMPLETED", "Paid: yes, ten")
        said = [one["parts"][0]["text"] for one in done["history"] if one["role"] == "ROLE_USER"]
        assert said == ["Pay", MASK, "yes", "ten", MASK]
    assert heard == [SECRET]  # the step is in the log


async def test_a_file_of_an_earlier_release_with_an_encrypted_answer_is_imported_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.host.transfer.exporting.movable_event", lambda event: event)
    heard: list[str] = []
    stores = [SqliteStore(tmp_path / name, keys=Keys(new_key())) for name in ("there.db", "here.db")]
    async with (
        running_host(store=stores[0], given_agents=(bank(heard),)) as there,
        running_host(store=stores[1], given_agents=(bank(heard),), tenants=()) as here,
    ):
        task = await begun(there)
        await say(there.acme.client, SECRET, task)
        client, file = await moved(there, here)
        assert b"parley-sealed" in file
        assert state_of(await say(client, "yes", task)) == ("AUTH_REQUIRED", "Your token, please")
        assert state_of(await say(client, OTHER, task)) == ("INPUT_REQUIRED", "How much?")


async def test_a_task_whose_step_has_used_the_credential_goes_on_at_another_host(tmp_path: Path) -> None:
    heard: list[str] = []
    stores = [SqliteStore(tmp_path / name, keys=Keys(new_key())) for name in ("there.db", "here.db")]
    async with (
        running_host(store=stores[0], given_agents=(bank(heard, scheme="ApiKey"),)) as there,
        running_host(store=stores[1], given_agents=(bank(heard, scheme="ApiKey"),), tenants=()) as here,
    ):
        task = await begun(there)
        assert state_of(await say(there.acme.client, "Here", task, SECRET)) == ("INPUT_REQUIRED", "Sure?")
        client, file = await moved(there, here)
        assert b"parley-sealed" not in file
        assert state_of(await say(client, "yes", task)) == ("INPUT_REQUIRED", "How much?")
        assert state_of(await say(client, "ten", task))[0] == "COMPLETED"
    assert heard == [SECRET]
