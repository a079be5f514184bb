"""Streams that break and are taken up again: whatever the cut points, what was folded is the task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.client.calls import Calls
from parley.client.errors import StreamTruncatedError, TimedOutError, UnreachableError
from parley.client.options import Bounds, Retries, Timeouts
from parley.client.streams import resuming
from parley.client.streams.resuming import ResumableStream
from parley.client.transports.transport import CallOptions, ReceivedEvent
from parley.protocol.errors import (
    InternalError,
    PeerProtocolError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from tests.client.scripted_agent import (
    PLACE,
    SEND,
    SUBMITTED,
    TASK,
    Break,
    Manner,
    ScriptedAgent,
    card_of,
    chunk,
    parts_by_artifact,
    status,
)
from tests.deadlines import fail_after

S = TaskState
BEGUN = Task(TASK, "c", SUBMITTED)
TEXT = (chunk("one ", append=False), chunk("two "), chunk("two "), chunk("three"), status(S.COMPLETED))
SUBSCRIBE = SubscribeToTaskRequest(TASK)

updates = st.one_of(
    st.builds(chunk, st.sampled_from(["a", "b", "ab "]), st.sampled_from(["a", "b"]), append=st.booleans()),
    st.builds(chunk, st.sampled_from(["a", "b", "ab "])),
    st.builds(status, st.just(S.WORKING), st.sampled_from([None, "one", "two"])),
)
scripts = st.tuples(st.lists(updates, max_size=10), st.sampled_from([S.COMPLETED, S.FAILED, S.INPUT_REQUIRED]))
breaks = st.lists(st.builds(Break, st.integers(0, 8), st.integers(0, 3), st.booleans()), max_size=3)


async def followed(agent: ScriptedAgent) -> ResumableStream:
    following = ResumableStream(agent.calls())
    with fail_after(5):
        async for _ in following.events(SEND):
            pass
    return following


@given(scripts, st.sampled_from(Manner), breaks)
def test_whatever_the_cut_points_the_folded_result_is_the_task(
    script: tuple[list[StatusUpdate | ArtifactUpdate], TaskState], manner: Manner, cuts: list[Break]
) -> None:
    events, end = script
    # The first event always comes: before it, nothing is known that could be followed.
    cuts = [Break(max(cut.after, 1), cut.meanwhile, cut.looks_like_an_end) for cut in cuts]
    agent = ScriptedAgent([*events, status(end, "the end")], manner, list(cuts))
    seen = asyncio.run(followed(agent)).seen.task()
    truth = agent.truth()
    assert (seen.status, parts_by_artifact(seen)) == (truth.status, parts_by_artifact(truth))


@given(scripts, breaks)
def test_with_numbers_every_event_comes_exactly_once(
    script: tuple[list[StatusUpdate | ArtifactUpdate], TaskState], cuts: list[Break]
) -> None:
    events, end = script
    cuts = [Break(max(cut.after, 1), cut.meanwhile, cut.looks_like_an_end) for cut in cuts]
    agent = ScriptedAgent([*events, status(end)], Manner.NUMBERED, list(cuts))

    async def collect() -> list[StreamEvent]:
        return [event async for event in ResumableStream(agent.calls()).events(SEND)]

    assert asyncio.run(collect()) == [BEGUN, *agent.script]
    assert agent.looks == 0


@pytest.mark.anyio
@pytest.mark.parametrize("manner", [Manner.REPEATS, Manner.SKIPS, Manner.CLOSES, Manner.REFUSES])
async def test_without_numbers_no_chunk_is_told_twice(manner: Manner) -> None:
    agent = ScriptedAgent(TEXT, manner, [Break(3, 1)])
    told = ""
    async for event in ResumableStream(agent.calls()).events(SEND):
        if isinstance(event, ArtifactUpdate):
            assert event.append or not told
            told += "".join(part.text for part in event.artifact.parts if isinstance(part, TextPart))
    assert told == "one two two three"


@pytest.mark.anyio
async def test_a_numbered_stream_is_taken_up_after_the_last_number() -> None:
    agent = ScriptedAgent(TEXT, Manner.NUMBERED, [Break(2), Break(0), Break(1)])
    following = await followed(agent)
    assert agent.subscriptions == ["1", "1", "2"]
    assert following.cursor == "5"


@pytest.mark.anyio
async def test_numbers_of_an_agent_that_promises_nothing_are_not_relied_on() -> None:
    """Some agents number their frames and ignore the number that a reader comes back with."""
    agent = ScriptedAgent(TEXT, Manner.NUMBERED, [Break(2)])
    calls = agent.calls()
    calls.card = card_of()
    following = ResumableStream(calls)
    with fail_after(5):
        async for _ in following.events(SEND):
            pass
    assert agent.subscriptions == [None]
    assert parts_by_artifact(following.seen.task()) == parts_by_artifact(agent.truth())


# --- single cases, each told by a few streams -------------------------------------------------------------------------


class Streams:
    """An agent whose streams are given, one after the other; an exception breaks one. `tasks` are what looks find."""

    interface = PLACE
    version = PLACE.version

    def __init__(
        self, *streams: list[StreamEvent | ReceivedEvent | Exception], tasks: list[Task | Exception] | None = None
    ):
        self.streams = list(streams)
        self.tasks = tasks or []
        self.waited: list[float] = []

    def following(self, *extensions: str, **options: float) -> ResumableStream:
        calls = Calls(
            card_of(*extensions),
            [(self.interface, self.version)],
            lambda *_: self,
            timeouts=Timeouts(reply=3.0),
            retries=Retries(
                attempts=int(options.get("attempts", 3)),
                first_pause=options.get("first_pause", 0),
                outage=options.get("outage", 0),
            ),
            bounds=Bounds(stream_bytes=int(options.get("stream_bytes", 1_000_000))),
            sleep=self.sleep,
            clock=lambda: sum(self.waited),
        )
        return ResumableStream(calls)

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)

    async def call(self, operation: Operation, request: Request, sent: CallOptions) -> Result:
        if not self.tasks:
            raise TaskNotFoundError
        found = self.tasks.pop(0) if len(self.tasks) > 1 else self.tasks[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def stream(self, operation: Operation, request: Request, sent: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        if not self.streams:
            raise UnsupportedOperationError
        for event in self.streams.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event if isinstance(event, ReceivedEvent) else ReceivedEvent(event)

    async def close(self) -> None: ...


async def told(following: ResumableStream, *, subscribes: bool = False) -> list[StreamEvent]:
    with fail_after(5):
        return [event async for event in following.events(SUBSCRIBE if subscribes else SEND)]


BROKEN = UnreachableError("broken")
WORKING = Task(TASK, "c", TaskStatus(S.WORKING))
DONE = Task(TASK, "c", TaskStatus(S.COMPLETED), (Artifact("a", (TextPart("one "), TextPart("two"))),))
WHOLE = ArtifactUpdate(TASK, "c", DONE.artifacts[0], last_chunk=True)
ASKS = Task(TASK, "c", TaskStatus(S.INPUT_REQUIRED))
ANSWER = SendMessageRequest(Message("m", Role.USER, (TextPart("blue"),), task_id=TASK))


@pytest.mark.anyio
async def test_a_stream_that_breaks_before_anything_is_known_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="broken"):
        await told(Streams([BROKEN]).following())


@pytest.mark.anyio
async def test_a_stream_that_ends_before_its_first_event_is_an_error() -> None:
    with pytest.raises(UnreachableError, match="before its first event"):
        await told(Streams([]).following())


@pytest.mark.anyio
async def test_a_stream_that_breaks_after_its_last_word_is_whole() -> None:
    assert await told(Streams([BEGUN, status(S.COMPLETED), BROKEN]).following()) == [BEGUN, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_an_agent_that_waits_for_an_answer_while_the_stream_is_away_has_said_its_last_word() -> None:
    """Whoever went on to listen would wait for itself."""
    agent = Streams([BEGUN, BROKEN], [ASKS, BROKEN])
    assert await told(agent.following()) == [BEGUN, status(S.INPUT_REQUIRED)]


@pytest.mark.anyio
async def test_whoever_subscribes_to_a_task_that_waits_hears_what_comes_next() -> None:
    agent = Streams([ASKS, BROKEN], [ASKS, status(S.WORKING), status(S.COMPLETED)], tasks=[WORKING, DONE])
    assert await told(agent.following(), subscribes=True) == [
        ASKS,
        status(S.WORKING),
        WHOLE,
        status(S.COMPLETED),
    ]


@pytest.mark.anyio
async def test_whoever_answers_does_not_take_the_old_question_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some agents begin the stream of an answer with the task as it stood before, and then think for a while."""
    monkeypatch.setattr(resuming, "CLOSE_SECONDS", 0.0)

    class Thoughtful(Streams):
        async def stream(
            self, operation: Operation, request: Request, sent: CallOptions
        ) -> AsyncGenerator[ReceivedEvent]:
            yield ReceivedEvent(ASKS)
            await asyncio.sleep(0.01)
            yield ReceivedEvent(status(S.WORKING))
            yield ReceivedEvent(status(S.COMPLETED))

    following = Thoughtful().following()
    with fail_after(5):
        events = [event async for event in following.events(ANSWER)]
    assert events == [ASKS, status(S.WORKING), status(S.COMPLETED)]


