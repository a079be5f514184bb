"""Steps: what they return in every run, how they are tried again, and which keys they have."""

import asyncio
import dataclasses
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from parley import Agent, StepTimeoutError, Turn
from parley.engine.limits import Limits
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StepRecorded
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import TaskKey
from parley.testing.client import AgentClient
from tests.bounded import bounded

pytestmark = pytest.mark.anyio


def agent_of(handler: Any) -> Agent:
    agent = Agent("Test")
    agent.on_message(handler)
    return agent


async def recorded_steps(client: AgentClient, task: Task) -> list[str]:
    events = await client.store.tasks.events(TaskKey(client.caller.owner, task.id), after=0, limit=100)
    return [event.name for _, event in events if isinstance(event, StepRecorded)]


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The errors that ended handlers, as the log has them."""
    return [str(record.exc_info[1]) for record in caplog.records if record.exc_info]


class Color(Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    when: datetime | None = None


@dataclasses.dataclass
class Circle:
    radius: float
    center: Point


@dataclasses.dataclass
class Moment(Point):
    place: str = ""


class Order(msgspec.Struct):
    id: UUID
    total: Decimal


class Receipt(pydantic.BaseModel):
    number: int = pydantic.Field(alias="receiptNumber")
    paid_at: datetime


class Row(TypedDict):
    name: str
    color: Color


class Pair(NamedTuple):
    left: int
    right: bytes


class Shop:
    """Callables of every kind."""

    def __init__(self, total: str) -> None:
        self.total = total

    def order(self) -> "Order":
        return Order(UUID(int=7), Decimal(self.total))

    async def order_later(self) -> "list[Order]":
        return [self.order()]

    def __call__(self) -> Order:
        return self.order()


MOMENT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def returns(value: Any, annotation: Any) -> Callable[[], Any]:
    """A plain function that returns a value and says so."""

    def function() -> Any:
        return value

    function.__annotations__["return"] = annotation
    return function


async def point_later(x: int) -> Point:
    return Point(x, MOMENT)


def awaitable_point(x: int) -> Awaitable[Point]:
    return point_later(x)


def with_unknown_argument(x: "OnlyForTypeCheckers" = 8) -> "Point":  # type: ignore[name-defined] # noqa: F821
    return Point(x)


def of_a_class_in_a_function() -> tuple[Callable[[], Any], Any]:
    @dataclasses.dataclass
    class Local:
        x: int

    def local() -> "list[Local]":
        return [Local(1)]

    return local, [Local(1)]


RECEIPT = Receipt(receiptNumber=1, paid_at=MOMENT)
local, local_result = of_a_class_in_a_function()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returns(Point(1, MOMENT), Point), Point(1, MOMENT)),
        (returns([Circle(1.0, Point(2))], list[Circle]), [Circle(1.0, Point(2))]),
        (returns(RECEIPT, Receipt), RECEIPT),
        (returns({"a": [RECEIPT]}, dict[str, list[Receipt] | None]), {"a": [RECEIPT]}),
        (returns({"name": "a", "color": Color.RED}, Row), {"name": "a", "color": Color.RED}),
        (returns((1, "a"), tuple[int, str]), (1, "a")),
        (returns(Pair(1, b"\0"), Pair), Pair(1, b"\0")),
        (returns({1, 2}, set[int]), {1, 2}),
        (returns({1: MOMENT}, dict[int, datetime]), {1: MOMENT}),
        (returns(None, Point | None), None),
        (returns(Circle(1.0, Point(2)), Point | Circle), Circle(1.0, Point(2))),
        (returns(Point(3), Circle | Point | None), Point(3)),
        (returns(Circle(1, Point(2)), Circle | Point), Circle(1.0, Point(2))),
        (returns(Moment(1, MOMENT, "Rome"), Point | Moment), Moment(1, MOMENT, "Rome")),
        (returns([1, None], Any), [1, None]),
        (returns(2, object), 2),
        (Shop("1.50").order, Order(UUID(int=7), Decimal("1.50"))),
        (Shop("2").order_later, [Order(UUID(int=7), Decimal(2))]),
        (Shop("3"), Order(UUID(int=7), Decimal(3))),
        (partial(point_later, 4), Point(4, MOMENT)),
        (partial(awaitable_point, 5), Point(5, MOMENT)),
        (lambda: point_later(6), {"x": 6, "when": "2026-01-02T03:04:00Z"}),
        (partial(Point, 7), Point(7)),
        (partial(divmod, 7, 2), [3, 1]),
        (with_unknown_argument, Point(8)),
        (local, local_result),
    ],
)
async def test_a_step_returns_what_its_function_returns_in_every_run(
    function: Callable[[], Any], expected: object
) -> None:
    seen: list[Any] = []

    async def handler(turn: Turn) -> None:
        result = await turn.step("s", function)
        seen.append((type(result), result))
        await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        await client.send("yes", task=asked)
    assert seen == [(type(expected), expected)] * 2


async def test_a_handler_that_changes_a_result_finds_it_unchanged_when_it_begins_again() -> None:
    seen: list[Any] = []

    async def handler(turn: Turn) -> None:
        result = await turn.step("s", lambda: {"list": [1]})
        seen.append(dict(result))
        result["list"] = []
        await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        await client.send("yes", task=asked)
    assert seen == [{"list": [1]}] * 2


def unresolvable() -> "Missing":  # type: ignore[name-defined] # noqa: F821
    return {"x": 1}


def unsupported() -> list[Point | Circle]:
    return [Point(1)]


@pytest.mark.parametrize(
    ("function", "expected", "reason"),
    [
        (unresolvable, {"x": 1}, "its return annotation 'Missing' cannot be resolved"),
        (unsupported, [{"x": 1, "when": None}], "Type unions may not contain more than one dataclass"),
        (returns([1], Callable[[], int]), [1], "JSON cannot be converted to"),
    ],
)
async def test_a_result_whose_type_json_cannot_give_stays_json_and_the_log_says_why(
    function: Callable[[], Any], expected: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(turn: Turn) -> None:
        assert await turn.step("look", function) == expected
        await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        task = await client.send("yes", task=asked)
    assert task.status.state is TaskState.COMPLETED
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"The result of step 'look' stays plain JSON: {function.__qualname__}: ")
    assert reason in warning


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (object, "The result of step 'look', of type object, cannot be stored: a value of type object is not JSON"),
        (lambda: [float("nan")], "The result of step 'look', of type list, cannot be stored: JSON has no nan"),
        (lambda: {"a": float("-inf")}, "The result of step 'look', of type dict, cannot be stored: JSON has no -inf"),
        (
            lambda: {(1, 2): 3},
            "The result of step 'look', of type dict, cannot be stored: a value of type tuple is not",
        ),
        (lambda: "\ud800", "The result of step 'look', of type str, cannot be stored: 'utf-8' codec can't encode"),
        (lambda: "x" * 99, "The result of step 'look', of type str, takes 101 bytes in JSON; 100 are allowed."),
        (returns("1", int), "The result of step 'look' does not fit int, the return annotation of returns.<locals>."),
        (returns({}, Point | Circle), "The result of step 'look' does not fit tests.agents.test_steps.Point | tests"),
    ],
)
async def test_a_result_that_cannot_be_stored_is_an_error_that_names_the_step_and_nothing_is_recorded(
    function: Callable[[], Any], error: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(turn: Turn) -> None:
        await turn.step("look", function)

    async with bounded(agent_of(handler), limits=Limits(step_bytes=100)) as client:
        task = await client.send("go")
        assert await recorded_steps(client, task) == []
    assert task.status.state is TaskState.FAILED
    (logged,) = errors_in(caplog)
    assert logged.startswith(error)


async def test_a_recorded_result_that_no_longer_fits_is_an_error_that_names_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    functions = [returns({"x": 1}, dict[str, int]), returns(None, Circle)]

    async def handler(turn: Turn) -> None:
        await turn.step("look", functions.pop(0))
        await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        task = await client.send("yes", task=asked)
    assert task.status.state is TaskState.FAILED
    assert errors_in(caplog) == [
        "The result of step 'look' does not fit Circle, the return annotation of returns.<locals>.function: Object "
        "missing required field `radius`. If the code has changed since, give the step a new name."
    ]


async def test_a_call_instead_of_a_function_or_of_await_is_an_error_that_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def look() -> str:
        return "seen"

    async def called(turn: Turn) -> Any:
        await turn.step("look", look())  # pyright: ignore

    async def not_awaited(turn: Turn) -> Any:
        looking = turn.step("look", look)
        try:
            yield looking
        finally:
            looking.close()  # pyright: ignore

    for handler in (called, not_awaited):
        async with bounded(agent_of(handler)) as client:
            assert (await client.send("go")).status.state is TaskState.FAILED
    function, awaited = errors_in(caplog)
    assert function.startswith(
        "turn.step needs a name and a function, not an object of type coroutine. Write turn.step("
    )
    assert awaited == "An agent cannot send a value of type coroutine. Use `await` to get its result."


async def test_arguments_may_have_any_name() -> None:
    def hello(name: str, do: str) -> str:
        return f"{name} {do}"

    async def handler(turn: Turn) -> str:
        return await turn.step("hello", hello, name="Ada", do="runs")

    async with bounded(agent_of(handler)) as client:
        assert client.text(await client.send("go")) == "Ada runs"


async def test_steps_side_by_side_keep_their_own_results() -> None:
    seen: list[Any] = []

    async def handler(turn: Turn) -> None:
        async with asyncio.TaskGroup() as group:
            left = group.create_task(turn.step("left", point_later, 1))
            right = group.create_task(turn.step("right", Shop("2").order))
        seen.append((left.result(), right.result()))
        await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        await client.send("yes", task=asked)
    assert seen == [(Point(1, MOMENT), Order(UUID(int=7), Decimal(2)))] * 2


# --- tried again ------------------------------------------------------------------------------------------------------


class Flaky:
    """A service that fails some times before it answers, and jitter that says when a pause begins."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.pauses: asyncio.Queue[None] = asyncio.Queue()

    async def charge(self, amount: int) -> Decimal:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return Decimal(amount)

    def jitter(self) -> float:
        self.pauses.put_nowait(None)
        return 1.0


