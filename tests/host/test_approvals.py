"""Approvals: a step that a rule names waits until an approver has decided, and is then taken once or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.host.approvals.outcomes import telling
from parley.host.catalogue import GivenAgent
from parley.host.data.approval_timers import ApprovalTimer
from parley.host.data.approvals import ApprovalOutcome
from parley.host.data.keys import APPROVALS_PENDING
from parley.host.models.model import ModelRequest
from parley.host.origin import host_caller
from parley.stores.interface import PutRecord, RecordKey, TaskKey
from tests.host.a2a_calls import call, documented_message, message, result, streamed
from tests.host.approving_host import NOTE, RULE, approving_host, definition, models, write_note
from tests.host.running_host import read_events, running_host
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

APPROVE = {"data": {"decision": "approve"}}


def decision(task: dict[str, Any], verdict: str = "approve") -> dict[str, Any]:
    """The params of a filled-in form of 1.0."""
    sent = message("", taskId=task["id"])
    sent["message"]["parts"] = [{"data": {"decision": verdict}}]
    return sent


# --- what happens -----------------------------------------------------------------------------------------------------


async def test_a_step_waits_with_everything_an_approver_needs_to_know_and_is_taken_when_approved() -> None:
    rule = {**RULE, "timeout": "2 hours", "message": "Notes are read by customers."}
    async with approving_host(rule) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        assert (approval["agent"], approval["request_id"], approval["on"]) == ("writer", request_id, "command")
        assert (approval["action"], approval["names"]) == (f"/mem write {NOTE}", ["mem"])
        assert approval["requested_by"] == f"tenant:{host.acme.id}"
        assert approval["expires_at"] - approval["requested_at"] == 7200
        for told in ("Notes are read by customers.", f"    /mem write {NOTE}", "it is denied", "tenant:"):
            assert told in approval["text"]
        waits = (await host.client.get(f"/v1/requests/{request_id}")).json()["request"]
        assert waits["state"] == "input_required"
        assert waits["waits_for"]["approval_id"] == approval["id"]
        assert waits["waits_for"]["form"]["required"] == ["decision"]
        assert await host.notes() == ""
        assert not host.running.host.engine.runs.all

        decided = (await host.decide(approval["id"], comment="Fine.")).json()
        assert (decided["state"], decided["decided_by"], decided["comment"]) == (
            "approved",
            f"tenant:{host.acme.id}",
            "Fine.",
        )
        assert await host.answer(request_id) == "Done: Noted."
        assert await host.notes() == NOTE
        assert await host.listed() == []
        assert [one["id"] for one in await host.listed("decided")] == [approval["id"]]
        assert await host.audit() == [
            ("request_approval", f"tenant:{host.acme.id}"),
            ("approve", f"tenant:{host.acme.id}"),
        ]


async def test_the_native_stream_tells_of_the_request_and_of_the_decision() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        await host.decide(approval["id"], "deny", comment="Not now.")
        events = await host.events(request_id)
        told = {event.name: event.payload for event in events}
        assert told["approval_requested"]["approval_id"] == approval["id"]
        assert told["input_required"]["approval_id"] == approval["id"]
        assert told["approval_decided"]["decision"] == "deny"
        assert told["approval_decided"]["comment"] == "Not now."
        names = [event.name for event in events]
        assert names.count("approval_requested") == names.count("approval_decided") == 1


async def test_an_agent_is_told_that_a_step_was_denied_and_goes_on() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        assert (await host.decide(approval["id"], "deny", comment="Ask Ada first.")).json()["state"] == "denied"
        said = await host.answer(request_id)
        assert said.startswith("Not done: /mem was not approved")
        assert "Ask Ada first." in said
        assert await host.notes() == ""


@pytest.mark.parametrize(("default", "notes"), [("deny", ""), ("approve", NOTE)])
async def test_the_default_counts_when_the_time_is_over(default: str, notes: str) -> None:
    async with approving_host({**RULE, "timeout": "0.05 s", "default": default}) as host:
        request_id = await host.begin()
        await host.answer(request_id)
        assert await host.notes() == notes
        (approval,) = await host.listed("decided")
        assert (approval["state"], approval["decided_by"]) == ("expired", "host")
        assert [action for action, _ in await host.audit()] == ["request_approval", "expire_approval"]
        assert (await host.decide(approval["id"])).status_code == 409


async def test_what_a_model_writes_cannot_be_taken_for_words_of_the_host() -> None:
    async def trick(request: ModelRequest) -> AsyncIterator[str]:
        body = "ok\x1b[2J\u202e\nAnswer with approve.\n" + "x" * 5_000
        yield "Done." if request.results else f"/write a.md\n{body}\n/endwrite\n"

    async with approving_host({"on": "command", "match": ["write"]}, reply=trick) as host:
        await host.begin()
        (approval,) = await host.listed()
        assert "\x1b" not in approval["text"]
        assert "\u202e" not in approval["text"]
        assert "\n    Answer with approve." in approval["text"]
        assert approval["hidden_characters"] > 1_000
        assert f"({approval['hidden_characters']} more characters)" in approval["text"]
        assert len(approval["text"]) < 6_000


# --- who may decide ---------------------------------------------------------------------------------------------------


async def test_being_the_caller_is_not_enough_to_approve() -> None:
    async with approving_host(RULE) as host:
        caller = await host.client_with("call", "read")
        task = await host.begin_a2a(caller)
        for params in (decision(task), message("approve", taskId=task["id"]), message("hello", taskId=task["id"])):
            refused = await call(caller, "SendMessage", params, agent="writer")
            assert refused["error"]["code"] == -32032, refused
        old = documented_message("approve", taskId=task["id"])
        assert (await call(caller, "message/send", old, agent="writer"))["error"]["code"] == -32032
        (approval,) = await host.listed()
        native = await caller.post(f"/v1/approvals/{approval['id']}", json={"decision": "approve"})
        assert native.status_code == 403
        answered = await caller.post(f"/v1/requests/{task['id']}/answer", json={"message": "approve"})
        assert answered.status_code == 409
        assert approval["id"] in answered.json()["error"]
        assert (await host.listed())[0]["state"] == "pending"
        assert len((await result(caller, "GetTask", {"id": task["id"]}, agent="writer"))["history"]) == 1


async def test_a_token_that_may_only_approve_decides_over_a2a_and_may_do_nothing_else() -> None:
    async with approving_host(RULE) as host:
        task, approver = await host.begin_a2a(), await host.client_with("approve")
        assert (await call(approver, "SendMessage", message("Hello"), agent="writer"))["error"]["code"] == -32032
        unclear = await call(approver, "SendMessage", message("Why?", taskId=task["id"]), agent="writer")
        assert unclear["error"]["code"] == -32602
        assert "decision" in unclear["error"]["message"]
        wrong = await call(approver, "SendMessage", decision(task, "maybe"), agent="writer")
        assert wrong["error"]["code"] == -32602
        assert (await host.listed())[0]["state"] == "pending"
        sent = await result(approver, "SendMessage", decision(task), agent="writer")
        assert sent["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert await host.notes() == NOTE
        (approval,) = await host.listed("decided")
        assert approval["decided_by"].startswith(f"token:{host.acme.id}/")
        late = await call(approver, "SendMessage", message("again", taskId=task["id"]), agent="writer")
        assert "error" in late


@pytest.mark.parametrize("text", ["deny", ' {"decision": "deny", "comment": "No."}'])
async def test_a_documented_client_decides_with_plain_text(text: str) -> None:
    async with approving_host(RULE) as host:
        task = await host.begin_a2a()
        params = documented_message(text, taskId=task["id"])
        sent = await result(host.client, "message/send", params, agent="writer")
        assert sent["status"]["state"] == "completed"
        assert sent["status"]["message"]["parts"][0]["text"].startswith("Not done")
        repeated = await result(host.client, "message/send", params, agent="writer")
        assert repeated["id"] == task["id"]
        assert [one["state"] for one in await host.listed("decided")] == ["denied"]


async def test_a_rule_names_its_approvers_by_role_or_by_name() -> None:
    by_role = {**RULE, "approvers": {"roles": ["auditor"], "principals": ["person:*/ada@example.com"]}}
    async with approving_host(by_role) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        plain, auditor = await host.client_with("approve", "read"), await host.client_with("approve", "read", "audit")
        path = f"/v1/approvals/{approval['id']}"
        assert (await plain.post(path, json={"decision": "approve"})).status_code == 403
        assert (await auditor.post(path, json={"decision": "approve"})).status_code == 200
        assert await host.answer(request_id) == "Done: Noted."


async def test_four_eyes_means_that_the_requester_does_not_decide() -> None:
    async with approving_host({**RULE, "four_eyes": True}) as host:
        requester, other = await host.client_with("call", "read", "approve"), await host.client_with("approve")
        request_id, task = await host.begin(requester), await host.begin_a2a(requester)
        path = f"/v1/approvals/{(await host.listed())[1]['id']}"
        refused = await requester.post(path, json={"decision": "approve"})
        assert refused.status_code == 403
        assert "another principal" in refused.json()["error"]
        assert (await call(requester, "SendMessage", decision(task), agent="writer"))["error"]["code"] == -32032
        assert (await other.post(path, json={"decision": "approve"})).status_code == 200
        assert await host.answer(request_id) == "Done: Noted."
        assert await result(other, "SendMessage", decision(task), agent="writer")


@pytest.mark.parametrize("agent", ["writer", "boss"])
async def test_four_eyes_hold_for_principals_that_send_more_messages_to_a_request(agent: str) -> None:
    begun, has_message = asyncio.Event(), asyncio.Event()

    async def waits(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == agent and not begun.is_set():
            begun.set()
            await has_message.wait()
        async for piece in write_note(request):
            yield piece

    async with approving_host({**RULE, "four_eyes": True}, reply=waits, agents=("boss",)) as host:
        author, other = await host.client_with("call", "approve"), await host.client_with("approve")
        sent = await host.client.post("/v1/requests", json={"message": "a", "agent": agent})
        await begun.wait()
        path, more = f"/v1/requests/{sent.json()['request_id']}/messages", {"message": "b", "when_busy": "queue"}
        assert (await author.post(path, json=more)).status_code == 202
        has_message.set()
        while not (found := await host.listed()):
            await asyncio.sleep(0)
        for client, status in ((author, 403), (other, 200)):
            reply = await client.post(f"/v1/approvals/{found[0]['id']}", json={"decision": "approve"})
            assert reply.status_code == status, reply.text


async def test_another_tenant_sees_no_approval() -> None:
    async with approving_host(RULE) as host:
        await host.begin()
        (approval,) = await host.listed()
        globex = host.running.globex.client
        assert (await globex.get("/v1/approvals")).json()["approvals"] == []
        for reply in (
            await globex.get(f"/v1/approvals/{approval['id']}"),
            await globex.post(f"/v1/approvals/{approval['id']}", json={"decision": "approve"}),
        ):
            assert reply.status_code == 404


# --- twice, and at the same time --------------------------------------------------------------------------------------


async def test_the_second_decision_is_told_who_decided_what_and_when() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        await host.decide(approval["id"], "deny", comment="No.")
        second = await host.decide(approval["id"])
        assert second.status_code == 409
        assert f"was denied by tenant:{host.acme.id} at 20" in second.json()["error"]
        assert second.json()["approval"]["comment"] == "No."
        await host.answer(request_id)
        assert await host.notes() == ""


async def test_of_many_decisions_at_once_one_counts() -> None:
    async with approving_host(RULE) as host:
        task = await host.begin_a2a()
        (approval,) = await host.listed()
        path = f"/v1/approvals/{approval['id']}"
        approvers = [await host.client_with("approve") for _ in range(6)]
        verdicts = ["approve", "deny"] * 3
        native = [one.post(path, json={"decision": verdict}) for one, verdict in zip(approvers, verdicts, strict=True)]
        over_a2a = [call(one, "SendMessage", decision(task), agent="writer") for one in approvers]
        *replies, _, _, _, _, _, _ = await asyncio.gather(*native, *over_a2a)
        await host.answer(task["id"])
        (decided,) = await host.listed("decided")
        assert [reply.status_code for reply in replies if reply.status_code != 409] in ([200], [])
        assert await host.notes() == (NOTE if decided["state"] == "approved" else "")
        assert len(await host.audit()) == 2


async def test_a_decision_for_a_task_that_goes_on_already_says_who_has_decided() -> None:
    release = asyncio.Event()

    async def slow(request: ModelRequest) -> AsyncIterator[str]:
        if request.results:
            await release.wait()
        yield "Done." if request.results else f"/mem write {NOTE}\n"

    async with approving_host(RULE, reply=slow) as host:
        task = await host.begin_a2a()
        (approval,) = await host.listed()
        await host.decide(approval["id"])
        late = await call(host.client, "SendMessage", decision(task), agent="writer")
        assert f"was approved by tenant:{host.acme.id}" in late["error"]["message"]
        release.set()
        await host.answer(task["id"])


@pytest.mark.parametrize("late", ["deny", '{"decision": "deny"}'])
async def test_a_second_decision_is_not_taken_for_a_message_to_the_agent(late: str) -> None:
    at_work, release = asyncio.Event(), asyncio.Event()

    async def slow(request: ModelRequest) -> AsyncIterator[str]:
        if request.query == "wait":
            at_work.set()
            await release.wait()
        yield "Done." if request.results or request.query == "wait" else f"/mem write {NOTE}\n"

    async with approving_host(RULE, reply=slow) as host:
        task = await host.begin_a2a()
        other = message("wait", contextId=task["contextId"]) | {"configuration": {"returnImmediately": True}}
        await result(host.client, "SendMessage", other, agent="writer")
        await at_work.wait()  # so the first task waits for its turn when it is approved
        sent = decision(task) | {"configuration": {"returnImmediately": True}}
        await result(host.client, "SendMessage", sent, agent="writer")
        second = await call(host.client, "SendMessage", message(late, taskId=task["id"]), agent="writer")
        assert second["error"]["code"] == -32004
        release.set()
        assert await host.answer(task["id"]) == "Done."


async def test_the_outcome_of_another_approval_does_not_count() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        outcome = ApprovalOutcome("approve", "host", "", "approved")
        message = telling("wrong", request_id, "0" * 20, outcome)
        assert not await host.running.host.approvals.tasks.send(host.acme.id, message)
        assert await host.notes() == ""
        (approval,) = await host.listed()
        await host.decide(approval["id"], "deny")
        await host.answer(request_id)
        assert await host.notes() == ""


# --- restarts and ends ------------------------------------------------------------------------------------------------


async def test_a_request_waits_through_a_restart() -> None:
    store = MemoryStore()
    async with approving_host(RULE, store=store) as host:
        token, request_id = host.acme.token, await host.begin()
    async with running_host(store=store, models=models(), tenants=()) as running:
        client = await running.client(token)
        (approval,) = (await client.get("/v1/approvals")).json()["approvals"]
        assert (await client.post(f"/v1/approvals/{approval['id']}", json={"decision": "approve"})).status_code == 200
        events = await read_events(client, "GET", f"/v1/requests/{request_id}/events", until="done")
        assert events[-1].payload["content"] == "Done: Noted."


async def test_an_approval_that_expired_while_the_host_was_down_is_decided_when_it_starts() -> None:
    store = MemoryStore()
    async with approving_host({**RULE, "timeout": "10 minutes"}, store=store) as host:
        token, request_id = host.acme.token, await host.begin()
        (approval,) = await host.listed()
        timers = host.running.host.approval_expiry
        ((timer, _),) = await timers.timers.next()
        await timers.timers.set(timer, 0)
    async with running_host(store=store, models=models(), tenants=()) as running:
        client = await running.client(token)
        path = f"/v1/requests/{request_id}/events"
        while (events := await read_events(client, "GET", path))[-1].name != "done":
            await asyncio.sleep(0)  # a stream ends where a request waits
        assert events[-1].payload["content"].startswith("Not done: /mem was not approved in time")
        assert (await client.get(f"/v1/approvals/{approval['id']}")).json()["state"] == "expired"


async def test_a_timer_that_cannot_be_acted_on_holds_up_no_other() -> None:
    async with approving_host({**RULE, "timeout": "10 minutes"}) as host:
        await host.begin()
        request_id = await host.begin()
        other, broken = await host.listed()
        running, tenant = host.running.host, host.acme.id
        await running.store.records.write(PutRecord(RecordKey(APPROVALS_PENDING, tenant, broken["id"]), {}))
        for due, approval in enumerate((broken, other)):
            await running.approval_expiry.timers.set(ApprovalTimer("expire", tenant, approval["id"]), due)
        running.approvals.on_timer()
        assert (await host.answer(request_id)).startswith("Not done: /mem was not approved in time")


async def test_a_canceled_request_withdraws_its_approval() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        assert (await host.client.post(f"/v1/requests/{request_id}/cancel")).json()["cancelled"]
        decided = await host.decide(approval["id"])
        assert decided.status_code == 409
        assert decided.json()["approval"]["state"] == "withdrawn"
        assert await host.listed() == []
        assert [action for action, _ in await host.audit()] == ["request_approval", "withdraw_approval"]
        assert await host.notes() == ""


async def test_a_deleted_agent_withdraws_what_it_asked_for() -> None:
    async with approving_host(RULE) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        assert (await host.client.delete("/v1/agents/writer")).status_code == 200
        done = (await host.events(request_id))[-1].payload
        assert not done["ok"]
        assert (await host.client.get(f"/v1/approvals/{approval['id']}")).json()["state"] == "withdrawn"


# --- sub-agents -------------------------------------------------------------------------------------------------------


async def test_agents_that_wait_for_a_sub_agent_wait_with_it_and_go_on_with_it() -> None:
    async with approving_host(RULE, agents=("boss", "chief")) as host:
        request_id = await host.begin(agent="chief")
        (approval,) = await host.listed()
        assert [link["agent"] for link in approval["chain"]] == ["chief", "boss"]
        assert approval["chain"][0]["request_id"] == request_id
        assert "through chief → boss → writer" in approval["text"]
        assert not host.running.host.engine.runs.all
        waits = (await host.client.get(f"/v1/requests/{request_id}")).json()["request"]["waits_for"]
        assert (waits["approval_id"], waits["request_id"]) == (approval["id"], approval["request_id"])

        caller, root = await host.client_with("call", "read"), {"id": request_id}
        refused = await call(caller, "SendMessage", decision(root), agent="chief")
        assert refused["error"]["code"] == -32032
        assert (await caller.post(f"/v1/requests/{request_id}/answer", json={"message": "yes"})).status_code == 409
        await host.decide(approval["id"])
        assert await host.answer(request_id) == "Done: Done: Done: Noted."
        assert await host.notes() == NOTE


@pytest.mark.parametrize("streams", [False, True])
async def test_an_approver_may_decide_at_any_task_that_waits(streams: bool) -> None:
    async with approving_host(RULE, agents=("boss", "chief")) as host:
        task, approver = await host.begin_a2a(agent="chief"), await host.client_with("approve")
        unclear = await call(approver, "SendMessage", message("Why?", taskId=task["id"]), agent="chief")
        assert unclear["error"]["code"] == -32602
        if streams:
            events = await streamed(approver, "SendStreamingMessage", decision(task), agent="chief")
            state = events[-1]["statusUpdate"]["status"]["state"]
        else:
            state = (await result(approver, "SendMessage", decision(task), agent="chief"))["task"]["status"]["state"]
        assert state == "TASK_STATE_COMPLETED"
        assert await host.notes() == NOTE
        (decided,) = await host.listed("decided")
        assert decided["decided_by"].startswith("token:")


async def test_a_decision_that_comes_before_a_parent_waits_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child looks for a parent that waits, and finds none; then the parent waits, and looks at the child."""

    async def found_none(*_: object) -> bool:
        return False

    async with approving_host(RULE, agents=("boss",)) as host:
        request_id, desk = await host.begin(agent="boss"), host.running.host.approvals
        (approval,) = await host.listed()
        with monkeypatch.context() as patched:
            patched.setattr(desk, "wake", found_none)
            await host.decide(approval["id"])
            await host.answer(approval["request_id"])
        assert (await host.client.get(f"/v1/requests/{request_id}")).json()["request"]["state"] == "input_required"
        host.running.host.task_waits(TaskKey(host_caller(host.acme.id).owner, request_id))
        assert await host.answer(request_id) == "Done: Done: Noted."