@pytest.mark.anyio
async def test_an_answer_whose_stream_ends_with_a_question_is_over() -> None:
    following = Streams([ASKS]).following()
    assert [event async for event in following.events(ANSWER)] == [ASKS]


@pytest.mark.anyio
async def test_what_no_event_tells_is_taken_from_the_snapshots() -> None:
    """The messages of a task and its metadata, also those of the time without a connection."""
    said = (Message("u", Role.USER, (TextPart("go"),)), Message("one", Role.AGENT, (TextPart("one"),)))
    done = Task(TASK, "c", TaskStatus(S.COMPLETED), history=said, metadata={"cost": 3})
    agent = Streams([BEGUN, status(S.WORKING, "one"), BROKEN], tasks=[done])
    following = agent.following()
    await told(following)
    assert following.seen.task() == done


@pytest.mark.anyio
async def test_an_agent_that_thinks_in_silence_is_looked_at_and_not_given_up() -> None:
    """Where an agent sends no heartbeats, each of its streams may time out while it is at work."""
    silent: list[StreamEvent | ReceivedEvent | Exception] = [WORKING, TimedOutError("silent")]
    agent = Streams(
        [BEGUN, TimedOutError("silent")], *[list(silent) for _ in range(20)], tasks=[WORKING, WORKING, DONE]
    )
    events = await told(agent.following(attempts=2))
    assert events == [BEGUN, status(S.WORKING), WHOLE, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_looks_begin_with_the_task_that_they_are_of() -> None:
    following = Streams(tasks=[WORKING, DONE]).following()
    with fail_after(5):
        assert [event async for event in following.poll_events(TASK)] == [WORKING, WHOLE, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_a_subscription_that_begins_in_the_middle_begins_with_a_look_at_the_task() -> None:
    agent = Streams([chunk("two"), status(S.COMPLETED)], tasks=[DONE])
    assert await told(agent.following(), subscribes=True) == [DONE]


@pytest.mark.anyio
async def test_what_an_agent_keeps_and_does_not_stream_is_told_before_the_end() -> None:
    agent = Streams([BEGUN, status(S.WORKING, "soon"), status(S.COMPLETED)], tasks=[DONE])
    assert await told(agent.following()) == [BEGUN, status(S.WORKING, "soon"), WHOLE, status(S.COMPLETED)]


@pytest.mark.anyio
@pytest.mark.parametrize("kept", [WORKING, TaskNotFoundError(), BROKEN])
async def test_an_end_without_an_answer_stays_the_end_when_nobody_knows_more(kept: Task | Exception) -> None:
    agent = Streams([BEGUN, status(S.COMPLETED)], tasks=[kept])
    assert await told(agent.following()) == [BEGUN, status(S.COMPLETED)]


@pytest.mark.anyio
@pytest.mark.parametrize("last", [chunk("hi", append=False), status(S.COMPLETED, "hi")])
async def test_who_has_an_answer_does_not_look_for_another(last: StatusUpdate | ArtifactUpdate) -> None:
    stream: list[StreamEvent | ReceivedEvent | Exception] = [BEGUN, last]
    if isinstance(last, ArtifactUpdate):
        stream.append(status(S.COMPLETED))
    assert await told(Streams(list(stream), tasks=[AssertionError()]).following()) == stream


@pytest.mark.anyio
async def test_a_message_alone_is_a_whole_stream() -> None:
    reply = Message("r", Role.AGENT, (TextPart("hi"),))
    assert await told(Streams([reply]).following()) == [reply]


@pytest.mark.anyio
async def test_a_message_within_a_task_does_not_end_it() -> None:
    reply = Message("r", Role.AGENT, (TextPart("hi"),), task_id=TASK)
    agent = Streams([BEGUN, reply], tasks=[DONE])
    assert await told(agent.following()) == [
        BEGUN,
        reply,
        WHOLE,
        status(S.COMPLETED),
    ]


@pytest.mark.anyio
async def test_what_a_careless_agent_says_after_its_last_word_is_told() -> None:
    late = chunk("late", append=False)
    events = [BEGUN, status(S.COMPLETED), late]
    assert await told(Streams(list(events)).following()) == events


@pytest.mark.anyio
async def test_an_agent_that_does_not_close_after_its_last_word_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resuming, "CLOSE_SECONDS", 0.01)

    class Open(Streams):
        async def stream(
            self, operation: Operation, request: Request, sent: CallOptions
        ) -> AsyncGenerator[ReceivedEvent]:
            yield ReceivedEvent(BEGUN)
            yield ReceivedEvent(status(S.COMPLETED))
            await asyncio.Event().wait()

    assert await told(Open().following()) == [BEGUN, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_an_agent_that_never_stops_after_its_last_word_is_left() -> None:
    class Endless(Streams):
        async def stream(
            self, operation: Operation, request: Request, sent: CallOptions
        ) -> AsyncGenerator[ReceivedEvent]:
            yield ReceivedEvent(BEGUN)
            while True:
                yield ReceivedEvent(status(S.COMPLETED))

    agent = Endless(tasks=[Task(TASK, "c", TaskStatus(S.COMPLETED)), AssertionError()])
    events = await told(agent.following())
    assert len(events) == 2 + resuming.MAX_LATE_EVENTS


@pytest.mark.anyio
@pytest.mark.parametrize("foreign", [Task("other", "c", SUBMITTED), StatusUpdate("other", "c", SUBMITTED)])
async def test_a_stream_that_speaks_of_another_task_is_refused(foreign: StreamEvent) -> None:
    with pytest.raises(PeerProtocolError, match="of another task: other"):
        await told(Streams([BEGUN, foreign]).following())
    with pytest.raises(PeerProtocolError, match="of another task: other"):
        await told(Streams([foreign]).following(), subscribes=True)


@pytest.mark.anyio
async def test_a_look_that_finds_another_task_is_refused() -> None:
    agent = Streams([BEGUN, BROKEN], tasks=[Task("other", "c", SUBMITTED)])
    with pytest.raises(PeerProtocolError, match="another task: other"):
        await told(agent.following())


@pytest.mark.anyio
async def test_a_look_that_finds_no_task_is_refused() -> None:
    agent = Streams([BEGUN, BROKEN], tasks=[Message("m", Role.AGENT, ())])  # pyright: ignore[reportArgumentType]
    with pytest.raises(PeerProtocolError, match="something else than a task"):
        await told(agent.following())


@pytest.mark.anyio
async def test_a_task_that_is_gone_after_a_break_is_a_truncated_stream() -> None:
    agent = Streams([BEGUN, BROKEN], tasks=[TaskNotFoundError()])
    with pytest.raises(StreamTruncatedError) as caught:
        await told(agent.following())
    assert (caught.value.task_id, type(caught.value.__cause__)) == (TASK, TaskNotFoundError)


@pytest.mark.anyio
async def test_what_an_agent_reports_on_its_first_stream_is_raised_as_it_is() -> None:
    with pytest.raises(InternalError):
        await told(Streams([BEGUN, InternalError()]).following())


@pytest.mark.anyio
async def test_an_agent_that_is_going_down_is_asked_again() -> None:
    agent = Streams([BEGUN, UnavailableError()], [WORKING, status(S.COMPLETED)], tasks=[DONE])
    assert (await told(agent.following()))[-1] == status(S.COMPLETED)


@pytest.mark.anyio
async def test_breaks_without_news_in_between_end_in_an_error() -> None:
    broken: list[StreamEvent | ReceivedEvent | Exception] = [BROKEN]
    agent = Streams([BEGUN, BROKEN], *[broken] * 20)
    with pytest.raises(StreamTruncatedError) as caught:
        await told(agent.following(attempts=2))
    assert caught.value.__cause__ is BROKEN
    assert BROKEN.__traceback__ is None


@pytest.mark.anyio
async def test_a_stream_is_taken_up_for_as_long_as_an_outage_may_take() -> None:
    """A container takes longer to start anew than a handful of attempts."""
    broken: list[StreamEvent | ReceivedEvent | Exception] = [BROKEN]
    agent = Streams([ReceivedEvent(BEGUN, "1"), BROKEN], *[broken] * 1_000)
    with pytest.raises(StreamTruncatedError, match="resumed: broken") as caught:
        await told(agent.following(CURSOR, attempts=1, first_pause=0.2, outage=60))
    assert 60 <= sum(agent.waited) <= 65
    assert (caught.value.task_id, caught.value.cursor) == (TASK, "1")
    agent = Streams([ReceivedEvent(BEGUN, "1"), BROKEN], *[broken] * 10, [ReceivedEvent(status(S.COMPLETED), "2")])
    assert await told(agent.following(CURSOR, attempts=1, first_pause=0.2, outage=60)) == [BEGUN, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_looks_at_a_task_go_on_after_an_outage() -> None:
    away: list[Task | Exception] = [BROKEN] * 10
    agent = Streams(tasks=[WORKING, *away, DONE])
    with fail_after(5):
        events = [event async for event in agent.following(attempts=1, first_pause=0.2, outage=60).poll_events(TASK)]
    assert events == [WORKING, WHOLE, status(S.COMPLETED)]
    agent = Streams(tasks=[WORKING, BROKEN])
    with fail_after(5), pytest.raises(StreamTruncatedError) as caught:
        _ = [event async for event in agent.following(attempts=1, first_pause=0.2, outage=60).poll_events(TASK)]
    assert caught.value.__cause__ is BROKEN
    with fail_after(5), pytest.raises(UnreachableError, match="broken"):
        _ = [event async for event in Streams(tasks=[BROKEN]).following().poll_events(TASK)]


@pytest.mark.anyio
async def test_a_stream_is_not_spread_over_connections_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "MAX_CONNECTIONS", 5)
    agent = Streams([BEGUN, BROKEN], *([status(S.WORKING, str(number)), BROKEN] for number in range(50)))
    with pytest.raises(StreamTruncatedError):
        await told(agent.following())
    assert len(agent.streams) == 46


@pytest.mark.anyio
async def test_a_stream_has_an_end_however_many_connections_it_is_spread_over() -> None:
    def part(number: int) -> list[StreamEvent | ReceivedEvent | Exception]:
        return [ReceivedEvent(chunk("x" * 90), str(number), 100), BROKEN]

    agent = Streams([ReceivedEvent(BEGUN, "1", 100), BROKEN], *(part(number) for number in range(2, 50)))
    with pytest.raises(PeerProtocolError, match="more than 1000 bytes"):
        await told(agent.following(CURSOR, stream_bytes=1_000))
    assert len(agent.streams) == 49 - 11


@pytest.mark.anyio
async def test_a_task_without_news_is_not_looked_at_for_ever() -> None:
    agent = Streams([BEGUN, BROKEN], tasks=[BEGUN])
    with pytest.raises(StreamTruncatedError):
        await told(agent.following())
    pauses = [pause for pause in agent.waited if pause]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.anyio
async def test_an_agent_that_closes_every_stream_is_looked_at_instead() -> None:
    agent = Streams([BEGUN], [WORKING], [WORKING], tasks=[WORKING, WORKING, DONE])
    events = await told(agent.following())
    assert events == [BEGUN, status(S.WORKING), WHOLE, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_a_snapshot_older_than_what_was_seen_takes_nothing_back() -> None:
    old = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("one "),)),))
    first: list[StreamEvent | ReceivedEvent | Exception] = [BEGUN, chunk("one ", append=False), chunk("two"), BROKEN]
    agent = Streams(first, [old, status(S.COMPLETED)], tasks=[DONE])
    assert await told(agent.following()) == [*first[:3], status(S.COMPLETED)]


