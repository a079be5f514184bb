"""Logins that are kept: by whom they can be read, and what becomes of them when something goes wrong."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from parley.client.errors import CredentialsError
from parley.client.token_store import FileLogins, Login, LoginStore, MemoryLogins, Tokens

ONE = Login(origin="https://a.example:443", scheme="key", kind="apikey", secret="hush")
TWO = Login(
    origin="https://a.example:443",
    scheme="../../company",
    kind="device-code",
    tokens=Tokens("access", 12.5, "refresh", ("read", "write")),
    token_url="https://login.example/token",
    client_id="cli",
)
OTHER = Login(origin="https://b.example:443", scheme="key", kind="apikey", secret="theirs")


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LoginStore:
    return MemoryLogins() if request.param == "memory" else FileLogins(tmp_path / "parley" / "logins")


def test_logins_are_kept_replaced_listed_and_forgotten(store: LoginStore) -> None:
    assert (store.get(ONE.origin, "key"), store.all()) == (None, [])
    for login in (OTHER, ONE, TWO):
        store.put(login)
    assert store.all() == [TWO, ONE, OTHER]
    assert (store.get(TWO.origin, TWO.scheme), store.get(OTHER.origin, TWO.scheme)) == (TWO, None)
    changed = Login(origin=ONE.origin, scheme="key", kind="apikey", secret="new")
    store.put(changed)
    assert store.get(ONE.origin, "key") == changed
    assert store.forget(ONE.origin, "nothing") == 0
    assert store.forget(ONE.origin, "key") == 1
    assert store.forget(ONE.origin) == 1
    assert store.all() == [OTHER]


def test_only_their_owner_can_read_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "parley" / "logins"
    store = FileLogins(directory)
    store.put(ONE)
    store.put(TWO)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = list(directory.iterdir())
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert list(tmp_path.iterdir()) == [tmp_path / "parley"]
    files[0].chmod(0o640)
    with pytest.raises(CredentialsError, match=r"can be read by others; run: chmod 600"):
        store.all()
    assert repr(store) == f"FileLogins('{directory}')"


def test_a_damaged_file_is_named_and_not_shown(tmp_path: Path) -> None:
    store = FileLogins(tmp_path)
    store.put(ONE)
    (file,) = tmp_path.iterdir()
    for damage in (b'{"origin": "hush', b'{"secret": 1}', b"\xff"):
        file.write_bytes(damage)
        with pytest.raises(CredentialsError) as caught:
            store.get(ONE.origin, "key")
        assert str(caught.value) == f"{file} is damaged; remove it and log in again"[:300]
        assert caught.value.__cause__ is None


def test_a_login_that_was_moved_to_another_place_is_not_used(tmp_path: Path) -> None:
    store = FileLogins(tmp_path)
    store.put(OTHER)
    (theirs,) = tmp_path.iterdir()
    content = theirs.read_bytes()
    store.put(ONE)
    (ours,) = set(tmp_path.iterdir()) - {theirs}
    ours.write_bytes(content)
    assert store.get(ONE.origin, "key") is None


def test_what_cannot_be_written_or_read_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialsError, match="The login cannot be kept in"):
        FileLogins(tmp_path / "file").put(ONE)
    store = FileLogins(tmp_path / "logins")
    store.put(ONE)
    (file,) = (tmp_path / "logins").iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(CredentialsError, match="cannot be read"):
        store.get(ONE.origin, "key")
    with pytest.raises(CredentialsError, match="The login cannot be kept in"):
        store.put(ONE)
    assert list((tmp_path / "logins").iterdir()) == [file]