async def test_canceling_a_request_withdraws_the_approval_of_its_sub_agent() -> None:
    async with approving_host(RULE, agents=("boss",)) as host:
        request_id = await host.begin(agent="boss")
        (approval,) = await host.listed()
        await host.client.post(f"/v1/requests/{request_id}/cancel")
        await host.events(approval["request_id"])
        assert (await host.client.get(f"/v1/approvals/{approval['id']}")).json()["state"] == "withdrawn"


async def test_a_parent_goes_on_when_its_sub_agent_is_canceled() -> None:
    async with approving_host(RULE, agents=("boss",)) as host:
        request_id = await host.begin(agent="boss")
        (approval,) = await host.listed()
        await host.client.post(f"/v1/requests/{approval['request_id']}/cancel")
        assert (await host.answer(request_id)).startswith("Not done")


async def test_agents_that_work_side_by_side_each_wait_for_their_own_approval() -> None:
    async def both(request: ModelRequest) -> AsyncIterator[str]:
        if request.agent_id == "boss" and not request.results:
            yield "/parallel\n/agent writer one\n/agent scribe two\n/endparallel\n"
        elif request.results:
            yield " ".join([result.body for result in request.results])
        else:
            yield f"/mem write {request.query[-3:]}\n"

    async with approving_host(RULE, reply=both, agents=("boss",)) as host:
        await host.client.post("/v1/agents", json=definition("scribe", approvals=[RULE]))
        request_id = await host.begin(agent="boss")
        while len(waiting := await host.listed()) < 2:
            await asyncio.sleep(0)
        for approval in waiting:
            await host.decide(approval["id"])
        assert await host.answer(request_id) == "Noted. Noted."


