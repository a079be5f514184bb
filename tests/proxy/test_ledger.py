"""What a proxy remembers, and whom it costs when there is no more room."""

from __future__ import annotations

from pathlib import Path

import pytest

from parley.engine.caller import Caller
from parley.protocol.errors import TaskNotFoundError
from parley.protocol.tasks import TaskState
from parley.proxy.ledger import NameKind, NameTable, open_ledger
from parley.server.app import App
from tests.conformance.matrix import JSONRPC, V0_1, V0_2, V1_0
from tests.conformance.serve import conformance_agent
from tests.deadlines import fail_after
from tests.proxy.proxies import caller, on_ports, proxy_of
from tests.proxy.test_authentication import bearer, tokens

ALICE, BOB = Caller("alice", version=V0_1), Caller("bob", version=V0_2)


def names(*, size: int = 100) -> NameTable:
    return NameTable(NameKind.TASK, size)


def test_a_name_is_its_owners_and_stands_for_what_was_written_last() -> None:
    tasks = names()
    tasks.write(ALICE, "mine", "r1")
    tasks.write(BOB, "mine", "r2")
    entry = tasks.find(ALICE, "mine")
    assert entry is not None
    assert (entry.remote_id, entry.created_in, tasks.name_of(BOB, "r1")) == ("r1", V0_1, None)
    assert (
        tasks.belongs_to_another(BOB, "r1"),
        tasks.belongs_to_another(ALICE, "r1"),
        tasks.belongs_to_another(BOB, "r9"),
    ) == (
        True,
        False,
        False,
    )
    tasks.write(ALICE, "mine", "r3")
    assert (tasks.name_of(ALICE, "r3"), tasks.name_of(ALICE, "r1"), tasks.belongs_to_another(BOB, "r1")) == (
        "mine",
        None,
        False,
    )
    assert (tasks.remote_ids(ALICE), tasks.remote_ids(BOB), tasks.remote_ids(Caller("eve"))) == (["r3"], ["r2"], [])


def test_a_caller_that_floods_the_ledger_loses_its_own_and_nobody_elses() -> None:
    tasks = names(size=200)
    tasks.write(BOB, "kept", "r-bob")
    for number in range(1_000):
        tasks.write(ALICE, f"t-{number}", f"r-{number}")
    assert tasks.remote_ids(BOB) == ["r-bob"]
    assert tasks.remote_ids(ALICE) == [f"r-{number}" for number in range(999, 800, -1)]
    assert tasks.find(ALICE, "t-0") is None
    assert not tasks.belongs_to_another(BOB, "r-0")


def test_a_caller_with_little_finds_room_where_nothing_was_written_for_long() -> None:
    tasks = names(size=4)
    tasks.write(ALICE, "a", "r-a")
    tasks.write(ALICE, "b", "r-b")
    for number in range(3):
        tasks.write(Caller(f"caller-{number}"), "one", f"r-{number}")
    assert tasks.remote_ids(ALICE) == ["r-b"]
    tasks = names(size=1_000)
    for number in range(1_000):
        tasks.write(ALICE, f"t-{number}", f"r-{number}")
    tasks.write(BOB, "first", "r-first")
    assert tasks.remote_ids(BOB) == ["r-first"]
    assert tasks.find(ALICE, "t-0") is None


# --- in a file --------------------------------------------------------------------------------------------------------


def test_a_ledger_in_a_file_is_remembered_by_the_next_proxy(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    with open_ledger(file) as ledger:
        ledger.tasks.write(ALICE, "mine", "r-1")
        ledger.tasks.write(ALICE, "mine", "r-2")
        ledger.contexts.write(BOB, "session", "r-3")
        assert len(file.read_bytes().splitlines()) == 3  # at once, and not when it ends
    with open_ledger(file) as ledger:
        entry = ledger.tasks.find(ALICE, "mine")
        assert entry is not None
        assert (entry.remote_id, entry.created_in, ledger.contexts.name_of(BOB, "r-3")) == ("r-2", V0_1, "session")
        assert len(file.read_bytes().splitlines()) == 2
    assert file.stat().st_mode & 0o777 == 0o600


def test_half_a_line_costs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ledger"
    with open_ledger(file) as ledger:
        ledger.tasks.write(ALICE, "mine", "r-1")
        ledger.tasks.write(ALICE, "other", "r-2")
    file.write_bytes(file.read_bytes()[:-20])
    with open_ledger(file) as ledger:
        assert ledger.tasks.remote_ids(ALICE) == ["r-1"]
        ledger.tasks.write(ALICE, "third", "r-3")
    with open_ledger(file) as ledger:
        assert ledger.tasks.remote_ids(ALICE) == ["r-3", "r-1"]
    assert [record.getMessage() for record in caplog.records] == [f"{file}: line 2 is invalid and is skipped"]


def test_the_file_holds_no_more_than_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    with open_ledger(file) as ledger:
        for number in range(20):
            ledger.tasks.write(ALICE, f"t-{number}", f"r-{number}")
    with open_ledger(file, size=5) as ledger:
        assert ledger.tasks.remote_ids(ALICE) == [f"r-{number}" for number in range(19, 14, -1)]
    assert len(file.read_bytes().splitlines()) == 5


def test_two_proxies_do_not_share_a_file(tmp_path: Path) -> None:
    with (
        open_ledger(tmp_path / "ledger"),
        pytest.raises(OSError, match="another proxy uses it"),
        open_ledger(tmp_path / "ledger"),
    ):
        pass


@pytest.mark.anyio
async def test_a_conversation_goes_on_when_the_proxy_is_started_again(tmp_path: Path) -> None:
    secrets = {"alice": "alice-token-0123456789abcdef", "bob": "bob-token-0123456789abcdef"}
    bearers = {name: bearer(secret) for name, secret in secrets.items()}
    with fail_after(20):
        async with on_ports(App(conformance_agent("Open"))) as place:
            with open_ledger(tmp_path / "ledger") as ledger:
                async with (
                    proxy_of(place["url"], security=tokens(**secrets), ledger=ledger) as proxy,
                    caller(proxy, V1_0, JSONRPC, **bearers["alice"]) as alice,
                ):
                    task = await alice.send("ask", context_id="session-1")
            with open_ledger(tmp_path / "ledger") as ledger:
                async with (
                    proxy_of(place["url"], security=tokens(**secrets), ledger=ledger) as proxy,
                    caller(proxy, V1_0, JSONRPC, **bearers["alice"]) as alice,
                    caller(proxy, V1_0, JSONRPC, **bearers["bob"]) as bob,
                ):
                    with pytest.raises(TaskNotFoundError):
                        await bob.get(task.id)
                    answered = await alice.send("blue", task=task)
                    assert (answered.id, answered.context_id) == (task.id, "session-1")
                    assert answered.status.state is TaskState.COMPLETED
