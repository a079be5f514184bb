"""What every carrier of hints does, over whatever it connects with: each test file brings its transport."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections.abc import Callable

import pytest

from parley.cluster.carrier import CarrierTiming, ConnectedHints, HintTransport
from parley.cluster.hints import Hint, HintKind, LookHint, RecordsHint
from tests.cluster.listening import QUICK, Heard, events, key, until
from tests.deadlines import fail_after

Make = Callable[[], HintTransport]


class CarrierSuite:
    """Subclasses have the fixtures `make` and `make_other_cluster`: transports of one cluster and of another one."""

    async def test_every_kind_of_hint_reaches_the_other_processes(self, make: Make) -> None:
        published = [Hint(kind, key(), 0 if kind is not HintKind.EVENTS else 7) for kind in HintKind]
        sent = [*published, RecordsHint("agents", "acme"), RecordsHint("tenants", "")]
        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b, ConnectedHints(make()) as c:
            at_b, at_c = Heard(b), Heard(c)
            for hint in sent:
                a.publish(hint)
            await at_b.until(lambda heard: len(heard) >= len(sent))
            await at_c.until(lambda heard: len(heard) >= len(sent))
        assert set(at_b.all) == set(at_c.all) == set(sent)

    async def test_a_process_does_not_hear_its_own_hints(self, make: Make) -> None:
        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b:
            at_a, at_b = Heard(a), Heard(b)
            a.publish(events(1))
            await at_b.until_told(events(1))
            b.publish(events(2))
            await at_a.until_told(events(2))
        assert (at_a.all, at_b.all) == ([events(2)], [events(1)])

    async def test_a_listener_that_stopped_hears_nothing_and_one_that_fails_disturbs_no_other(self, make: Make) -> None:
        def fail(_: object) -> None:
            raise RuntimeError("planted")

        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b:
            stopped = Heard(b)
            b.listen(fail)
            listening = Heard(b)
            stopped.stop()
            a.publish(events(1))
            await listening.until_told(events(1))
        assert stopped.all == []

    async def test_hints_of_one_moment_are_one_message_with_the_highest_number_of_each_task(self, make: Make) -> None:
        counting = Counting(make())
        async with ConnectedHints(counting, CarrierTiming()) as a, ConnectedHints(make()) as b:
            at_b = Heard(b)
            for seq in range(1, 1001):
                a.publish(events(seq))
                a.publish(events(seq, "t-2"))
                a.publish(Hint(HintKind.INBOX, key()))
            await at_b.until(lambda heard: len(heard) >= 3)
        assert set(at_b.all) == {events(1000), events(1000, "t-2"), Hint(HintKind.INBOX, key())}
        assert counting.sent == [1]

    async def test_more_hints_than_fit_into_one_message_all_arrive(self, make: Make) -> None:
        async with ConnectedHints(make()) as a, ConnectedHints(make()) as b:
            at_b = Heard(b)
            sent = {events(1, f"task-with-a-long-name-{number:05}") for number in range(3000)}
            for hint in sent:
                a.publish(hint)
            await at_b.until(lambda heard: len(heard) >= len(sent))
        assert set(at_b.all) == sent

    async def test_too_many_hints_at_once_become_one_to_look(self, make: Make) -> None:
        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b:
            at_b = Heard(b)
            for number in range(10_001):
                a.publish(events(1, f"t-{number}"))
            await at_b.until_told_to_look()
        assert at_b.all == [LookHint()]

    async def test_two_clusters_do_not_hear_each_other(self, make: Make, make_other_cluster: Make) -> None:
        async with (
            ConnectedHints(make(), QUICK) as a,
            ConnectedHints(make(), QUICK) as b,
            ConnectedHints(make_other_cluster(), QUICK) as other_a,
            ConnectedHints(make_other_cluster(), QUICK) as other_b,
        ):
            at_b, at_other = Heard(b), Heard(other_b)
            a.publish(events(1))
            other_a.publish(events(2))
            await at_b.until_told(events(1))
            await at_other.until_told(events(2))
        assert (at_b.all, at_other.all) == ([events(1)], [events(2)])

    async def test_a_carrier_without_a_problem_knows_its_lag(self, make: Make) -> None:
        hints = ConnectedHints(make(), QUICK)
        assert hints.problem() == f"No connection to {make().name}: it was not opened."
        assert hints.lag() is None
        async with hints:
            assert hints.problem() is None
            await until(lambda: 0 < (hints.lag() or 0) < 2)  # other work may hold up the first probes
        assert hints.problem() == f"No connection to {make().name}: it was closed."
        assert hints.lag() is None

    async def test_hints_that_are_published_before_opening_and_after_closing_are_dropped(self, make: Make) -> None:
        hints = ConnectedHints(make(), QUICK)
        hints.publish(events(1))
        async with hints:
            pass
        hints.publish(events(1))

    async def test_a_carrier_without_anything_to_do_does_nothing_but_probe(self, make: Make) -> None:
        counting = Counting(make())
        async with ConnectedHints(counting, QUICK) as hints:
            await until(lambda: counting.probes >= 3)
            assert counting.sent == []
            assert hints.problem() is None


class AwayAndBackSuite:
    """What carriers do whose server is away. Subclasses have `make` for a server of their own, and `server`."""

    async def test_both_sides_are_told_to_look_when_the_server_is_back(
        self, make: Make, server: AwayServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "parley")
        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b:
            at_a, at_b = Heard(a), Heard(b)
            server.kill()
            await until(lambda: a.problem() and b.problem())
            assert (a.problem() or "").startswith(f"No connection to {make().name}: ")
            a.publish(events(1))
            server.start()
            await at_a.until_told_to_look()
            await at_b.until_told_to_look()
            await until(lambda: a.problem() is None and b.problem() is None)
            await hints_flow(a, at_b)
            assert events(1) not in at_b.all
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("parley.cluster")]
        assert sum(message.startswith("No connection to") for message in ours) == 2, ours
        assert sum(message.startswith("Connected to") for message in ours) == 2, ours
        assert len(ours) == 4, ours

    async def test_starting_while_the_server_is_away_works(self, make: Make, server: AwayServer) -> None:
        server.kill()
        async with ConnectedHints(make(), QUICK) as a, ConnectedHints(make(), QUICK) as b:
            assert a.problem() is not None
            at_a, at_b = Heard(a), Heard(b)
            server.start()
            await at_a.until_told_to_look()
            await at_b.until_told_to_look()
            await until(lambda: a.problem() is None and b.problem() is None)
            await hints_flow(a, at_b)

    async def test_hints_without_end_need_no_memory_while_the_server_is_away(
        self, make: Make, server: AwayServer
    ) -> None:
        async with ConnectedHints(make(), QUICK) as hints:
            server.kill()
            await until(hints.problem)
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                for number in range(100_000):
                    hints.publish(events(1, f"t-{number}"))
                    if number % 1000 == 0:
                        await asyncio.sleep(0)
                after, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            server.start()
        assert after - before < 200_000

    async def test_closing_is_quick_while_the_server_hangs(self, make: Make, server: AwayServer) -> None:
        async with ConnectedHints(make()) as hints:
            server.pause()
            try:
                for number in range(5000):
                    hints.publish(events(1, f"t-{number}"))
                await asyncio.sleep(0)
                with fail_after(5):
                    await hints.__aexit__()
            finally:
                server.resume()

    async def test_a_server_that_hangs_is_noticed(self, make: Make, server: AwayServer) -> None:
        timing = CarrierTiming(probe=0.05, answer=0.3, first_retry=0.01, last_retry=0.05, look=0.0)
        async with ConnectedHints(make(), timing) as hints:
            heard = Heard(hints)
            server.pause()
            try:
                await until(hints.problem)
            finally:
                server.resume()
            await heard.until_told_to_look()
            await until(lambda: hints.problem() is None)


async def hints_flow(sender: ConnectedHints, receiver: Heard) -> None:
    """Publish until a hint arrives: those of the first moments are replaced by the one to look."""
    last = events(10**6)
    with fail_after(20):
        while last not in receiver.all:
            sender.publish(last)
            await asyncio.sleep(0.01)


class AwayServer:
    """What the tests do to a server."""

    def kill(self) -> None: ...
    def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Counting:
    """A transport that counts what is sent over its links."""

    def __init__(self, transport: HintTransport) -> None:
        self._transport = transport
        self.max_bytes = transport.max_bytes
        self.name = transport.name
        self.sent: list[int] = []
        self.probes = 0

    async def connect(self, receive, lost):  # type: ignore[no-untyped-def]
        link = await self._transport.connect(receive, lost)
        send, probe = link.send, link.probe

        async def counted_send(messages):  # type: ignore[no-untyped-def]
            self.sent.append(len(messages))
            await send(messages)

        async def counted_probe() -> None:
            self.probes += 1
            await probe()

        link.send, link.probe = counted_send, counted_probe
        return link