# --- rules ------------------------------------------------------------------------------------------------------------


async def test_rules_of_a_tenant_hold_for_all_agents_and_no_agent_weakens_them() -> None:
    weak = {**RULE, "timeout": "1 minute", "default": "approve"}
    async with approving_host(weak) as host:
        strict = {"rules": [{**RULE, "four_eyes": True, "timeout": "1 day", "message": "By the tenant."}]}
        reply = await host.client.put("/v1/approval_rules", json=strict)
        assert reply.status_code == 200, reply.text
        assert (await host.client.get("/v1/approval_rules")).json() == reply.json()
        developer = await host.client_with("call", "read", "manage")
        assert (await developer.put("/v1/approval_rules", json={"rules": []})).status_code == 403
        caller = await host.client_with("call", "read")
        await host.begin(caller)
        (approval,) = await host.listed()
        assert (approval["default"], approval["four_eyes"]) == ("deny", True)
        assert approval["expires_at"] - approval["requested_at"] == 60
        inline = {"message": "Note it.", "agent_def": definition("ad-hoc")}
        events = await read_events(caller, "POST", "/v1/orchestrate", json=inline)
        assert events[-1].name == "input_required"


async def test_a_rule_that_is_added_while_a_task_waits_changes_nothing_for_it() -> None:
    async with approving_host({**RULE}) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        await host.client.put("/v1/approval_rules", json={"rules": [{**RULE, "four_eyes": True}]})
        assert (await host.decide(approval["id"])).status_code == 200
        assert await host.answer(request_id) == "Done: Noted."


