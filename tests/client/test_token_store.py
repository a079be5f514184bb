"""Logins that are kept: by whom they can be read, and what becomes of them when something goes wrong."""

from __future__ import annotations

import asyncio
import stat
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from parley.client.credentials import token_store
from parley.client.credentials.token_store import FileLogins, Login, LoginStore, MemoryLogins, Tokens
from parley.client.errors import CredentialsError
from tests.deadlines import fail_after

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


def test_a_damaged_file_keeps_nobody_from_forgetting_another_login(tmp_path: Path) -> None:
    store = FileLogins(tmp_path)
    for login in (ONE, TWO, OTHER):
        store.put(login)
    store._file(ONE.origin, ONE.scheme).write_bytes(b"{")
    store._file(TWO.origin, TWO.scheme).chmod(0o644)
    assert (store.forget(OTHER.origin), store.forget(TWO.origin)) == (1, 1)
    with pytest.raises(CredentialsError, match="is damaged"):
        store.all()


@pytest.mark.anyio
async def test_a_login_is_renewed_by_one_at_a_time(store: LoginStore) -> None:
    store.put(ONE)
    inside: list[str] = []

    async def renew(name: str) -> None:
        async with store.exclusive(ONE.origin, ONE.scheme):
            assert inside == []
            inside.append(name)
            await asyncio.sleep(0)
            inside.remove(name)

    with fail_after(10):
        await asyncio.gather(*map(renew, "abc"))
        async with store.exclusive(ONE.origin, ONE.scheme), store.exclusive(OTHER.origin, OTHER.scheme):
            pass  # another login is another matter


@pytest.mark.anyio
async def test_a_lock_is_open_again_when_its_owner_is_killed(tmp_path: Path) -> None:
    store = FileLogins(tmp_path)
    store.put(ONE)
    program = (
        "import asyncio, sys\n"
        "from parley.client.credentials.token_store import FileLogins\n"
        "async def main():\n"
        "    async with FileLogins(sys.argv[1]).exclusive(*sys.argv[2:]):\n"
        "        print('held', flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with fail_after(20):
        words = (sys.executable, "-c", program, str(tmp_path), ONE.origin, ONE.scheme)
        other = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        assert other.stdout is not None
        assert await other.stdout.readline() == b"held\n"
        async with AsyncExitStack() as stack:
            entering = asyncio.ensure_future(stack.enter_async_context(store.exclusive(ONE.origin, ONE.scheme)))
            done, _ = await asyncio.wait([entering], timeout=4 * token_store.LOCK_PAUSE)
            assert done == set()
            other.kill()
            await other.wait()
            await entering


@pytest.mark.anyio
async def test_one_who_holds_a_lock_for_ever_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_store, "LOCK_SECONDS", 0.01)
    with fail_after(10):
        for store in (FileLogins(tmp_path), FileLogins(tmp_path / "nowhere")):
            async with store.exclusive(ONE.origin, ONE.scheme), store.exclusive(ONE.origin, ONE.scheme):
                pass


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
    with pytest.raises(CredentialsError, match="The login cannot be saved in"):
        FileLogins(tmp_path / "file").put(ONE)
    store = FileLogins(tmp_path / "logins")
    store.put(ONE)
    (file,) = (tmp_path / "logins").iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(CredentialsError, match="cannot be read"):
        store.get(ONE.origin, "key")
    with pytest.raises(CredentialsError, match="The login cannot be saved in"):
        store.put(ONE)
    assert list((tmp_path / "logins").iterdir()) == [file]
