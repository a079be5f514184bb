"""Attempts at a call: what is repeated and what is not, over which interface, with which headers and credentials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from parley.client.calls import LONGEST_RETRY_AFTER, REMEMBERED_SECONDS, RETURN_SECONDS, Attempt, Calls
from parley.client.errors import ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.options import Retries, Timeouts
from parley.client.transports.http import with_retry_after
from parley.client.transports.transport import CallOptions, ReceivedEvent, Transport
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCapabilities, AgentExtension, AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    InternalError,
    LocalProtocolError,
    PeerProtocolError,
    RateLimitedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.extensions import CURSOR, IDEMPOTENT_SEND
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.operations import Operation
from parley.protocol.requests import (
    CancelTaskRequest,
    DeletePushConfigRequest,
    GetTaskRequest,
    Request,
    Result,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from tests.client.scripted_agent import SEND, SUBMITTED, TASK, card_of
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

DONE = Task(TASK, "c", TaskStatus(TaskState.COMPLETED))
GET = GetTaskRequest(TASK)

FIRST = AgentInterface("http://one.example/", Binding.JSONRPC, Version.V1_0)
SECOND = AgentInterface("http://two.example/", Binding.HTTP_JSON, Version.V1_0)
THIRD = AgentInterface("three.example:443", Binding.GRPC, Version.V0_3, "tenant")
OLDEST = AgentInterface("http://four.example/", Binding.JSONRPC, Version.V0_1)

FACES = (FIRST, SECOND, THIRD, OLDEST)

Outcome = Result | Exception


@dataclass(slots=True)
class Asked:
    """One attempt that reached a transport."""

    url: str
    request: Any
    sent: CallOptions


class Agents:
    """Interfaces whose answers are given: by URL one after the other, and the last for ever."""

    def __init__(self, outcomes: dict[str, list[Outcome]], *extensions: str, attempts: int = 3, **options: Any) -> None:
        self.outcomes = outcomes
        self.asked: list[Asked] = []
        self.slept: list[float] = []
        faces = [next(face for face in FACES if face.url == url) for url in outcomes]
        self.calls = Calls(
            card_of(*extensions, interfaces=faces),
            [(face, Version(face.version)) for face in faces],
            self.connect,
            retries=Retries(attempts=attempts, first_pause=0.2, longest_pause=0.5),
            sleep=self.sleep,
            **options,
        )

    def connect(self, interface: AgentInterface, version: Version) -> Transport:
        return Scripted(self, interface, version)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    @property
    def urls(self) -> list[str]:
        return [asked.url for asked in self.asked]


@dataclass(slots=True)
class Scripted:
    agents: Agents
    interface: AgentInterface
    version: Version
    is_closed: bool = False

    async def call(self, operation: Operation, request: Request, sent: CallOptions) -> Result:
        self.agents.asked.append(Asked(self.interface.url, request, sent))
        await asyncio.sleep(0)
        outcomes = self.agents.outcomes[self.interface.url]
        outcome = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def stream(self, operation: Operation, request: Request, sent: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        task = await self.call(operation, request, sent)
        if task is not None:
            yield ReceivedEvent(task)  # pyright: ignore[reportArgumentType]

    async def close(self) -> None:
        self.is_closed = True


def agent(*outcomes: Outcome, extensions: tuple[str, ...] = (), **options: Any) -> Agents:
    return Agents({FIRST.url: list(outcomes)}, *extensions, **options)


def lost() -> UnreachableError:
    return UnreachableError("the answer is lost")


def unsent() -> UnreachableError:
    return UnreachableError("no connection", was_sent=False)


def limited(error: A2AError, seconds: int) -> A2AError:
    return with_retry_after(error, {"retry-after": str(seconds)})


# --- what is repeated -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "request_", "error", "is_repeated"),
    [
        (ops.GET_TASK, GET, lost(), True),
        (ops.GET_TASK, GET, TimedOutError(), True),
        (ops.GET_TASK, GET, unsent(), True),
        (ops.GET_TASK, GET, UnavailableError(), True),
        (ops.GET_TASK, GET, TaskNotFoundError(), False),
        (ops.GET_TASK, GET, InternalError(), False),
        (ops.GET_TASK, GET, PeerProtocolError(), False),
        (ops.DELETE_PUSH_CONFIG, DeletePushConfigRequest(TASK, "w"), lost(), True),
        (ops.CANCEL_TASK, CancelTaskRequest(TASK), lost(), False),
        (ops.CANCEL_TASK, CancelTaskRequest(TASK), unsent(), True),
        (ops.SEND_MESSAGE, SEND, lost(), False),
        (ops.SEND_MESSAGE, SEND, TimedOutError(), False),
        (ops.SEND_MESSAGE, SEND, unsent(), True),
        (ops.SEND_MESSAGE, SEND, RateLimitedError(), True),
        (ops.SEND_MESSAGE, SEND, UnavailableError(), False),
        (ops.SEND_MESSAGE, SEND, limited(UnavailableError(), 1), True),
    ],
)
async def test_what_is_safe_is_tried_again_and_nothing_else(
    operation: Operation, request_: Request, error: Exception, is_repeated: bool
) -> None:
    called = agent(error, DONE)
    if is_repeated:
        assert await called.calls.call(operation, request_) == DONE
    else:
        with pytest.raises(type(error)):
            await called.calls.call(operation, request_)
    assert len(called.asked) == 1 + is_repeated


@pytest.mark.parametrize("error", [lost(), TimedOutError(), UnavailableError()])
async def test_a_send_is_repeated_as_it_was_to_an_agent_that_takes_the_same_message_once(error: Exception) -> None:
    called = agent(error, DONE, extensions=(IDEMPOTENT_SEND,))
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert [asked.request for asked in called.asked] == [SEND, SEND]


@pytest.mark.parametrize(
    ("params", "seconds", "is_repeated"),
    [
        ({}, 500, True),
        ({}, 599, False),
        ({"seconds": 60}, 30, True),
        ({"seconds": 60}, 59, False),
        ({"seconds": "?"}, 0, False),
    ],
)
async def test_a_send_is_not_repeated_to_an_agent_that_may_have_forgotten_it(
    params: JsonObject, seconds: float, is_repeated: bool
) -> None:
    """A reply may take as long as an agent remembers messages: after that, the same message would be a second one."""
    called = agent(lost(), DONE)
    declared = AgentExtension(IDEMPOTENT_SEND, params=params)
    called.calls.card = structs.replace(card_of(), capabilities=AgentCapabilities(extensions=(declared,)))
    times = iter([0.0, seconds, seconds])
    called.calls.clock = lambda: next(times)
    if is_repeated:
        assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    else:
        with pytest.raises(UnreachableError):
            await called.calls.call(ops.SEND_MESSAGE, SEND)
    assert len(called.asked) == 1 + is_repeated


async def test_a_reply_may_take_long_only_where_somebody_works_for_it() -> None:
    called = agent(DONE, timeouts=Timeouts(reply=500, read=50))
    await called.calls.call(ops.SEND_MESSAGE, SEND)
    await called.calls.call(ops.CANCEL_TASK, CancelTaskRequest(TASK))
    await called.calls.call(ops.GET_TASK, GET)
    async for _ in called.calls.stream(ops.SUBSCRIBE_TO_TASK, SubscribeToTaskRequest(TASK)):
        pass
    called.calls.timeouts = Timeouts(reply=5, read=50)
    await called.calls.call(ops.GET_TASK, GET)
    assert [asked.sent.timeout for asked in called.asked] == [500, 500, 50, 500, 5]


async def test_the_last_failure_is_raised_after_pauses_that_grow() -> None:
    called = agent(lost(), attempts=5)
    with pytest.raises(UnreachableError, match="the answer is lost"):
        await called.calls.call(ops.GET_TASK, GET)
    assert len(called.asked) == 5
    longest = (0.2, 0.4, 0.5, 0.5)
    assert all(most / 2 <= slept <= most for slept, most in zip(called.slept, longest, strict=True))


async def test_an_agent_that_says_when_to_come_back_is_asked_then() -> None:
    called = agent(limited(RateLimitedError(), 7), limited(UnavailableError(), 0), DONE)
    assert await called.calls.call(ops.GET_TASK, GET) == DONE
    assert called.slept[0] == 7
    assert 0.2 <= called.slept[1] <= 0.4


async def test_an_agent_that_asks_for_too_much_patience_is_not_waited_for() -> None:
    called = agent(limited(RateLimitedError(), int(LONGEST_RETRY_AFTER) + 1), DONE)
    with pytest.raises(RateLimitedError):
        await called.calls.call(ops.GET_TASK, GET)
    assert called.slept == []


@pytest.mark.parametrize("value", ["", "soon", "-1", "1e3", "9" * 20, "Wed, 21 Oct 2026 07:28:00 GMT", "\u0663"])
async def test_a_retry_after_that_is_no_number_of_seconds_is_left_out(value: str) -> None:
    assert vars(with_retry_after(RateLimitedError(), {"retry-after": value})).get("retry_after") is None


async def test_a_stream_is_asked_for_again_until_it_begins() -> None:
    called = agent(lost(), lost(), DONE)
    events = [
        received.event async for received in called.calls.stream(ops.SUBSCRIBE_TO_TASK, SubscribeToTaskRequest(TASK))
    ]
    assert (events, len(called.asked)) == ([DONE], 3)


async def test_a_stream_of_nothing_is_an_error_unless_it_goes_on_after_a_cursor() -> None:
    called = agent(None)
    request = SubscribeToTaskRequest(TASK)
    assert [received async for received in called.calls.stream(ops.SUBSCRIBE_TO_TASK, request, after="9")] == []
    assert called.asked[0].sent.after == "9"
    with pytest.raises(UnreachableError, match="before its first event"):
        async for _ in called.calls.stream(ops.SUBSCRIBE_TO_TASK, request):
            pass


@pytest.mark.parametrize("operation", [ops.GET_TASK, ops.CANCEL_TASK])
async def test_an_answer_about_another_task_is_refused(operation: Operation) -> None:
    called = agent(Task("other", "c", SUBMITTED))
    with pytest.raises(PeerProtocolError, match="another task: other"):
        await called.calls.call(operation, operation.request(TASK))


# --- over which interface ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [unsent(), ForbiddenTargetError(), VersionNotSupportedError()])
async def test_an_interface_that_is_of_no_use_is_left_for_the_next_which_stays(error: Exception) -> None:
    called = Agents({FIRST.url: [error], SECOND.url: [DONE]})
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert await called.calls.call(ops.GET_TASK, GET) == DONE
    assert called.urls == [FIRST.url, SECOND.url, SECOND.url]
    assert called.slept == []


async def test_an_interface_that_may_have_got_a_send_is_not_left() -> None:
    called = Agents({FIRST.url: [lost()], SECOND.url: [DONE]})
    with pytest.raises(UnreachableError):
        await called.calls.call(ops.SEND_MESSAGE, SEND)
    assert called.urls == [FIRST.url]


@pytest.mark.parametrize("error", [lost(), UnavailableError()])
async def test_what_is_safe_is_tried_there_again_and_then_over_the_next_interface(error: Exception) -> None:
    """Which stays with that call: one answer that got lost is no reason to leave the best interface."""
    called = Agents({FIRST.url: [error, error, DONE], SECOND.url: [DONE]})
    assert await called.calls.call(ops.GET_TASK, GET) == DONE
    assert called.urls == [FIRST.url, FIRST.url, SECOND.url]
    assert len(called.slept) == 2
    assert await called.calls.call(ops.GET_TASK, GET) == DONE
    assert called.urls[3:] == [FIRST.url]


async def test_a_call_that_went_aside_goes_on_where_nobody_is() -> None:
    called = Agents({FIRST.url: [lost()], SECOND.url: [unsent()], THIRD.url: [DONE]})
    assert await called.calls.call(ops.GET_TASK, GET) == DONE
    assert called.urls == [FIRST.url, FIRST.url, SECOND.url, THIRD.url]


@pytest.mark.parametrize("then", [lost(), unsent(), RateLimitedError(), UnavailableError()])
async def test_a_send_that_may_have_arrived_is_repeated_there_and_nowhere_else(then: Exception) -> None:
    """Another dialect or tenant would make another message of it."""
    called = Agents({FIRST.url: [lost(), then, DONE], SECOND.url: [DONE]}, IDEMPOTENT_SEND)
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert called.urls == [FIRST.url] * 3


async def test_a_send_that_may_have_arrived_is_forgotten_in_time_whatever_came_then() -> None:
    called = Agents({FIRST.url: [lost(), unsent(), DONE], SECOND.url: [DONE]}, IDEMPOTENT_SEND)
    times = iter([0.0, 1.0, REMEMBERED_SECONDS])
    called.calls.clock = lambda: next(times)
    with pytest.raises(UnreachableError, match="no connection"):
        await called.calls.call(ops.SEND_MESSAGE, SEND)
    assert called.urls == [FIRST.url] * 2


async def test_an_interface_that_was_left_is_tried_again_after_a_while() -> None:
    """The others may offer less: no list of tasks before 1.0, no streams that survive."""
    called = Agents({FIRST.url: [unsent(), DONE], SECOND.url: [DONE]})
    now = 1_000.0
    called.calls.clock = lambda: now
    await called.calls.call(ops.GET_TASK, GET)
    now += RETURN_SECONDS
    await called.calls.call(ops.GET_TASK, GET)
    now += 1
    await called.calls.call(ops.GET_TASK, GET)
    assert called.urls == [FIRST.url, SECOND.url, SECOND.url, FIRST.url]


async def test_when_no_interface_can_be_reached_all_are_tried_again_from_the_first() -> None:
    called = Agents({FIRST.url: [unsent(), DONE], SECOND.url: [unsent()], THIRD.url: [unsent()]})
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert called.urls == [FIRST.url, SECOND.url, THIRD.url, FIRST.url]
    assert len(called.slept) == 1


async def test_when_no_interface_can_ever_be_reached_all_are_tried_as_often_as_any() -> None:
    called = Agents({FIRST.url: [unsent()], SECOND.url: [unsent()]}, attempts=2)
    with pytest.raises(UnreachableError, match="no connection"):
        await called.calls.call(ops.SEND_MESSAGE, SEND)
    assert called.urls == [FIRST.url, SECOND.url] * 2


async def test_what_is_wrong_with_the_interface_in_use_is_raised_and_not_with_those_tried_after_it() -> None:
    refused = OSError("refused")
    first = UnreachableError("no JSON-RPC", was_sent=False)
    first.__cause__ = refused
    agents = Agents({FIRST.url: [first], SECOND.url: [unsent()], THIRD.url: [unsent()]})
    with pytest.raises(UnreachableError, match="no JSON-RPC") as caught:
        await agents.calls.call(ops.GET_TASK, GET)
    assert caught.value.__cause__ is refused
    assert caught.value.__suppress_context__
    agents = Agents({FIRST.url: [first], SECOND.url: [lost()]})
    with pytest.raises(UnreachableError, match="the answer is lost"):  # whether it arrived counts more
        await agents.calls.call(ops.SEND_MESSAGE, SEND)


async def test_an_older_interface_without_the_operation_does_not_hide_why_the_first_one_failed() -> None:
    lacking = UnsupportedOperationError("A2A 0.3 has no ListTasks over gRPC")
    called = Agents({FIRST.url: [unsent()], THIRD.url: [lacking]})
    with pytest.raises(UnreachableError):
        await called.calls.call(ops.GET_TASK, GET)
    assert called.urls == [FIRST.url, THIRD.url] * 3
    called = Agents({FIRST.url: [lacking], THIRD.url: [DONE]})  # no reason to leave an interface that works
    with pytest.raises(UnsupportedOperationError):
        await called.calls.call(ops.GET_TASK, GET)
    assert called.urls == [FIRST.url]


async def test_calls_at_the_same_time_leave_an_interface_once() -> None:
    called = Agents({FIRST.url: [unsent()], SECOND.url: [DONE], THIRD.url: [InternalError()]})
    results = await asyncio.gather(*(called.calls.call(ops.GET_TASK, GET) for _ in range(5)))
    assert results == [DONE] * 5
    assert THIRD.url not in called.urls


async def test_each_interface_gets_its_own_tenant_unless_the_caller_names_another() -> None:
    called = Agents({FIRST.url: [unsent()], THIRD.url: [DONE]})
    await called.calls.call(ops.GET_TASK, GET)
    await called.calls.call(ops.GET_TASK, GetTaskRequest(TASK, tenant="mine"))
    assert [asked.request.tenant for asked in called.asked] == [None, "tenant", "mine"]


async def test_a_task_is_named_for_0_1_and_for_nobody_else() -> None:
    called = Agents({OLDEST.url: [unsent()], FIRST.url: [DONE]})
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    first, second = (asked.request for asked in called.asked)
    assert (bool(first.message.task_id), first.caller_names_task) == (True, True)
    assert second == SEND


async def test_a_send_that_is_tried_again_in_0_1_keeps_the_name_of_its_task() -> None:
    called = Agents({FIRST.url: [unsent()], OLDEST.url: [RateLimitedError(), DONE]})
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    names = [asked.request.message.task_id for asked in called.asked]
    assert names[0] is None
    assert names[1] == names[2] != names[3]
    answer = structs.replace(SEND, message=structs.replace(SEND.message, task_id=TASK))
    assert await called.calls.call(ops.SEND_MESSAGE, answer) == DONE
    assert called.asked[-1].request.message.task_id == TASK


async def test_what_is_closed_calls_nobody() -> None:
    called = agent(DONE)
    await called.calls.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await called.calls.call(ops.GET_TASK, GET)
    assert called.asked == []


async def test_all_connections_are_closed() -> None:
    called = Agents({FIRST.url: [unsent()], SECOND.url: [DONE]})
    transports: list[Scripted] = []

    def connect(interface: AgentInterface, version: Version) -> Transport:
        transports.append(Scripted(called, interface, version))
        return transports[-1]

    called.calls.connect = connect
    await called.calls.call(ops.GET_TASK, GET)
    await called.calls.close()
    assert [transport.is_closed for transport in transports] == [True, True]


# --- with which headers and credentials -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("face", "operation", "declared", "wanted", "headers"),
    [
        (FIRST, ops.GET_TASK, (), (), {"a2a-version": "1.0"}),
        (FIRST, ops.GET_TASK, (), ("urn:x", "urn:y"), {"a2a-version": "1.0", "a2a-extensions": "urn:x, urn:y"}),
        (FIRST, ops.SUBSCRIBE_TO_TASK, (CURSOR,), (), {"a2a-version": "1.0"}),
        (THIRD, ops.GET_TASK, (CURSOR,), ("urn:x",), {"x-a2a-extensions": "urn:x"}),
        (THIRD, ops.SUBSCRIBE_TO_TASK, (CURSOR,), ("urn:x",), {"x-a2a-extensions": f"urn:x, {CURSOR}"}),
        (THIRD, ops.SUBSCRIBE_TO_TASK, (CURSOR,), (CURSOR,), {"x-a2a-extensions": CURSOR}),
        (THIRD, ops.SUBSCRIBE_TO_TASK, (), (), {}),
        (OLDEST, ops.SUBSCRIBE_TO_TASK, (), ("urn:x",), {"a2a-version": "0.1", "x-a2a-extensions": "urn:x"}),
    ],
)
async def test_version_and_extensions_are_said_in_the_words_of_the_dialect(
    face: AgentInterface,
    operation: Operation,
    declared: tuple[str, ...],
    wanted: tuple[str, ...],
    headers: dict[str, str],
) -> None:
    called = Agents({face.url: [DONE]}, *declared)
    called.calls.extensions = wanted
    request = operation.request(TASK)
    if operation.streams:
        async for _ in called.calls.stream(operation, request):
            pass
    else:
        await called.calls.call(operation, request)
    assert called.asked[0].sent.headers == headers


class Keys:
    """Credentials that can be renewed a number of times."""

    def __init__(self, renewals: int) -> None:
        self.renewals = renewals
        self.number = 0

    async def apply(self, sent: CallOptions, interface: AgentInterface) -> CallOptions:
        await asyncio.sleep(0)
        headers = {**sent.headers, "authorization": f"{interface.url} {self.number}"}
        return replace(sent, headers=headers)

    async def renew(self, error: UnauthenticatedError) -> bool:
        self.number += 1
        return self.number <= self.renewals


def keys_of(called: Agents) -> list[str]:
    return [asked.sent.headers["authorization"] for asked in called.asked]


async def test_credentials_that_are_refused_are_renewed_once_also_for_what_is_tried_once() -> None:
    called = agent(UnauthenticatedError(), DONE, authenticator=Keys(1), attempts=1)
    assert await called.calls.call(ops.SEND_MESSAGE, SEND) == DONE
    assert keys_of(called) == [f"{FIRST.url} 0", f"{FIRST.url} 1"]


@pytest.mark.parametrize(("renewals", "attempts"), [(0, 1), (9, 2)])
async def test_credentials_that_stay_refused_are_an_error(renewals: int, attempts: int) -> None:
    called = agent(UnauthenticatedError(), authenticator=Keys(renewals))
    with pytest.raises(UnauthenticatedError):
        await called.calls.call(ops.GET_TASK, GET)
    assert len(called.asked) == attempts


async def test_without_credentials_a_refusal_is_an_error() -> None:
    called = agent(UnauthenticatedError(), DONE)
    with pytest.raises(UnauthenticatedError):
        await called.calls.call(ops.GET_TASK, GET)


async def test_credentials_never_go_to_another_interface_than_they_were_made_for() -> None:
    """While one call gets its credentials, another may find out that the interface cannot be reached."""
    called = Agents({FIRST.url: [unsent()], SECOND.url: [DONE]}, authenticator=Keys(0))
    with fail_after(5):
        await asyncio.gather(*(called.calls.call(ops.GET_TASK, GET) for _ in range(8)))
    assert all(key.startswith(asked.url) for key, asked in zip(keys_of(called), called.asked, strict=True))


async def test_interceptors_see_each_attempt_in_turn_and_may_change_what_is_sent() -> None:
    seen: list[tuple[str, str]] = []

    def mark(name: str) -> Callable[[Attempt], Any]:
        async def intercept(attempt: Attempt) -> Attempt:
            seen.append((name, attempt.interface.url))
            trail = attempt.options.headers.get("trail", "") + name
            return replace(
                attempt, options=replace(attempt.options, headers={**attempt.options.headers, "trail": trail})
            )

        return intercept

    called = agent(lost(), DONE, interceptors=(mark("a"), mark("b")))
    await called.calls.call(ops.GET_TASK, GET)
    assert seen == [("a", FIRST.url), ("b", FIRST.url)] * 2
    assert [asked.sent.headers["trail"] for asked in called.asked] == ["ab", "ab"]


async def test_an_interceptor_may_refuse() -> None:
    async def refuse(attempt: Attempt) -> Attempt:
        raise PermissionError(attempt.operation.name)

    called = agent(DONE, interceptors=(refuse,))
    with pytest.raises(PermissionError, match="GetTask"):
        await called.calls.call(ops.GET_TASK, GET)
    assert called.asked == []
