"""Files with keys: whole or not there, for their owner only, and the same for all processes."""

from __future__ import annotations

import multiprocessing
import os
import stat
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
