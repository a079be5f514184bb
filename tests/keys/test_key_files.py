"""What is in a key folder and should not be: the error names the file, and the keys in use stay in use."""

from __future__ import annotations

import logging
import os
import re
import signal
import stat
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from parley.keys import KeyFolder, KeyFolderError, KeyRing
from parley.keys.stored_keys import locked

NOW = timedelta()
SERVICE = 65_534
"""The id of a user that is not root."""
IS_ROOT = sys.platform != "win32" and os.geteuid() == 0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes and no fork")


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    made = KeyFolder(tmp_path / "keys")
    made.create()
    return made


def key_file(folder: KeyFolder) -> Path:
    return next(folder.path.glob("*.json"))


def give(folder: KeyFolder, user: int) -> None:
    """Let the folder and its files belong to a user, if the tests run as root."""
    for path in (folder.path, *folder.path.iterdir()):
        if IS_ROOT:
            os.chown(path, user, user)


def error_of_service(folder: KeyFolder) -> str:
    """Why a server of another user than root cannot use the keys; empty if it can."""
    received, sent = os.pipe()

    def work() -> None:
        os.chdir(folder.path)  # the folders above it may be for root alone
        if IS_ROOT:
            os.setuid(SERVICE)
        try:
            KeyRing(".")
        except KeyFolderError as error:
            os.write(sent, str(error).encode())

    assert status_of(in_child(work)) == 0
    os.close(sent)
    with os.fdopen(received, "rb") as answer:
        return answer.read().decode()


def test_the_folder_and_its_files_are_for_their_owner_alone(folder: KeyFolder) -> None:
    folder.rotate()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.lstat().st_mode) for path in folder.path.iterdir()} == {0o600}


# --- files that are not keys ------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_public(path: Path) -> None:
    jwk = msgspec.json.decode(path.read_bytes())
    del jwk["d"]
    path.write_bytes(msgspec.json.encode(jwk))


def make_foreign(path: Path) -> None:
    jwk = msgspec.json.decode(path.read_bytes())
    del jwk["parley"]
    path.write_bytes(msgspec.json.encode(jwk))


def rename(path: Path) -> None:
    path.rename(path.with_name("other.json"))


def link(path: Path) -> None:
    target = path.rename(path.parent.parent / "moved.json")
    path.symlink_to(target)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_readable(path: Path) -> None:
    path.chmod(0o644)


def make_huge(path: Path) -> None:
    path.write_bytes(b"{" * 100_000)


def make_nested(path: Path) -> None:
    path.write_bytes(b"[" * 60_000)


def forget_the_zone(path: Path) -> None:
    jwk = msgspec.json.decode(path.read_bytes())
    jwk["parley"]["active_from"] = "2026-01-01T00:00:00"
    path.write_bytes(msgspec.json.encode(jwk))


def climb(path: Path) -> None:
    jwk = msgspec.json.decode(path.read_bytes())
    jwk["kid"] = "../../etc/x"
    path.write_bytes(msgspec.json.encode(jwk))


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (truncate, "is not a key that parley keys has written: .*truncated"),
    (empty, "is not a key that parley keys has written: "),
    (make_public, "is not a key that parley keys has written: It is a public key"),
    (make_foreign, "is not a key that parley keys has written: .*`parley`"),
    (rename, "other.json holds the key .*, whose file is "),
    (link, "is a symbolic link"),
    (make_pipe, "is not a regular file"),
    (make_folder, "is not a regular file"),
    (make_readable, r"Others can read the private key .*\(mode 0644\).*chmod 600"),
    (make_huge, "has more than 65536 bytes"),
    (make_nested, "is not a key that parley keys has written: "),
    (forget_the_zone, "a time has no time zone"),
    (climb, "Invalid key id: '../../etc/x'"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_a_damaged_file_is_refused_and_the_keys_in_use_stay_in_use(
    folder: KeyFolder, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], message: str
) -> None:
    ticks = iter(range(0, 10_000, 10))
    ring = KeyRing(folder.path, monotonic=lambda: float(next(ticks)))
    before = ring.current.key_id
    damage(key_file(folder))
    with caplog.at_level(logging.ERROR):
        assert ring.current.key_id == before
        ring.sign_token({})
        ring.published()
    for use in (folder.read, folder.rotate, ring.reload, lambda: KeyRing(folder.path)):
        with pytest.raises(KeyFolderError, match=message):
            use()
    assert ring.current.key_id == before
    (logged,) = caplog.messages  # once, not at every look
    assert "the old ones stay in use" in logged


def test_an_unreadable_file_is_named(folder: KeyFolder) -> None:
    key_file(folder).chmod(0)
    give(folder, SERVICE)
    assert re.search(r"json cannot be read: Permission denied", error_of_service(folder))