@pytest.mark.anyio
async def test_an_end_that_a_look_does_not_confirm_is_not_believed() -> None:
    """The store of some agents is behind their streams; what it has at the end is what counts."""
    behind = Task(TASK, "c", TaskStatus(S.WORKING), (Artifact("a", (TextPart("one "),)),))
    agent = Streams([BEGUN, BROKEN], [BEGUN, status(S.COMPLETED)], tasks=[behind, DONE])
    events = await told(agent.following())
    assert events[-1] == status(S.COMPLETED)
    assert [type(event) for event in events] == [Task, ArtifactUpdate, StatusUpdate, ArtifactUpdate, StatusUpdate]


@pytest.mark.anyio
async def test_numbered_events_that_come_again_are_taken_once() -> None:
    numbered: list[StreamEvent | ReceivedEvent | Exception] = [
        ReceivedEvent(BEGUN, "1"),
        ReceivedEvent(chunk("one", append=False), "2"),
        ReceivedEvent(chunk("one", append=False), "2"),
        ReceivedEvent(chunk("two"), "3"),
        ReceivedEvent(chunk("one", append=False), "2"),
        ReceivedEvent(status(S.COMPLETED), "4"),
    ]
    events = await told(Streams(numbered).following(CURSOR))
    assert events == [BEGUN, chunk("one", append=False), chunk("two"), status(S.COMPLETED)]