async def test_a_step_that_fails_is_tried_again_after_pauses_that_double(caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky(ConnectionError("refused"), ValueError("odd"), TimeoutError("late"))

    async def handler(turn: Turn) -> Any:
        retrying = turn.retrying(attempts=5, backoff="1s", max_backoff="3s", jitter=flaky.jitter)
        charged = await retrying.step("charge", flaky.charge, 5)
        await turn.ask("On?")
        return str(charged)

    async with bounded(agent_of(handler)) as client:
        sending = asyncio.create_task(client.send("go"))
        for number, seconds in enumerate((1, 2, 3), 1):
            await flaky.pauses.get()
            await client.clock.advance(seconds - 0.01)
            assert flaky.calls == number
            await client.clock.advance(0.01)
        task = await client.send("yes", task=await sending)
        assert await recorded_steps(client, task) == ["charge"]
    assert (client.text(task), flaky.calls) == ("5", 4)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "Step 'charge' failed, attempt 1 of 5: ConnectionError: refused",
        "Step 'charge' failed, attempt 2 of 5: ValueError: odd",
        "Step 'charge' failed, attempt 3 of 5: TimeoutError: late",
    ]


@pytest.mark.parametrize(
    ("error", "on", "calls"),
    [
        (ConnectionError("refused"), Exception, 3),
        (ConnectionError("refused"), (KeyError, OSError), 3),
        (TimeoutError("its own"), TimeoutError, 3),
        (ValueError("odd"), (ConnectionError,), 1),
        (LocalProtocolError("misused"), Exception, 1),
    ],
)
async def test_the_last_error_of_a_step_is_raised_and_only_chosen_ones_are_tried_again(
    error: Exception, on: Any, calls: int
) -> None:
    flaky = Flaky(*[error] * 9)

    async def handler(turn: Turn) -> str:
        with pytest.raises(type(error)) as raised:
            await turn.retrying(attempts=3, backoff=0, timeout="1h", on=on).step("charge", flaky.charge, 5)
        return str(raised.value)

    async with bounded(agent_of(handler)) as client:
        task = await client.send("go")
        assert (client.text(task), flaky.calls) == (str(error), calls)
        assert await recorded_steps(client, task) == []


