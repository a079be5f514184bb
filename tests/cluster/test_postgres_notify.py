"""Hints over notifications of a real PostgreSQL: the suite of all carriers, schemas, cut sessions, foreign payloads."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import asyncpg
import pytest

from parley.cluster.carrier import ConnectedHints
from parley.cluster.postgres_notify import PostgresTransport, channel_of
from tests.chaos.network import FaultProxy
from tests.cluster.carrier_suite import AwayAndBackSuite, AwayServer, CarrierSuite, Make, hints_flow
from tests.cluster.listening import QUICK, Heard, events
from tests.services.fixtures import empty_schema
from tests.services.postgres import Postgres, running_postgres

pytestmark = pytest.mark.anyio


class PostgresAway(AwayServer):
    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._paused: list[int] = []
        self.url = postgres.url()
        self.kill, self.start = postgres.kill, postgres.start

    def pause(self) -> None:
        pid = self._postgres.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            self._paused = [pid, *map(int, children.read().split())]
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, which: signal.Signals) -> None:
        for number in self._paused:
            with suppress(ProcessLookupError):  # a session that was about to end anyway
                os.kill(number, which)


class TestPostgres(CarrierSuite):
    @pytest.fixture
    def make(self, postgres_url: str) -> Make:
        return lambda: PostgresTransport(postgres_url)

    @pytest.fixture
    def make_other_cluster(self, postgres_server: Postgres) -> Make:
        url = empty_schema(postgres_server)
        return lambda: PostgresTransport(url)

    async def test_foreign_payloads_are_ignored_with_one_log_line(
        self, postgres_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make = PostgresTransport
        async with ConnectedHints(make(postgres_url), QUICK) as a, ConnectedHints(make(postgres_url), QUICK) as b:
            at_b = Heard(b)
            stranger = await asyncpg.connect(postgres_url)
            channel = channel_of(await stranger.fetchval("SELECT current_schema()"))
            for garbage in ("", "hello", "ä", "AAAA", "x" * 7999):
                await stranger.execute("SELECT pg_notify($1, $2)", channel, garbage)
            await stranger.close()
            a.publish(events(1))
            await at_b.until_told(events(1))
            assert b.problem() is None
        assert at_b.all == [events(1)]
        assert len([record for record in caplog.records if "not of Parley" in record.getMessage()]) == 2

    async def test_a_server_that_is_silent_keeps_no_other_one_from_being_used(
        self, postgres_server: Postgres, postgres_url: str
    ) -> None:
        network = FaultProxy(postgres_server.port)
        await network.start()
        network.partition()
        here = f"127.0.0.1:{postgres_server.port}"
        url = postgres_url.replace(here, f"127.0.0.1:{network.port},{here}")
        async with ConnectedHints(PostgresTransport(url)) as hints:
            assert hints.problem() is None
        await network.close()

    async def test_a_session_that_the_server_ends_is_replaced(self, postgres_url: str) -> None:
        make = PostgresTransport
        async with ConnectedHints(make(postgres_url), QUICK) as a, ConnectedHints(make(postgres_url), QUICK) as b:
            at_a, at_b = Heard(a), Heard(b)
            admin = await asyncpg.connect(postgres_url)
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'parley hints'"
            )
            await admin.close()
            await at_a.until_told_to_look()
            await at_b.until_told_to_look()
            await hints_flow(a, at_b)

    async def test_a_search_path_without_a_schema_is_named(self, postgres_server: Postgres) -> None:
        url = postgres_server.url(search_path="missing")
        async with ConnectedHints(PostgresTransport(url), QUICK) as hints:
            assert hints.problem() == (
                f"No connection to PostgreSQL at 127.0.0.1:{postgres_server.port}/postgres: "
                "the search_path of its URL names no schema that exists."
            )


class TestPostgresAway(AwayAndBackSuite):
    @pytest.fixture
    def server(self) -> Iterator[PostgresAway]:
        with running_postgres() as server:
            yield PostgresAway(server)

    @pytest.fixture
    def make(self, server: PostgresAway) -> Make:
        return lambda: PostgresTransport(server.url)


def test_a_channel_is_never_longer_than_postgres_allows() -> None:
    assert channel_of("public") == "parley_public"
    assert len(channel_of("s" * 63)) <= 63
    assert channel_of("s" * 63) != channel_of("s" * 62)


def test_a_password_is_not_part_of_the_name() -> None:
    assert PostgresTransport("postgresql://ada:secret@db:5432/x").name == "PostgreSQL at db:5432/x"


async def test_a_url_may_say_what_the_store_needs_of_it(postgres_url: str) -> None:
    """The same URL is used by the store, which asks for a server that can be written: a standby carries no hints."""
    url = f"{postgres_url}&statement_cache_size=0"
    async with ConnectedHints(PostgresTransport(url), QUICK) as a, ConnectedHints(PostgresTransport(url), QUICK) as b:
        assert (a.problem(), b.problem()) == (None, None)
        await hints_flow(a, Heard(b))


async def test_a_server_that_can_only_be_read_carries_no_hints_until_it_can_be_written(
    postgres_server: Postgres,
) -> None:
    """Of several hosts, the first may be a standby."""
    operator = await asyncpg.connect(postgres_server.url())
    await operator.execute("CREATE DATABASE hints_of_standby")
    await operator.execute("ALTER DATABASE hints_of_standby SET default_transaction_read_only = on")
    async with ConnectedHints(PostgresTransport(postgres_server.url("hints_of_standby")), QUICK) as hints:
        assert hints.problem() is not None
    await operator.execute("DROP DATABASE hints_of_standby WITH (FORCE)")
    await operator.close()
