"""When the keys of a folder sign and are published, by a clock that the test sets."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from parley.keys import GivenKeys, KeyFolder, KeyFolderError, KeyRing, LocalKey
from parley.keys.given_keys import FileKey
from parley.keys.key_ring import KeyChange
from parley.keys.signing_key import generate_key
from parley.protocol.errors import LocalProtocolError

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
LEAD, OVERLAP = timedelta(minutes=10), timedelta(days=1)
SECOND = timedelta(seconds=1)


class Clock:
    """A clock that the test sets; the ring looks at the folder at every use."""

    def __init__(self) -> None:
        self.time = START
        self.ticks = 0.0

    def now(self) -> datetime:
        self.time += timedelta(microseconds=1)
        return self.time

    def monotonic(self) -> float:
        self.ticks += 10
        return self.ticks


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def folder(tmp_path: Path, clock: Clock) -> KeyFolder:
    made = KeyFolder(tmp_path / "keys", now=clock.now)
    made.create()
    return made


def ring_of(folder: KeyFolder, clock: Clock) -> KeyRing:
    return KeyRing(folder.path, now=clock.now, monotonic=clock.monotonic)


def published_ids(ring: KeyRing) -> list[str]:
    return [key["kid"] for key in msgspec.json.decode(ring.published())["keys"]]


def test_a_new_key_is_published_before_it_signs_and_the_old_one_after_it(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    (old,) = published_ids(ring)
    new = folder.rotate(lead=LEAD, overlap=OVERLAP).key_id
    assert (ring.current.key_id, published_ids(ring)) == (old, [old, new])
    clock.time = START + LEAD - SECOND
    assert (ring.current.key_id, published_ids(ring)) == (old, [old, new])
    clock.time = START + LEAD + SECOND
    assert (ring.current.key_id, published_ids(ring)) == (new, [new, old])
    clock.time = START + LEAD + OVERLAP + SECOND
    assert (ring.current.key_id, published_ids(ring)) == (new, [new])


def test_what_is_published_has_no_private_member(folder: KeyFolder, clock: Clock) -> None:
    for algorithm in ("RS256", "EdDSA"):
        folder.rotate(lead=timedelta(), algorithm=algorithm)
    keys = msgspec.json.decode(ring_of(folder, clock).published())["keys"]
    assert [(key["alg"], key["use"], sorted(key)) for key in keys] == [
        ("EdDSA", "sig", ["alg", "crv", "kid", "kty", "use", "x"]),
        ("ES256", "sig", ["alg", "crv", "kid", "kty", "use", "x", "y"]),
        ("RS256", "sig", ["alg", "e", "kid", "kty", "n", "use"]),
    ]


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_token_is_verified_by_a_jwt_library_with_the_published_keys(
    tmp_path: Path, clock: Clock, algorithm: str
) -> None:
    folder = KeyFolder(tmp_path / "keys")
    folder.create(algorithm=algorithm)
    ring = ring_of(folder, clock)
    token = ring.sign_token({"iss": "http://127.0.0.1:8080", "taskId": "t-1", "iat": 1})
    keys = KeySet.import_key_set(msgspec.json.decode(ring.published()))
    with warnings.catch_warnings(action="ignore"):  # joserfc prefers the name Ed25519 of RFC 9864
        read = jwt.decode(token, keys, algorithms=[algorithm])
    assert read.header == {"alg": algorithm, "kid": ring.current.key_id, "typ": "JWT"}
    assert read.claims == {"iss": "http://127.0.0.1:8080", "taskId": "t-1", "iat": 1}


def test_a_clock_that_is_set_back_leaves_a_key_to_sign_with(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    clock.time = START - timedelta(days=400)
    assert published_ids(ring) == [ring.current.key_id]


def test_a_second_rotation_waits_for_the_first_one_to_end(folder: KeyFolder, clock: Clock) -> None:
    new = folder.rotate(lead=LEAD)
    with pytest.raises(KeyFolderError, match=rf"A rotation is under way: {new.key_id} signs from 2026-05-01 12:10:00"):
        folder.rotate()
    assert [one.key_id for one in folder.read().keys][1:] == [new.key_id]


def test_a_rotation_now_signs_with_the_key_that_is_published_already(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    new = folder.rotate(lead=LEAD)
    assert folder.rotate(lead=timedelta()).key_id == new.key_id == ring.current.key_id


def test_a_rotation_now_with_another_algorithm_than_the_published_key_is_refused(folder: KeyFolder) -> None:
    new = folder.rotate(lead=LEAD)
    with pytest.raises(KeyFolderError, match=f"A rotation is under way: {new.key_id}.* rotate {folder.path} --now"):
        folder.rotate(lead=timedelta(), algorithm="RS256")
    assert folder.rotate(lead=timedelta(), algorithm="ES256").key_id == new.key_id


def test_two_rotations_at_one_moment_have_an_order(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    folder.rotate(lead=timedelta())
    assert folder.rotate(lead=timedelta()).key_id == folder.read().keys[-1].key_id
    assert ring.current.key_id == folder.read().keys[-1].key_id
    assert len(published_ids(ring)) == 3


def test_the_current_key_cannot_be_retired(folder: KeyFolder, clock: Clock) -> None:
    current = folder.read().keys[0].key_id
    with pytest.raises(KeyFolderError, match=f"{current} is the current key. Use parley keys rotate"):
        folder.retire(current, now=True)
    assert ring_of(folder, clock).current.key_id == current


def test_a_key_whose_signatures_are_in_use_is_retired_only_on_demand(folder: KeyFolder, clock: Clock) -> None:
    old = folder.read().keys[0].key_id
    folder.rotate(lead=LEAD, overlap=OVERLAP)
    clock.time = START + LEAD + SECOND
    with pytest.raises(KeyFolderError, match=f"What {old} has signed must be accepted until 2026-05-02 12:10:00 UTC"):
        folder.retire(old)
    ring = ring_of(folder, clock)
    assert len(published_ids(ring)) == 2
    folder.retire(old, now=True)
    assert published_ids(ring) == [ring.current.key_id] != [old]


def test_a_next_key_that_is_retired_ends_the_rotation(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    old, new = ring.current.key_id, folder.rotate(lead=LEAD).key_id
    folder.retire(new)
    clock.time = START + LEAD + OVERLAP + SECOND
    assert (ring.current.key_id, published_ids(ring)) == (old, [old])


def test_a_key_that_has_expired_is_not_published_again_when_its_successor_is_retired(
    folder: KeyFolder, clock: Clock
) -> None:
    """How long a key stays published depends on the key after it."""
    first = folder.read().keys[0].key_id
    leaked = folder.rotate(lead=timedelta(), overlap=OVERLAP).key_id
    clock.time = START + OVERLAP - SECOND
    current = folder.rotate(lead=timedelta(), overlap=OVERLAP).key_id
    clock.time = START + OVERLAP + LEAD
    ring = ring_of(folder, clock)
    assert published_ids(ring) == [current, leaked]
    folder.retire(leaked, now=True)
    assert published_ids(ring) == [current]
    assert first not in [one.key_id for one in folder.read().keys]


def test_a_rotation_deletes_the_keys_that_have_expired(folder: KeyFolder, clock: Clock) -> None:
    old = folder.read().keys[0].key_id
    folder.rotate(lead=LEAD, overlap=OVERLAP)
    clock.time = START + LEAD + OVERLAP + SECOND
    folder.rotate(lead=LEAD, overlap=OVERLAP)
    assert old not in [one.key_id for one in folder.read().keys]
    assert len(list(folder.path.glob("*.json"))) == 2


def test_a_rotation_leaves_a_key_published_for_as_long_as_was_promised(folder: KeyFolder, clock: Clock) -> None:
    """The key after it expires before it, because the overlap of the second rotation is shorter."""
    first = folder.read().keys[0].key_id
    folder.rotate(lead=timedelta(), overlap=7 * OVERLAP)
    folder.rotate(lead=timedelta(), overlap=LEAD)
    clock.time = START + OVERLAP
    ring = ring_of(folder, clock)
    assert published_ids(ring) == [ring.current.key_id, first]
    folder.rotate(lead=timedelta(), overlap=OVERLAP)
    assert first in published_ids(ring)
    clock.time = START + 8 * OVERLAP
    folder.rotate(lead=timedelta(), overlap=OVERLAP)
    assert len(list(folder.path.glob("*.json"))) == 2


def test_a_ring_reports_what_happens_to_its_keys(folder: KeyFolder, clock: Clock) -> None:
    seen: list[tuple[str, str]] = []

    def note(what: KeyChange, key_id: str) -> None:
        seen.append((what, key_id))

    ring = KeyRing(folder.path, on_change=note, now=clock.now, monotonic=clock.monotonic)
    old, new = ring.current.key_id, folder.rotate(lead=LEAD, overlap=OVERLAP).key_id
    for time in (START + SECOND, START + LEAD + SECOND, START + LEAD + OVERLAP + SECOND):
        clock.time = time
        ring.published()
    assert seen == [("key-published", new), ("key-current", new), ("key-withdrawn", old)]


def test_a_ring_counts_signatures_by_key(folder: KeyFolder, clock: Clock) -> None:
    ring = ring_of(folder, clock)
    old = ring.current.key_id
    ring.sign_token({})
    ring.sign_token({})
    new = folder.rotate(lead=timedelta()).key_id
    ring.sign_token({})
    assert ring.signatures == {old: 2, new: 1}


def test_an_imported_key_keeps_its_id(tmp_path: Path) -> None:
    folder, key = KeyFolder(tmp_path / "keys"), generate_key("EdDSA")
    assert folder.create(key, key_id="mine").key_id == "mine"
    with pytest.raises(KeyFolderError, match="has a key with the id mine already"):
        folder.rotate(generate_key("ES256"), lead=timedelta(), key_id="mine")


def test_given_keys_are_replaced_and_stay_published() -> None:
    first, second = (LocalKey(generate_key("ES256"), name) for name in ("a", "b"))
    keys = GivenKeys(first)
    keys.replace(second)
    assert keys.current.key_id == "b"
    assert [key["kid"] for key in msgspec.json.decode(keys.published())["keys"]] == ["b", "a"]


def test_a_key_file_with_another_key_under_the_same_id_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    first, second = (LocalKey(generate_key("ES256"), "main").private_jwk() for _ in range(2))
    file.write_bytes(msgspec.json.encode(first))
    keys = FileKey(file)
    keys.reload()
    published = keys.published()
    file.write_bytes(msgspec.json.encode(second))
    with pytest.raises(LocalProtocolError, match=r"key\.json holds another key with the id main"):
        keys.reload()
    assert keys.published() == published
    file.write_bytes(msgspec.json.encode({**second, "kid": "next"}))
    keys.reload()
    assert keys.current.key_id == "next"


def test_a_key_file_that_every_user_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(generate_key("ES256").as_pem(private=True))
    file.chmod(0o600)
    FileKey(file)
    assert caplog.text == ""
    file.chmod(0o644)
    FileKey(file)
    assert f"Every user of this machine can read the signing key in {file}: chmod 600 {file}" in caplog.text


def test_a_public_key_cannot_sign() -> None:
    public = type(key := generate_key("ES256")).import_key(key.as_dict(private=False))
    with pytest.raises(LocalProtocolError, match="It is a public key; signing needs the private one"):
        LocalKey(public, "a")