def test_what_belongs_to_another_user_is_refused(folder: KeyFolder) -> None:
    """Only root can give files away: where another user runs the tests, they stay its own and are used."""
    give(folder, SERVICE + 1)
    folder.path.chmod(0o755)
    refusal = f". belongs to another user (id {SERVICE + 1}), who can change it"
    assert error_of_service(folder) == (refusal if IS_ROOT else "")


def test_an_error_does_not_show_the_private_key(folder: KeyFolder) -> None:
    secret = msgspec.json.decode(key_file(folder).read_bytes())["d"]
    truncate(key_file(folder))
    with pytest.raises(KeyFolderError) as caught:
        folder.read()
    assert secret not in str(caught.value)


def test_a_folder_that_others_can_write_is_refused(folder: KeyFolder) -> None:
    folder.path.chmod(0o770)
    with pytest.raises(KeyFolderError, match=r"Others can replace the keys in .* \(mode 0770\): chmod 700"):
        KeyRing(folder.path)


def test_a_folder_that_others_can_list_is_used_with_a_warning(
    folder: KeyFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.path.chmod(0o755)
    KeyRing(folder.path)
    assert caplog.messages == [f"Others can list the keys in {folder.path} (mode 0755): chmod 700 {folder.path}"]


def test_a_folder_without_keys_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    with pytest.raises(KeyFolderError, match=r"has no key\. Create one with parley keys new"):
        KeyRing(tmp_path / "keys")
    with pytest.raises(KeyFolderError, match="no-such cannot be read: No such file or directory"):
        KeyRing(tmp_path / "no-such")


def test_a_folder_that_disappears_leaves_the_keys_in_use(folder: KeyFolder, tmp_path: Path) -> None:
    ticks = iter(range(0, 10_000, 10))
    ring = KeyRing(folder.path, monotonic=lambda: float(next(ticks)))
    before = ring.current.key_id
    folder.path.rename(tmp_path / "gone")
    assert ring.current.key_id == before
    (tmp_path / "gone").rename(folder.path)
    new = folder.rotate(lead=NOW).key_id
    assert ring.current.key_id == new


def test_other_files_in_the_folder_do_not_matter(folder: KeyFolder) -> None:
    (folder.path / "README").write_text("the keys of the currency agent")
    (folder.path / ".key.json.tmp").write_text("{")
    assert len(folder.read().keys) == 1


# --- several processes ------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], Any]) -> int:
    """Start a process that does the work; its id. It exits with 1 if the work fails."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_rotations_at_once_happen_one_after_the_other(folder: KeyFolder) -> None:
    children = [in_child(lambda: folder.rotate(lead=NOW)) for _ in range(8)]
    assert [status_of(child) for child in children] == [0] * 8
    keys = folder.read().keys
    assert len({one.key_id for one in keys}) == len({one.active_from for one in keys}) == 9
    assert KeyRing(folder.path).current.key_id == keys[-1].key_id


def test_of_first_keys_created_at_once_one_stays(tmp_path: Path) -> None:
    folder = KeyFolder(tmp_path / "keys")
    children = [in_child(folder.create) for _ in range(8)]
    assert sorted(status_of(child) for child in children) == [0] + [1] * 7
    assert len(folder.read().keys) == 1


def test_a_change_waits_for_that_of_another_process(folder: KeyFolder) -> None:
    with (
        locked(folder.path),
        pytest.raises(KeyFolderError, match="Another process is changing the keys"),
        locked(folder.path, seconds=0),
    ):
        pass


def test_a_rotation_that_is_killed_anywhere_leaves_a_current_key(tmp_path: Path) -> None:
    """The child is killed at its n-th call of the system that Python reports, for every n until it lives to the end."""
    outcomes: list[tuple[int, int]] = []
    while not outcomes or outcomes[-1][0] != 0:
        folder = KeyFolder(tmp_path / f"keys-{len(outcomes)}")
        old = folder.create().key_id
        child = in_child(lambda folder=folder: rotate_and_die(folder, len(outcomes) + 1))
        code = status_of(child)
        keys = [one.key_id for one in folder.read().keys]
        assert keys[0] == old
        assert KeyRing(folder.path).current.key_id == keys[-1]
        outcomes.append((code, len(keys)))
        after = folder.rotate(lead=NOW)  # goes on from there, and leaves nothing behind
        assert KeyRing(folder.path).current.key_id == after.key_id
        assert list(folder.path.glob(".*.tmp")) == []
        assert len(outcomes) < 100
    assert (-signal.SIGKILL, 1) in outcomes
    assert (-signal.SIGKILL, 2) in outcomes
    assert {code for code, _ in outcomes} == {0, -signal.SIGKILL}


def rotate_and_die(folder: KeyFolder, calls: int) -> None:
    left = calls

    def count(event: str, _arguments: object) -> None:
        nonlocal left
        if event == "open" or event.startswith("os."):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    folder.rotate(lead=NOW)
