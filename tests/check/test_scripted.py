"""Faults that a server of ours cannot be given, each told in its words."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from parley.check.findings import Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.protocol.versions import Version
from parley.server.app import App
from tests.check.scripted import INVALID, NOT_FOUND, Refusal, Scripted
from tests.server.serving import echo_agent, running, serving

pytestmark = pytest.mark.anyio

numbers = count()


def refuse(code: int) -> Any:
    def reply(server: Scripted, params: Any) -> Any:
        raise Refusal(code)

    return reply


def always(value: Any) -> Any:
    return lambda server, params: value


def message(**members: Any) -> Any:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "yes"}], **members}
    return always({"message": said})


def sends(state: str = "COMPLETED", **members: Any) -> Any:
    return lambda server, params: {"task": server.new_task(params, state, **members)}


def one_task_for_all(server: Scripted, params: Any) -> Any:
    task = next(iter(server.tasks.values()), None) or server.new_task(params)
    return {"task": task}


def takes_the_callers_id(server: Scripted, params: Any) -> Any:
    task = server.new_task(params)
    task["id"] = params["message"].get("taskId", task["id"])
    return {"task": task}


def changes(name: str, value: Any) -> Any:
    return lambda server, params: {**server.task(params["id"]), name: value}


def changes_each_time(server: Scripted, params: Any) -> Any:
    return {**server.task(params["id"]), "metadata": {"read": next(numbers)}}


def forgets_history(server: Scripted, params: Any) -> Any:
    task = server.task(params["id"])
    if params.get("historyLength") == 0:
        task["history"] = []
    return task


def is_strict(server: Scripted, params: Any) -> Any:
    if "parleyCheckSurprise" in params["message"]:
        raise Refusal(INVALID)
    return {"task": server.new_task(params)}


def interrupts(*, then: Any = None, state: str = "INPUT_REQUIRED", **status: Any) -> Any:
    def reply(server: Scripted, params: Any) -> Any:
        if "taskId" in params["message"] and then is not None:
            return then(server, params)
        task = server.new_task(params, state)
        task["status"].update(status)
        return {"task": task}

    return reply


def other_context(server: Scripted, params: Any) -> Any:
    return {"task": {**server.task(params["message"]["taskId"]), "contextId": "another"}}


def streams(*events: Any) -> Any:
    def reply(server: Scripted, params: Any) -> Any:
        task = server.new_task(params)
        where = {"taskId": task["id"], "contextId": task["contextId"]}
        known = {
            "task": {"task": {**task, "status": {"state": "TASK_STATE_WORKING"}, "artifacts": []}},
            "message": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "yes"}]}},
            "artifact": server.updates(task)[0],
            "end": server.updates(task)[1],
            "other": {"statusUpdate": {"taskId": "other", "contextId": "c", "status": task["status"]}},
            "canceled": {"statusUpdate": {**where, "status": {"state": "TASK_STATE_CANCELED"}}},
        }
        if "canceled" in events:
            task["status"] = {"state": "TASK_STATE_CANCELED"}
        return [known[name] for name in events]

    return reply


def page(**members: Any) -> Any:
    def reply(server: Scripted, params: Any) -> Any:
        tasks = list(server.tasks.values())
        return {"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": len(tasks), **members}

    return reply


def oldest_first(server: Scripted, params: Any) -> Any:
    tasks = [
        {**task, "status": {**task["status"], "timestamp": f"200{number}-01-01T00:00:00Z"}}
        for number, task in enumerate([*server.tasks.values()] * 2)
    ]
    return {"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": len(tasks)}


def spoken(role: str) -> list[Any]:
    return [{"messageId": "m", "role": role, "parts": [{"text": "x"}]}]


def cancels_another(server: Scripted, params: Any) -> Any:
    return {**server.task(params["id"]), "id": "other", "status": {"state": "TASK_STATE_CANCELED"}}


def all_twice(server: Scripted, params: Any) -> Any:
    return {**page()(server, params), "tasks": [*server.tasks.values()] * 2}


def first_again(server: Scripted, params: Any) -> Any:
    return {**page(nextPageToken="n")(server, params), "tasks": [*server.tasks.values()][:1]}


def without_artifacts(server: Scripted, params: Any) -> Any:
    tasks = [{**task} for task in server.tasks.values()]
    for task in tasks:
        del task["artifacts"]
    return {**page()(server, params), "tasks": tasks}


def cancels_when_left(server: Scripted, params: Any) -> Any:
    task = server.task(params["id"])
    seen = {**task}
    task["status"] = {"state": "TASK_STATE_CANCELED"}
    return [{"task": seen}]


def deletes_once(server: Scripted, params: Any) -> Any:
    if params["id"] not in server.hooks:
        raise Refusal(NOT_FOUND)
    del server.hooks[params["id"]]


def cancels_again(server: Scripted, params: Any) -> Any:
    task = server.task(params["id"])
    task["status"]["state"] = "TASK_STATE_CANCELED"
    return task


def finds_anything(server: Scripted, params: Any) -> Any:
    return {"id": params["id"], "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}


def at_work(server: Scripted, params: Any) -> Any:
    return {"task": server.new_task(params, "WORKING")}


PUSH = "TaskPushNotificationConfig"

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("G1.7", {"SendMessage": message(role="ROLE_USER")}, "its role is not agent"),
    ("G1.46", {"SendMessage": always({})}, "is not {"),
    ("G1.46", {"SendMessage": message(message_id="m")}, "the name is not camelCase"),
    ("G1.46", {"SendMessage": sends(history=spoken("agent"))}, "is not a Role"),
    ("G1.46", {"SendMessage": always({"task": {"status": {"timestamp": "2026-99-01T00:00:00Z"}}})}, "not a time"),
    ("G1.3", {"SendMessage": one_task_for_all}, "got one task id"),
    ("G1.2", {"SendMessage": takes_the_callers_id}, "the id that the caller chose"),
    ("G1.2", {"SendMessage": lambda s, p: message()(s, p)}, "the task id is ignored: the answer is a message"),
    ("G1.8", {"SendMessage": at_work, "GetTask": changes("id", "t-1")}, "the task came back working"),
    ("G1.12", {"SendMessage": sends(artifacts=[], history=spoken("ROLE_AGENT"))}, "no artifacts"),
    ("G1.4", {"SendMessage": interrupts()}, "A message to a task in another context is accepted"),
    ("G1.14", {"SendMessage": interrupts()}, "is not that task"),
    ("G1.14", {"SendMessage": interrupts(then=other_context)}, "changed its context"),
    ("G1.50", {"SendMessage": interrupts(state="AUTH_REQUIRED")}, "does not explain"),
    (
        "G1.44",
        {"GetTask": always({"id": "x", "contextId": "c", "status": {"state": "TASK_STATE_FAILED"}})},
        "reads as x",
    ),
    ("G1.9", {"GetTask": changes_each_time}, "reads differently"),
    (
        "G1.15",
        {"SendMessage": sends(history=spoken("ROLE_USER")), "GetTask": forgets_history},
        "has changed the task's history",
    ),
    ("G1.23", {"CancelTask": lambda s, p: s.task(p["id"])}, "is accepted"),
    ("G1.23", {"SendMessage": at_work, "CancelTask": cancels_another}, "cancelling returned another task"),
    ("G1.18", {"ListTasks": oldest_first}, "newest first"),
    ("G1.19", {"ListTasks": all_twice}, "a page of size 1 has"),
    ("G1.19", {"ListTasks": first_again}, "a task of the first"),
    ("G1.20", {"ListTasks": page(totalSize=0)}, "totalSize is 0"),
    ("G1.20", {"ListTasks": page(nextPageToken="more")}, "nextPageToken is not empty"),
    ("G1.21", {"ListTasks": without_artifacts}, "lacks its artifacts"),
    ("G1.22", {"ListTasks": page(tasks=[])}, "a list of the tasks of a context lacks one"),
    ("G1.44", {"ListTasks": refuse(-32004)}, "tasks cannot be listed"),
    ("G1.45", {"SendMessage": is_strict}, "unknown member is refused"),
    ("G1.59", {"parley/check/nonsense": always({})}, "An unknown method is accepted"),
    ("G1.59", {"parley/check/nonsense": refuse(-32600)}, "the code -32600; expected -32601"),
    ("G1.25", {"SendStreamingMessage": streams()}, "has no events"),
    ("G1.25", {"SendStreamingMessage": streams("message", "message")}, "1 events follow a message"),
    ("G1.25", {"SendStreamingMessage": streams("task", "message", "end")}, "a message among the updates"),
    ("G1.25", {"SendStreamingMessage": streams("task", "other", "end")}, "updates of other tasks: other"),
    ("G1.26", {"SendStreamingMessage": streams("task", "end", "end")}, "went on after the task had ended"),
    (
        "G1.27",
        {
            "SendStreamingMessage": streams("task", "artifact", "end"),
            "GetTask": changes("status", {"state": "TASK_STATE_FAILED"}),
        },
        "and the task is failed",
    ),
    ("G1.31", {"SendStreamingMessage": streams("task", "canceled")}, "when its caller disconnected"),
    ("G1.28", {"SendMessage": at_work, "SubscribeToTask": cancels_when_left}, "when a stream was closed"),
    ("G1.29", {"SendMessage": at_work, "SubscribeToTask": lambda s, p: [message()(s, p)]}, "begins with Message"),
    ("G1.29", {"SendMessage": at_work, "SubscribeToTask": always([])}, "has no events"),
    ("G1.33", {f"Create{PUSH}": lambda s, p: {**p, "id": "same"}}, "with the ids 'same' and 'same'"),
    ("G1.33", {f"Get{PUSH}": always({"id": "x", "taskId": "t", "url": "https://other.example"})}, "reads as x"),
    ("G1.33", {"SendMessage": interrupts(), f"List{PUSH}s": always({"configs": []})}, "the list lacks a webhook"),
    ("G1.34", {f"Delete{PUSH}": deletes_once}, "deleting a second time"),
    ("G1.36", {}, "is accepted"),
    ("G1.43", {"GetTask": refuse(-32009)}, "1.0.1 is refused"),
    ("G1.53", {"GetTask": refuse(-32009)}, "it is not spoken"),
    ("G1.53", {"GetTask": finds_anything}, "an unknown task is found"),
    ("G1.58", {"GetTask": refuse(INVALID)}, "nor its details name historyLength"),
]


@pytest.mark.parametrize(("rule", "replies", "said"), FAULTS, ids=[f"{rule} {said}" for rule, _, said in FAULTS])
async def test_a_fault_is_told_in_words(rule: str, replies: dict[str, Any], said: str) -> None:
    async with serving(Scripted(replies)) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=2), only=[rule])
    bad = [finding for finding in report.findings if finding.verdict in (Verdict.FAILED, Verdict.WARNED)]
    assert [finding.detail for finding in bad if said in finding.detail] != [], [f.detail for f in report.findings]
    assert {finding.rule for finding in bad} == {rule}


def tagged_by_kind(server: Scripted, params: Any) -> Any:
    """As langgraph-api 0.16.7 streams: the task is wrapped, what follows has a kind."""
    kinds = {"artifactUpdate": "artifact-update", "statusUpdate": "status-update"}
    begun, *updates = server.answer("SendStreamingMessage", params)
    return [begun, *({**event, "kind": kinds[name]} for update in updates for name, event in update.items())]


STREAM_RULES = {"G1.25", "G1.26", "G1.27", "G1.46"}


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (
            tagged_by_kind,
            "event 2 of the stream does not have exactly one of task, message, statusUpdate",
        ),
        (always([{"detail": "no"}]), "the stream cannot be read: "),
    ],
)
async def test_a_stream_that_is_not_of_1_0_breaks_every_rule_of_streams(stream: Any, said: str) -> None:
    async with serving(Scripted({"SendStreamingMessage": stream})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=list(STREAM_RULES))
    bad = [finding for finding in report.findings if finding.verdict is Verdict.FAILED and said in finding.detail]
    assert {finding.rule for finding in bad} == STREAM_RULES
    for sent, came_back in (finding.exchanges[-1] for finding in bad):
        assert "SendStreamingMessage" in sent
        assert "data: " in came_back


def refuses_contexts(server: Scripted, params: Any) -> Any:
    if "contextId" in params["message"]:
        raise Refusal(INVALID)
    return {"task": server.new_task(params)}


async def test_a_server_may_refuse_a_context_of_the_callers() -> None:
    async with serving(Scripted({"SendMessage": refuses_contexts, "GetTask": refuse(INVALID)})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.5", "G1.53"])
    said = {finding.detail for finding in report.findings if finding.verdict is Verdict.PASSED}
    assert "A context id from the caller is refused: InvalidParamsError" in said
    assert "The interface answers: InvalidParamsError" in said


UNDECIDED: list[tuple[str, dict[str, Any], str]] = [
    ("G1.5", {"SendMessage": message()}, "names no context"),
    ("G1.5", {"SendMessage": sends(contextId="")}, "perhaps the agent created none"),
    ("G1.12", {"SendMessage": sends(artifacts=[])}, "no output"),
    ("G1.12", {"SendMessage": sends("FAILED")}, "the task is failed"),
    ("G1.29", {"SendMessage": at_work}, "had ended before the subscription"),
    ("G1.27", {"SendStreamingMessage": streams("message")}, "has no task that has ended"),
    ("G1.27", {"SendStreamingMessage": streams("task", "end")}, "has no artifacts"),
    ("G1.33", {f"Create{PUSH}": refuse(INVALID)}, "does not accept the webhook"),
    ("G1.33", {f"List{PUSH}s": always({"configs": []})}, "perhaps because the task is completed"),
    ("G1.34", {f"Create{PUSH}": refuse(INVALID)}, "does not accept the webhook"),
    ("G1.58", {"GetTask": finds_anything}, "answered with a result"),
    ("G1.18", {"ListTasks": page(tasks=[{"id": 5}])}, "the list cannot be read"),
    ("G1.23", {"SendMessage": at_work}, "which is allowed"),
    ("G1.44", {"ListTasks": refuse(-32034)}, "listing is answered with UnavailableError"),
    ("G1.16", {"GetTask": refuse(-32033)}, "RateLimitedError"),
    ("G1.59", {"GetTask": refuse(-32033), "parley/check/nonsense": refuse(-32033)}, "RateLimitedError"),
    ("G1.1", {"SendMessage": at_work}, "a plain message is answered with TaskNotCancelableError"),
    ("G1.1", {"SendMessage": at_work, "CancelTask": lambda s, p: s.task(p["id"])}, "no task has ended"),
    ("G1.5", {"SendMessage": refuse(-32603)}, "a plain message is answered with InternalError"),
]


@pytest.mark.parametrize(("rule", "replies", "said"), UNDECIDED, ids=[f"{rule} {said}" for rule, _, said in UNDECIDED])
async def test_what_an_agent_does_not_show_is_undecided(rule: str, replies: dict[str, Any], said: str) -> None:
    async with serving(Scripted(replies)) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=2), only=[rule])
    undecided = [finding.detail for finding in report.findings if finding.verdict is Verdict.UNDECIDED]
    assert [detail for detail in undecided if said in detail] != [], [f.detail for f in report.findings]


# --- what must not be accused -----------------------------------------------------------------------------------------


def with_last_snapshot(server: Scripted, params: Any) -> Any:
    """The stream tells the whole task once more before it closes, as 1.0 allows."""
    events = streams("task", "artifact", "end")(server, params)
    return [*events, {"task": server.tasks[events[0]["task"]["id"]]}]


def only_each_other_time(server: Scripted, params: Any) -> Any:
    if next(numbers) % 2:
        raise Refusal(-32033)  # too many requests
    return {"task": server.new_task(params)}


def names_it_in_details(server: Scripted, params: Any) -> Any:
    if params.get("historyLength", 0) < 0:
        raise Refusal(INVALID, [{"@type": "type.googleapis.com/google.rpc.BadRequest", "field": "historyLength"}])
    return server.task(params["id"])


def drops_hooks_of_finished_tasks(server: Scripted, params: Any) -> Any:
    raise Refusal(NOT_FOUND)


ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("G1.26", {"SendStreamingMessage": with_last_snapshot}),
    ("G1.3", {"SendMessage": only_each_other_time}),
    ("G1.8", {"SendMessage": only_each_other_time}),
    ("G1.8", {"SendMessage": refuses_contexts}),
    ("G1.33", {f"Get{PUSH}": drops_hooks_of_finished_tasks}),
    ("G1.33", {f"Create{PUSH}": refuse(-32004)}),
    ("G1.34", {f"Create{PUSH}": refuse(-32004)}),
    ("G1.36", {f"Create{PUSH}": refuse(-32004)}),
    ("G1.23", {"SendMessage": interrupts(), "CancelTask": cancels_again}),
    ("G1.27", {"GetTask": refuse(NOT_FOUND)}),
    ("G1.9", {"GetTask": refuse(NOT_FOUND)}),
]


@pytest.mark.parametrize(("rule", "replies"), ALLOWED)
async def test_what_is_allowed_is_not_accused(rule: str, replies: dict[str, Any]) -> None:
    async with serving(Scripted(replies)) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=[rule])
    bad = [finding for finding in report.findings if finding.verdict in (Verdict.FAILED, Verdict.WARNED)]
    assert [(finding.case, finding.detail) for finding in bad] == []


async def test_a_member_that_only_the_details_name_is_named() -> None:
    async with serving(Scripted({"GetTask": names_it_in_details})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.58"])
    (finding,) = [found for found in report.findings if found.case == "An invalid member is named"]
    assert finding.verdict is Verdict.PASSED


async def test_a_refused_webhook_shows_no_guard_unless_others_are_taken() -> None:
    async with serving(Scripted({f"Create{PUSH}": refuse(INVALID)})) as client:
        report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.36"])
    assert [finding.verdict for finding in report.findings] == [Verdict.UNDECIDED]


async def test_a_long_message_does_not_spoil_the_evidence_of_a_stream() -> None:
    async with running(App(echo_agent())) as client:
        options = CheckOptions(timeout=10, text="long " * 2000)
        report = await check(str(client.base_url), options, versions=[Version.V0_3], only=["G2.10"])
    assert {finding.verdict for finding in report.findings} == {Verdict.PASSED}


async def test_webhooks_at_a_task_that_waits_are_deleted_before_it_is_cancelled() -> None:
    """Even where the case breaks off, nobody is called when the task ends."""
    server = Scripted({"SendMessage": interrupts(), f"List{PUSH}s": refuse(-32603)})
    async with serving(server) as client:
        await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.33", "G1.34", "G1.36"])
    assert server.hooks == {}
