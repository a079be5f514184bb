"""Keys of a store on the command line: `--store-key`, the file beside the store, and `parley store rekey`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from parley.sealed.keys import encode_key, new_key
from parley.sealed.sources import KeyFile
from tests.cli.served import call, message, served
from tests.cli.test_store import ECHO, run

HOOK = {"url": "https://example.com/hook", "token": "secret-token"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "echo.py").write_text(ECHO)
    return tmp_path


def serve_with_webhook(folder: Path, *options: str) -> None:
    """Serve, and register a webhook."""
    with served("echo:agent", "--port", "0", "--grpc-port", "off", *options, cwd=folder) as server:
        url = server.until_ready()
        task = call(url, "SendMessage", message("hello", "m-1"))["result"]["task"]["id"]
        config = call(url, "CreateTaskPushNotificationConfig", {"taskId": task, **HOOK})
        assert config["result"]["token"] == "********"


def test_a_server_makes_a_key_and_does_not_start_without_it(folder: Path) -> None:
    serve_with_webhook(folder)
    key = folder / "parley.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    (made,) = KeyFile(key).read() or ()
    key.rename(folder / "moved.key")
    refused = run(folder, "serve", "echo:agent", "--port", "0", "--grpc-port", "off")
    assert refused.returncode != 0
    assert f"encrypted with key {made.id} (1 webhooks)" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    serve_with_webhook(folder, "--store-key", "moved.key")


def test_a_key_from_a_variable_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS_OF_THE_TEST", encode_key(new_key()))
    monkeypatch.setenv("PARLEY_STORE_KEY", "env:KEYS_OF_THE_TEST")
    serve_with_webhook(folder)
    assert not (folder / "parley.db.key").exists()
    assert not any(b"secret-token" in file.read_bytes() for file in folder.glob("parley.db*"))


def test_a_new_key_comes_first_and_the_next_start_encrypts_with_it(folder: Path) -> None:
    serve_with_webhook(folder)
    (before,) = KeyFile(folder / "parley.db.key").read() or ()
    added = run(folder, "store", "rekey")
    assert added.returncode == 0, added.stderr
    keys = KeyFile(folder / "parley.db.key").read() or ()
    assert keys[1:] == (before,)
    assert f"has the new key {keys[0].id}." in " ".join(added.stdout.split())
    serve_with_webhook(folder)
    content = b"".join(file.read_bytes() for file in folder.glob("parley.db*") if file.suffix != ".key")
    assert f"parley-sealed.1.{keys[0].id}.".encode() in content
    assert f"parley-sealed.1.{before.id}.".encode() not in content


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sqlite:///none.db",), 1, "Error: none.db.key does not exist"),
        (("postgresql://db/parley",), 2, "A PostgreSQL database has no file beside it."),
        (("memory:",), 2, "memory: has no file."),
    ],
)
def test_what_has_no_keys_is_refused(folder: Path, words: tuple[str, ...], code: int, said: str) -> None:
    refused = run(folder, "store", "rekey", *words)
    assert (refused.returncode, said in " ".join(refused.stderr.replace("│", " ").split())) == (code, True), (
        refused.stderr
    )
    assert sorted(file.name for file in folder.iterdir()) == ["echo.py"]
