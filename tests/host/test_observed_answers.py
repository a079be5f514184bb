"""What observers of a host's conversations are shown of answers to `turn.require_auth`."""

from __future__ import annotations

import pytest

from parley.protocol.masking import MASK
from tests.host.a2a_calls import message, result
from tests.host.running_host import running_host
from tests.host.test_transfer_authorization import SECRET, bank, begun, state_of
from tests.server.test_observed_answers import Observer

pytestmark = pytest.mark.anyio


async def test_a_repeat_of_an_answer_is_masked_although_the_host_adds_its_sender_to_it() -> None:
    observer = Observer()
    async with running_host(given_agents=(bank([]),), tenants=("acme",)) as there:
        task = await begun(there)
        answer, other = message(SECRET, taskId=task["id"]), message("yes", taskId=task["id"])
        with there.host.app.observing(observer):
            for _ in range(2):
                reply = await result(there.acme.client, "SendMessage", answer, agent="bank")
                assert state_of(reply["task"]) == ("INPUT_REQUIRED", "Sure?")
            await result(there.acme.client, "SendMessage", other, agent="bank")
    assert [(MASK in shown, SECRET in shown) for shown in observer.messages] == [(True, False)] * 2 + [(False, False)]
