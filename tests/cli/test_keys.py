"""`parley keys`: what it says, and what it never shows."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from joserfc.jwk import ECKey, OKPKey

from parley.keys import KeyFolder, KeyRing
from tests.cli.sampler import parley


def keys(*words: str | Path) -> str:
    done = parley("keys", *map(str, words))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def refusal(*words: str | Path) -> tuple[int, str]:
    done = parley("keys", *map(str, words))
    assert done.stdout == ""
    return done.exit_code, done.stderr.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keys("new", tmp_path / "keys")
    return tmp_path / "keys"


def ids(folder: Path) -> list[str]:
    return [one.key_id for one in KeyFolder(folder).read().keys]


def test_a_key_is_created_listed_rotated_and_retired(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = json.loads(keys("new", folder, "--json"))
    assert (made["algorithm"], made["state"], made["published_until"]) == ("ES256", "current", None)
    new = json.loads(keys("rotate", folder, "--lead", "1h", "--overlap", "7d", "--json"))
    assert (new["state"], new["id"]) == ("next", ids(folder)[1])
    assert [row["state"] for row in json.loads(keys("list", folder, "--json"))["keys"]] == ["current", "next"]
    first, second = keys("list", folder).splitlines()
    assert first.startswith(f"{made['id']}  ES256  current   signs since 20")
    assert second.startswith(f"{new['id']}  ES256  next      signs from 20")
    assert keys("rotate", folder, "--now").startswith(f"{new['id']} is published, and signs now. The key before it is ")
    assert keys("retire", folder, made["id"], "--now") == f"{made['id']} is deleted.\n"
    assert ids(folder) == [new["id"]]


def test_refused_changes_change_nothing(folder: Path) -> None:
    (current,) = ids(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert refusal("new", folder) == (
        1,
        f"Error: {folder} has keys already. Use parley keys rotate {folder} to replace the current one.",
    )
    assert refusal("retire", folder, current) == (
        1,
        f"Error: {current} is the current key. Use parley keys rotate {folder} to replace it first.",
    )
    assert refusal("retire", folder, "none") == (1, f"Error: {folder} has no key none. Its keys: {current}.")
    assert refusal("export", folder, "none") == (
        1,
        f"Error: {folder} has no key none. See parley keys list {folder}",
    )
    for words, told in (
        (("rotate", folder, "--lead", "0s"), "--lead: Invalid duration: '0s'."),
        (("rotate", folder, "--lead", "1h", "--now"), "--lead: It is zero with --now."),
        (("rotate", folder, "--algorithm", "none"), "--algorithm: 'none' is not one of ES256, RS256, EdDSA."),
        (("rotate", folder, "--import", "no.pem"), "--import: no.pem cannot be read: No such file or directory."),
        (("export", folder, "--private", "x"), "KEY: Name the key to write."),
    ):
        code, text = refusal(*words)
        assert code == 2
        assert told in " ".join(text.split())
    assert refusal("rotate", folder, "--id", "../x")[0] == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    for words in (("list",), ("rotate",), ("export",)):
        assert refusal(*words, tmp_path / "no") == (
            1,
            f"Error: {tmp_path / 'no'} cannot be read: No such file or directory.",
        )


def test_export_shows_public_keys_only(folder: Path, tmp_path: Path) -> None:
    keys("rotate", folder)
    shown = keys("export", folder)
    assert shown.encode().rstrip(b"\n") == KeyRing(folder).published()
    pem = keys("export", folder, ids(folder)[0], "--format", "pem")
    assert not ECKey.import_key(pem).is_private
    secrets = [json.loads(path.read_text())["d"] for path in folder.glob("*.json")]
    everything = shown + pem + keys("list", folder) + keys("list", folder, "--json")
    assert [secret for secret in secrets if secret in everything] == []


@pytest.mark.parametrize("form", ["jwks", "pem"])
def test_a_private_key_goes_to_a_new_file_for_its_owner(folder: Path, tmp_path: Path, form: str) -> None:
    (key_id,) = ids(folder)
    file = tmp_path / "private"
    assert keys("export", folder, key_id, "--private", file, "--format", form) == ""
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_text()
    loaded = ECKey.import_key(json.loads(content) if form == "jwks" else content)
    assert loaded.is_private
    assert refusal("export", folder, key_id, "--private", file) == (1, f"Error: {file} cannot be written: File exists.")
    assert file.read_text() == content
    again = tmp_path / "again"
    keys("new", again, "--import", file, "--id", "mine")
    assert KeyRing(again).current.public_jwk == KeyRing(folder).current.public_jwk


def test_keys_of_other_programs_are_imported(tmp_path: Path) -> None:
    key = OKPKey.generate_key("Ed25519")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    (tmp_path / "public.pem").write_bytes(key.as_pem(private=False))
    keys("new", tmp_path / "a", "--import", tmp_path / "key.pem")
    assert KeyRing(tmp_path / "a").current.algorithm == "EdDSA"
    (tmp_path / "key.json").write_text(json.dumps({**key.as_dict(private=True), "kid": "k-1", "x-note": "kept out"}))
    keys("new", tmp_path / "b", "--import", tmp_path / "key.json")
    assert ids(tmp_path / "b") == ["k-1"]
    assert "x-note" not in (tmp_path / "b" / "k-1.json").read_text()
    code, text = refusal("new", tmp_path / "c", "--import", tmp_path / "public.pem")
    assert (code, "holds a public key; signing needs the private one." in " ".join(text.split())) == (2, True)
    assert not (tmp_path / "c").exists()