@pytest.mark.anyio
async def test_a_task_that_had_ended_is_told_whole_and_with_its_status_under_one_number() -> None:
    agent = Streams(
        [ReceivedEvent(DONE, "9"), ReceivedEvent(status(S.COMPLETED), "9"), ReceivedEvent(status(S.COMPLETED), "9")]
    )
    assert await told(agent.following(CURSOR)) == [DONE, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_a_stream_can_be_taken_up_from_a_cursor_that_was_kept() -> None:
    agent = ScriptedAgent(TEXT, Manner.NUMBERED, happened=3)
    following = ResumableStream(agent.calls())
    with fail_after(5):
        events = [event async for event in following.events(SUBSCRIBE, after="2")]
    assert events == list(TEXT[2:])
    assert (agent.subscriptions, following.cursor) == (["2"], "5")


@pytest.mark.anyio
async def test_an_agent_that_does_not_stream_is_looked_at_until_the_task_is_over() -> None:
    agent = Streams(tasks=[WORKING, WORKING, DONE])
    following = agent.following()
    following.seen.add(BEGUN)
    with fail_after(5):
        events = [event async for event in following.poll_events(TASK)]
        assert [event async for event in following.poll_events(TASK)] == []
    assert events == [status(S.WORKING), WHOLE, status(S.COMPLETED)]


@pytest.mark.anyio
async def test_a_task_that_was_read_before_is_the_first_event_of_its_subscription() -> None:
    agent = Streams([ASKS, status(S.WORKING), status(S.COMPLETED)], tasks=[WORKING, DONE])
    following = agent.following()
    following.begin_with(ASKS)
    events = await told(following, subscribes=True)
    assert events == [status(S.WORKING), WHOLE, status(S.COMPLETED)]
