"""Files with keys: whole or not there, for their owner only, and the same for all processes."""

from __future__ import annotations

import multiprocessing
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from parley.sealed.errors import SecretError
from parley.sealed.keys import encode_key, new_key
from parley.sealed.sources import KeyFile, KeyVariable, key_source


def _make_and_read(path: str, begin: object) -> tuple[bool, str]:
    file = KeyFile(Path(path))
    was_made = file.make()
    keys = file.read()
    assert keys is not None
    return was_made, keys[0].id


def _add_keys(path: str, number: int) -> list[str]:
    """The ids of the keys that were added; attempts are refused while another process is at it."""
    added: list[str] = []
    for _ in range(50_000):
        if len(added) == number:
            break
        with suppress(SecretError):
            added.append(KeyFile(Path(path)).add().id)
    return added


def test_a_new_file_has_one_key_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "parley.db.key")
    assert file.read() is None
    assert file.make()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert len(file.read() or ()) == 1
    assert not file.make()
    assert os.listdir(tmp_path) == ["parley.db.key"]


def test_of_many_processes_that_start_at_once_one_makes_the_key_and_all_use_it(tmp_path: Path) -> None:
    path = str(tmp_path / "parley.db.key")
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        found = pool.starmap(_make_and_read, [(path, None)] * 32)
    assert [was_made for was_made, _ in found].count(True) == 1
    assert len({key_id for _, key_id in found}) == 1
    assert os.listdir(tmp_path) == ["parley.db.key"]


def test_another_key_comes_first_and_the_earlier_ones_stay(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.make()
    before = file.read() or ()
    added = file.add()
    assert file.read() == (added, *before)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["keys"]


def test_two_changes_at_once_do_not_lose_a_key(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.make()
    before = file.read()
    (tmp_path / "keys.new").touch()
    with pytest.raises(SecretError, match="another process is changing the keys"):
        file.add()
    assert file.read() == before


def test_of_many_processes_that_change_a_file_at_once_none_loses_a_key(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    file.make()
    (made,) = file.read() or (new_key(),)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        added = pool.starmap(_add_keys, [(str(file.path), 25)] * 4)
    ids = [key.id for key in file.read() or ()]
    assert sorted(ids) == sorted([made.id, *(id for each in added for id in each)])
    assert os.listdir(tmp_path) == ["keys"]


def test_a_link_to_a_file_stays_one_and_the_file_gets_the_key(tmp_path: Path) -> None:
    """As where a secret is mounted, or several stores share one file."""
    file = KeyFile(tmp_path / "secrets" / "keys")
    file.path.parent.mkdir()
    file.make()
    link = tmp_path / "keys"
    link.symlink_to(file.path)
    added = KeyFile(link).add()
    assert link.is_symlink()
    assert (file.read() or ())[0] == added


def test_who_could_read_a_file_can_read_it_after_a_change(tmp_path: Path) -> None:
    """The operator who changes the key is not always the user that the server runs as."""
    file = KeyFile(tmp_path / "keys")
    file.make()
    file.path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file.path, 12_345, 12_346)
    before = file.path.stat()
    file.add()
    after = file.path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="does not exist"):
        KeyFile(tmp_path / "keys").add()
    with pytest.raises(SecretError, match="cannot be made: No such file or directory"):
        KeyFile(tmp_path / "missing" / "keys").make()
    with pytest.raises(SecretError, match="cannot be read: Is a directory"):
        KeyFile(tmp_path).read()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretError, match="it is not text"):
        KeyFile(tmp_path / "bytes").read()
    assert os.listdir(tmp_path) == ["bytes"]


def test_a_source_is_a_file_or_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = (new_key(), new_key())
    monkeypatch.setenv("STORE_KEYS", ",".join(map(encode_key, keys)))
    variable, file = key_source("env:STORE_KEYS"), key_source(str(tmp_path / "keys"))
    assert isinstance(variable, KeyVariable)
    assert variable.read() == keys
    assert isinstance(file, KeyFile)
    monkeypatch.delenv("STORE_KEYS")
    assert variable.read() is None
