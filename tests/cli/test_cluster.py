"""`parley cluster` with real servers on one store: what it shows of them, and how one drains that is asked to."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from parley.cluster.status import Replica, UnknownReplicaError, find_replicas
from tests.cli.served import SECONDS, call, fetch, message, served
from tests.cli.worker_processes import AGENT, WORKERS, until, until_ready


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "where.py").write_text(AGENT)
    return tmp_path


def parley(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "parley.cli.main", "cluster", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


STORE = ("--store", "sqlite:///tasks.db")


def status(directory: Path) -> Any:
    done = parley(directory, "status", "--json", *STORE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_replicas_are_listed_and_drain_when_they_are_asked_to(directory: Path) -> None:
    """First one worker, which is not started again; then all that are left, and with them the server."""
    options = ("--lease", "6s", "--replica", "web", "--drain-seconds", "60")
    with served(*WORKERS, *options, cwd=directory) as command:
        url = until_ready(command)
        params = {**message("wait", "m-1"), "configuration": {"returnImmediately": True}}
        task = call(url, "SendMessage", params)["result"]["task"]["id"]
        until(lambda: [each["runs"] for each in status(directory)["replicas"]] in ([0, 1], [1, 0]))
        found = status(directory)
        assert [each["name"] for each in found["replicas"]] == ["web/1", "web/2"]
        for each in found["replicas"]:
            assert (each["state"], each["url"], 0 < each["lease_seconds"] <= 6) == ("alive", url, True)
        assert (found["held"], found["waiting"], found["sleeping"], found["undelivered"]) == (1, 0, 0, 0)
        table = parley(directory, "status", *STORE).stdout
        assert "web/1    alive" in table
        assert "Tasks: 1 running, 0 waiting, 0 sleeping." in table

        idle = next(each["name"] for each in found["replicas"] if not each["runs"])
        done = parley(directory, "drain", idle, "--wait", *STORE)
        assert (done.returncode, done.stdout.splitlines()) == (
            0,
            [f"{idle} was asked to drain.", f"{idle} has drained."],
        )
        command.until_logged("has drained, as it was asked to, and is not started again")
        assert [each["name"] for each in status(directory)["replicas"]] == [{"web/1": "web/2"}.get(idle, "web/1")]

        assert parley(directory, "drain", "web", *STORE).returncode == 0
        command.until_logged("Finishing 1 run")
        assert status(directory)["replicas"][0]["state"] == "draining"
        (directory / "go").touch()
        assert command.ended() == 0
    with served(*WORKERS, "--workers", "1", cwd=directory) as command:
        url = command.ready_line()["url"]
        assert call(url, "GetTask", {"id": task})["result"]["status"]["state"] == "TASK_STATE_COMPLETED"
        done = parley(directory, "status", *STORE)
        assert (done.returncode, "another Parley process uses this file" in done.stderr) == (1, True)
        assert json.loads(fetch(f"{url}/livez")) == {"status": "ok"}


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("status", "--store", "sqlite:///nowhere.db"), 1, "nowhere.db: there is no such file."),
        (("status", "--store", "memory:"), 1, "Only servers on PostgreSQL or SQLite can share a store."),
        (("drain", "web", *STORE), 2, "No live replica is named 'web'. There are none."),
    ],
)
def test_what_cannot_be_shown_or_drained_is_told(
    tmp_path: Path, words: tuple[str, ...], code: int, reason: str
) -> None:
    if words[0] == "drain":
        (tmp_path / "tasks.db").touch()
    done = parley(tmp_path, *words)
    assert (done.returncode, reason in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "nowhere.db").exists()


def replica(name: str, worker: str, state: str = "alive") -> Replica:
    return Replica(name=name, worker=worker, state=state, lease_seconds=5)


def test_a_replica_is_found_by_name_by_worker_by_their_beginning_or_with_all_workers_of_its_server() -> None:
    a1, a2, b, dead = (
        replica("a/1", "x-1"),
        replica("a/2", "y-1"),
        replica("bob", "y-2"),
        replica("bob", "z", "expired"),
    )
    replicas = [a1, a2, b, dead]
    for name, found in {"a/1": [a1], "a": [a1, a2], "b": [b], "bob": [b], "y-1": [a2], "x": [a1]}.items():
        assert find_replicas(replicas, name) == found
    with pytest.raises(UnknownReplicaError, match=r"Several replicas begin with 'y': a/2, bob\."):
        find_replicas(replicas, "y")
    for name in ("z", "", "c"):
        with pytest.raises(UnknownReplicaError, match=r"No live replica is named .*There are: a/1, a/2, bob\."):
            find_replicas(replicas, name)


def test_showing_the_status_of_an_empty_database_leaves_it_empty(tmp_path: Path, postgres_url: str) -> None:
    for words in (("status",), ("drain", "a")):
        done = parley(tmp_path, *words, "--store", postgres_url)
        assert done.returncode == 1
        assert "no server of this release has used this database yet" in done.stderr
    assert asyncio.run(tables(postgres_url)) == []


async def tables(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    finally:
        await connection.close()
    return [row["tablename"] for row in rows]


def test_servers_on_postgresql_know_of_each_other_and_hide_the_password(directory: Path, postgres_url: str) -> None:
    """What one has stored the other one shows, and one that was asked to drain ends with 0."""
    scheme, _, rest = postgres_url.partition("://")
    url_with_password = f"{scheme}://{rest.replace('@', ':hush@', 1)}"  # the server trusts local users
    options = ("where:agent", "--port", "0", "--store", url_with_password, "--lease", "6s")
    with (
        served(*options, "--replica", "a", cwd=directory) as one,
        served(*options, "--replica", "b", "--cluster", "none", cwd=directory) as two,
    ):
        urls = [one.until_ready(), two.until_ready()]
        task = call(urls[0], "SendMessage", message("where"))["result"]["task"]
        assert call(urls[1], "GetTask", {"id": task["id"]})["result"]["artifacts"] == task["artifacts"]
        found = json.loads(parley(directory, "status", "--json", "--store", url_with_password).stdout)["replicas"]
        assert [(each["name"], each["state"], each["url"]) for each in found] == [
            ("a", "alive", urls[0]),
            ("b", "alive", urls[1]),
        ]
        done = parley(directory, "drain", "a", "--wait", "--store", url_with_password)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "a has drained."), done.stderr
        assert one.ended() == 0
        assert two.end() == 0
    said = "\n".join([*one.said, *one.logged, *two.said, *two.logged])
    assert ("hush" in said, ":***@" in said) == (False, True)