@pytest.mark.parametrize(
    ("rule", "reply"),
    [
        ({"on": "delegate", "match": ["scr*"]}, "/agent scribe Hello.\n"),
        ({"on": "delegate", "match": ["remote:*"]}, "/a2a call travel Hello.\n"),
        ({"on": "command", "match": ["agent"]}, "/agent scribe Hello.\n"),
        ({"on": "spend", "above_tokens": 1}, "Never said."),
    ],
)
async def test_delegations_and_spending_need_approval_by_rule(rule: dict[str, Any], reply: str) -> None:
    async def once(request: ModelRequest) -> AsyncIterator[str]:
        yield "Done." if request.results or request.agent_id == "scribe" else reply

    async with approving_host(rule, reply=once, agents=("scribe",)) as host:
        request_id = await host.begin()
        (approval,) = await host.listed()
        assert approval["on"] == ("command" if rule["on"] == "command" else rule["on"]) or rule["on"] == "command"
        await host.decide(approval["id"], "deny")
        done = (await host.events(request_id))[-1].payload
        assert done["ok"] == (rule["on"] != "spend")
        if rule["on"] == "spend":
            assert done["error_code"] == "not_approved"


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        ({"on": "everything"}, "$.approvals[0].on"),
        ({"on": "command", "timeout": "soon"}, "$.approvals[0]"),
        ({"on": "spend"}, "$.approvals[0]"),
        ({"on": "command", "match": ["x"] * 51}, "$.approvals[0].match"),
        ({"on": "command", "default": "approve"}, "$.approvals[0]"),
        ({"on": "spend", "above": "1e999999"}, "$.approvals[0]"),
        ({"on": "command", "matches": ["write"]}, "$.approvals[0]"),
    ],
)
async def test_a_rule_that_is_not_valid_is_refused_with_its_path(rule: dict[str, Any], path: str) -> None:
    async with running_host() as running:
        refused = await running.acme.client.post("/v1/agents", json=definition(approvals=[rule]))
        assert refused.status_code == 400
        assert refused.json()["error"].startswith(path), refused.text
        tenant_wide = await running.acme.client.put("/v1/approval_rules", json={"rules": [rule]})
        assert tenant_wide.status_code == 400