async def test_an_attempt_that_takes_too_long_is_tried_again_and_the_last_one_raises() -> None:
    started: asyncio.Queue[None] = asyncio.Queue()
    blocked = threading.Event()

    async def hang() -> None:
        started.put_nowait(None)
        await asyncio.Event().wait()

    def block(loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(started.put_nowait, None)
        blocked.wait()

    async def handler(turn: Turn) -> Any:
        retrying = turn.retrying(attempts=2, backoff=0, timeout="30s")
        with pytest.raises(StepTimeoutError, match=r"^Step 'hang' took longer than its timeout of 0:00:30$"):
            await retrying.step("hang", hang)
        with pytest.raises(TimeoutError, match=r"^Step 'block' .* 0:00:30; its function goes on in a thread"):
            await retrying.step("block", block, asyncio.get_running_loop())
        return "gave up"

    async with bounded(agent_of(handler)) as client:
        sending = asyncio.create_task(client.send("go"))
        for _ in range(4):
            await started.get()
            await client.clock.advance(30)
        assert client.text(await sending) == "gave up"
    blocked.set()


async def test_all_attempts_together_have_a_deadline() -> None:
    flaky = Flaky(*[ConnectionError("refused")] * 9)

    async def handler(turn: Turn) -> Any:
        retrying = turn.retrying(attempts=9, backoff="4s", deadline="10s", jitter=flaky.jitter)
        with pytest.raises(StepTimeoutError, match=r"^Step 'charge' missed its deadline of 0:00:10$"):
            await retrying.step("charge", flaky.charge, 5)
        return "gave up"

    async with bounded(agent_of(handler)) as client:
        sending = asyncio.create_task(client.send("go"))
        for _ in range(2):
            await flaky.pauses.get()
            await client.clock.advance(5)
        assert client.text(await sending) == "gave up"
    assert flaky.calls == 2


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_cancelled_task_ends_in_the_middle_of_a_pause(is_plain: bool) -> None:
    flaky = Flaky(*[ConnectionError("refused")] * 9)

    async def handler(turn: Turn) -> None:
        await turn.retrying(backoff="1h", jitter=flaky.jitter).step("charge", flaky.charge, 5)

    def plain_handler(turn: Turn) -> None:
        turn.wait(turn.retrying(backoff="1h", max_backoff="1h", jitter=flaky.jitter).step("charge", flaky.charge, 5))

    async with bounded(agent_of(plain_handler if is_plain else handler), limits=Limits(cancel_seconds=0)) as client:
        task = await client.start("go")
        await flaky.pauses.get()
        assert (await client.cancel(task)).status.state is TaskState.CANCELED
        await client.clock.advance(3600)
    assert flaky.calls == 1


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"timeout": 0}, {"deadline": "0s"}, {"backoff": "soon"}, {"max_backoff": -1}]
)
async def test_a_policy_that_makes_no_sense_is_an_error_at_once(options: dict[str, Any]) -> None:
    async def handler(turn: Turn) -> None:
        with pytest.raises(LocalProtocolError):
            turn.retrying(**options)

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.state is TaskState.COMPLETED


async def test_a_key_is_the_same_in_every_run_and_different_for_every_name_and_message() -> None:
    keys: list[list[str]] = []

    async def handler(turn: Turn) -> None:
        keys.append([turn.key_for("charge"), turn.key_for("refund"), turn.key_for("charge"), turn.idempotency_key])
        if turn.text == "go":
            await turn.ask("On?")

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        await client.send("yes", task=asked)
        await client.send("another")
    first, again, another = keys
    assert first == again
    assert first[0] == first[2]
    assert len({*first, *another}) == 6
    assert all(re.fullmatch("[0-9a-f]{32}", key) for key in (*first, *another))
