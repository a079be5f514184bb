"""Hints over local sockets: the suite of all carriers, processes that are gone or behind, and folders."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from parley.cluster.carrier import CarrierTiming, ConnectedHints
from parley.cluster.encoding import decode
from parley.cluster.hints import AnyHint, LookHint
from parley.cluster.sockets import SocketTransport
from tests.cluster.carrier_suite import CarrierSuite, Make, hints_flow
from tests.cluster.listening import QUICK, Heard, events, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder() -> Iterator[Path]:
    """Shorter than that of pytest, whose paths are too long on some machines."""
    with TemporaryDirectory(prefix="parley-") as path:
        yield Path(path) / "hints"


class TestSockets(CarrierSuite):
    @pytest.fixture
    def make(self, folder: Path) -> Make:
        return lambda: SocketTransport(folder)

    @pytest.fixture
    def make_other_cluster(self, folder: Path) -> Make:
        return lambda: SocketTransport(folder.with_name("other"))


async def test_only_the_user_may_enter_the_folder_and_it_is_empty_in_the_end(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    async with ConnectedHints(SocketTransport(folder), QUICK):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(list(folder.iterdir())) == 1
    assert list(folder.iterdir()) == []


async def test_the_socket_of_a_process_that_is_gone_is_removed(folder: Path) -> None:
    async with ConnectedHints(SocketTransport(folder), QUICK) as hints:
        left = folder / "dead.hints"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
            dead.bind(str(left))
        hints.publish(events(1))
        await until(lambda: not left.exists())
        assert hints.problem() is None


async def test_a_process_that_was_too_slow_is_told_to_look(folder: Path) -> None:
    async with ConnectedHints(SocketTransport(folder), CarrierTiming(pause=0, probe=0.05)) as hints:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as slow:
            slow.bind(str(folder / "slow.hints"))
            slow.setblocking(False)
            for seq in range(1, 2000):
                hints.publish(events(seq))
                await until(lambda: not hints._pending)
            received = list[AnyHint]()

            def is_told_to_look() -> bool:
                with suppress(BlockingIOError):
                    while True:
                        received.extend(decode(slow.recv(100_000)))
                return LookHint() in received

            await until(is_told_to_look)
    assert len(received) < 1999


async def test_garbage_in_the_socket_is_ignored(folder: Path) -> None:
    async with ConnectedHints(SocketTransport(folder), QUICK) as a, ConnectedHints(SocketTransport(folder), QUICK) as b:
        at_b = Heard(b)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for path in folder.iterdir():
                for garbage in (b"", b"\xff" * 100, b"\xc0", b"{}"):
                    stranger.sendto(garbage, str(path))
        a.publish(events(1))
        await at_b.until_told(events(1))
    assert at_b.all == [events(1)]


async def test_a_socket_that_was_deleted_is_made_again(folder: Path) -> None:
    async with ConnectedHints(SocketTransport(folder), QUICK) as a, ConnectedHints(SocketTransport(folder), QUICK) as b:
        at_b = Heard(b)
        for path in folder.iterdir():
            path.unlink()
        await at_b.until_told_to_look()
        await until(lambda: a.problem() is None and len(list(folder.iterdir())) == 2)
        await hints_flow(a, at_b)


async def test_a_folder_that_cannot_be_made_is_a_problem_and_not_an_error(folder: Path) -> None:
    folder.write_text("a file")
    async with ConnectedHints(SocketTransport(folder), QUICK) as hints:
        assert "File exists" in (hints.problem() or "")


def test_a_path_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 88 bytes"):
        SocketTransport(Path("/tmp") / ("x" * 100))