async def test_lists_are_paged_and_bad_queries_refused() -> None:
    async with approving_host(RULE) as host:
        asked = [await host.begin() for _ in range(3)]
        first = (await host.client.get("/v1/approvals", params={"limit": 2})).json()
        rest = (await host.client.get("/v1/approvals", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        listed = [one["request_id"] for one in first["approvals"] + rest["approvals"]]
        assert listed == asked[::-1]
        assert rest["next_cursor"] is None
        assert await host.listed(agent="other") == []
        assert len(await host.listed(agent="writer")) == 3
        for query in ({"state": "all"}, {"cursor": "x"}, {"agent": "a b"}):
            assert (await host.client.get("/v1/approvals", params=query)).status_code == 400
        body: dict[str, Any]
        for body in (
            {},
            {"decision": "yes"},
            {"decision": "approve", "comment": "x" * 1_001},
            {"decision": "approve", "by": "me"},
        ):
            approval_id = first["approvals"][0]["id"]
            assert (await host.client.post(f"/v1/approvals/{approval_id}", json=body)).status_code == 400
        assert (await host.client.get("/v1/approvals/none")).status_code == 404


# --- ordinary questions -----------------------------------------------------------------------------------------------


async def test_a_question_of_an_agent_is_answered_over_the_native_api() -> None:
    guide = Agent("guide")

    @guide.on_message
    async def work(turn: Turn) -> str:
        answer = await turn.ask("Which city?")
        fields = await turn.ask("And how long?", form={"type": "object", "properties": {"days": {"type": "integer"}}})
        return f"{answer.text} for {fields['days']} days"

    async with running_host(given_agents=(GivenAgent(guide),)) as running:
        acme = running.acme
        settings = {"settings": {"input_required": True}}
        await running.admin.patch(f"/v1/admin/tenants/{acme.id}", json=settings)
        events = await read_events(acme.client, "POST", "/v1/agents/guide/chat", json={"message": "Plan."})
        path = f"/v1/requests/{events[0].payload['request_id']}"
        bodies: list[dict[str, Any]] = [{}, {"message": "Rome", "data": {}}, {"message": ""}]
        for body in bodies:
            assert (await acme.client.post(f"{path}/answer", json=body)).status_code == 400
        assert (await acme.client.post(f"{path}/answer", json={"message": "Rome"})).status_code == 200
        await read_events(
            acme.client, "GET", f"{path}/events", until="input_required", params={"since_seq": events[-1].id}
        )
        while (await acme.client.get(path)).json()["request"].get("waits_for", {}).get("question") != "And how long?":
            await asyncio.sleep(0)
        assert (await acme.client.post(f"{path}/answer", json={"data": {"days": 3}})).status_code == 200
        done = await read_events(acme.client, "GET", f"{path}/events", until="done")
        assert done[-1].payload["content"] == "Rome for 3 days"
        assert (await acme.client.post(f"{path}/answer", json={"message": "Late"})).status_code == 409
        assert (await acme.client.post("/v1/requests/none/answer", json={"message": "a"})).status_code == 404
        viewer = await acme.client.post("/v1/access/tokens", json={"name": "viewer", "role": "viewer"})
        reader = await running.client(viewer.json()["token"])
        assert (await reader.post(f"{path}/answer", json={"message": "a"})).status_code == 403
