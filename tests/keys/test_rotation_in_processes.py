"""Keys that rotate while real servers sign with them, and receivers of several kinds verify: nothing is rejected."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from base64 import urlsafe_b64decode
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import jwt
import pytest

from parley.client.client import Client
from parley.client.discovery.card_cache import CardCache
from parley.client.discovery.signatures import SignaturePolicy, read_key_set
from parley.keys import KeyFolder, KeyRing
from parley.protocol.signing import verify_card
from parley.server.security.auth_file import new_token
from tests.cli.served import running, served
from tests.cli.worker_processes import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")

ECHO = """
from parley import Agent

agent = Agent("Echo", description="Says what it hears.")

@agent.on_message
async def echo(turn):
    return turn.text
"""

CACHE_SECONDS = 1.0
"""How long the receivers of this test cache a key set, and never fetch it earlier. A key is published for 3 seconds
before it signs: as long as it may take a server to notice it, and a receiver to fetch it, and one more."""

SIGNED = ("cards", "tokens", "webhooks")


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    (tmp_path / "echo.py").write_text(ECHO)
    keys = KeyFolder(tmp_path / "keys")
    keys.create()
    return keys


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as reply:
        return reply.read()


def parley(*words: str, cwd: Path) -> str:
    command = [sys.executable, "-m", "parley.cli.main", *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def signer_of(card: bytes) -> str:
    return header_in(json.loads(card)["signatures"][0]["protected"])["kid"]


def header_in(protected: str) -> dict[str, Any]:
    return json.loads(urlsafe_b64decode(f"{protected}=="))


class CachedKeys:
    """The key set of a server for a receiver that caches it strictly: an unknown key is not a reason to fetch it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fetched_at = -CACHE_SECONDS
        self._body = b""

    def body(self) -> bytes:
        if time.monotonic() - self._fetched_at >= CACHE_SECONDS:
            fetched_at = time.monotonic()
            self._body = fetch(self._url)
            self._fetched_at = fetched_at
        return self._body


class Receivers:
    """Threads that verify until the test ends. `accepted` counts by kind and key; `rejected` has the reasons."""

    def __init__(self) -> None:
        self.accepted: Counter[tuple[str, str]] = Counter()
        self.rejected: list[str] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, kind: str, verify: Callable[[], str]) -> None:
        def work() -> None:
            while not self._stop.wait(0.05):
                try:
                    self.accepted[kind, verify()] += 1
                except Exception as error:  # here an attempt ends
                    self.rejected.append(f"{kind}: {error!r}")

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def receiving() -> Generator[Receivers]:
    receivers = Receivers()
    try:
        yield receivers
    finally:
        receivers.end()


def card_verifier(url: str) -> Callable[[], str]:
    keys = CachedKeys(f"{url}/.well-known/jwks.json")

    def verify() -> str:
        card = fetch(f"{url}/.well-known/agent-card.json?A2A-Version=1.0")
        known = read_key_set(keys.body())
        return verify_card(card, lambda header: known.get(header.key_id)).header.key_id

    return verify


def client_verifier(url: str) -> Callable[[], str]:
    """Parley's client, which requires signatures and caches cards and keys for as long as it always does."""
    policy, cards = SignaturePolicy("required", jwks_hosts=("127.0.0.1",)), CardCache()

    async def discover() -> str:
        async with Client(url, signatures=policy, cards=cards) as client:
            return header_in(client.card.signatures[0].protected)["kid"]

    return lambda: asyncio.run(discover())


def token_verifier(url: str, folder: KeyFolder) -> Callable[[], str]:
    """Tokens of a third process with the same folder, checked with another library, now and again a second later."""
    keys, ring, later = CachedKeys(f"{url}/.well-known/jwks.json"), KeyRing(folder.path), deque[tuple[float, str]]()

    def check(token: str) -> str:
        key_id = jwt.get_unverified_header(token)["kid"]
        key = jwt.PyJWKSet.from_json(keys.body().decode())[key_id]
        assert jwt.decode(token, key, algorithms=["ES256"], audience="hook") == {"aud": "hook", "taskId": "t-1"}
        return key_id

    def verify() -> str:
        later.append((time.monotonic(), ring.sign_token({"aud": "hook", "taskId": "t-1"})))
        while time.monotonic() - later[0][0] > 1.0:
            check(later.popleft()[1])
        return check(later[-1][1])

    return verify


@contextmanager
def webhook(url: str, receivers: Receivers) -> Generator[str]:
    """A webhook that verifies the tokens of the notifications that it gets."""
    keys = CachedKeys(f"{url}/.well-known/jwks.json")

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                receivers.accepted["webhooks", self.verify(body)] += 1
            except Exception as error:  # here an attempt ends
                receivers.rejected.append(f"webhooks: {error!r}")
            self.send_response(204)
            self.end_headers()

        def verify(self, body: bytes) -> str:
            token = self.headers["Authorization"].removeprefix("Bearer ")
            key_id = jwt.get_unverified_header(token)["kid"]
            key = jwt.PyJWKSet.from_json(keys.body().decode())[key_id]
            claims = jwt.decode(token, key, algorithms=["ES256"], audience=hook, issuer=url)
            assert claims["request_body_sha256"] == hashlib.sha256(body).hexdigest()
            return key_id

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    hook = f"http://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()


def sender(url: str, hook: str) -> Callable[[], str]:
    """Sends messages whose tasks notify a webhook with signed tokens."""
    numbers = count()

    def send() -> str:
        message = {"messageId": f"m-{next(numbers)}", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        config = {"url": hook, "authentication": {"scheme": "JWT"}}
        params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(call).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.load(reply)["result"]["task"]["status"]["state"]

    return send


def test_nothing_is_rejected_while_keys_rotate(folder: KeyFolder, tmp_path: Path) -> None:
    options = ("--signing-key", "keys", "--port", "0", "--workers", "2", "--store", "sqlite:///tasks.db")
    more = ("--webhooks", "any", "--rate", "off", "--log-format", "json")
    with served("echo", *options, *more, cwd=tmp_path) as command, receiving() as receivers:
        url = json.loads(command.until_logged("workers serve at"))["url"].rstrip("/")
        with webhook(url, receivers) as hook:
            receivers.start("sends", sender(url, hook))
            check_rotations(url, receivers, folder, tmp_path)
            receivers.end()


def check_rotations(url: str, receivers: Receivers, folder: KeyFolder, tmp_path: Path) -> None:
    """Rotate twice while cards, tokens and notifications are verified, and see that each key was used."""
    first = folder.read().keys[0].key_id
    receivers.start("cards", card_verifier(url))
    receivers.start("client", client_verifier(url))
    receivers.start("tokens", token_verifier(url, folder))
    until(lambda: all(receivers.accepted[kind, first] for kind in SIGNED) and receivers.accepted["client", first] > 10)
    for overlap in ("8s", "1h"):
        made = json.loads(
            parley("keys", "rotate", "keys", "--lead", "3s", "--overlap", overlap, "--json", cwd=tmp_path)
        )
        until(lambda key=made["id"]: all(receivers.accepted[kind, key] for kind in SIGNED))
    until(lambda: first not in fetch(f"{url}/.well-known/jwks.json").decode())
    seen = receivers.accepted["cards", made["id"]]
    until(lambda: receivers.accepted["cards", made["id"]] > seen + 10)
    assert receivers.rejected == []
    keys = {one.key_id for one in folder.read().keys} | {first}
    for kind in SIGNED:
        assert {key for known, key in receivers.accepted if known == kind} == keys


def test_a_server_follows_its_key_folder_by_itself(folder: KeyFolder, tmp_path: Path) -> None:
    options = ("--signing-key", "keys", "--port", "0", "--audit-log", "audit.jsonl", "--log-format", "json")
    with served("echo", *options, cwd=tmp_path) as command:
        url = command.ready_line()["url"]
        card = f"{url}/.well-known/agent-card.json"
        old = signer_of(fetch(card))
        new = json.loads(
            parley("keys", "rotate", "keys", "--now", "--json", "--audit-log", "audit.jsonl", cwd=tmp_path)
        )["id"]
        until(lambda: signer_of(fetch(card)) == new)
        assert [key["kid"] for key in json.loads(fetch(f"{url}/.well-known/jwks.json"))["keys"]] == [new, old]
        metrics = fetch(f"{url}/metrics").decode()
        for key in (old, new):
            assert f'parley_signatures_total{{key="{key}"}} 2.0' in metrics, "a card has two signatures"
        parley("keys", "retire", "keys", old, "--now", cwd=tmp_path)
        until(lambda: old not in fetch(f"{url}/.well-known/jwks.json").decode())
        assert command.end() == 0
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["what"], line["key"], "caller" in line) for line in lines] == [
        ("key-rotated", new, True),
        ("key-published", new, False),
        ("key-current", new, False),
        ("key-withdrawn", old, False),
    ]


# --- SIGHUP -----------------------------------------------------------------------------------------------------------


def status_with(token: str, url: str) -> int:
    request = urllib.request.Request(f"{url}/tasks", headers={"Authorization": f"Bearer {token}", "A2A-Version": "1.0"})
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def auth_file(*entries: str) -> str:
    return '[schemes.token]\ntype = "bearer"\ntokens = [' + ", ".join(entries) + "]\n"


def test_sighup_reloads_the_auth_file_and_an_invalid_one_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    (ada, ada_entry), (bob, bob_entry) = new_token("ada"), new_token("bob")
    file = tmp_path / "auth.toml"
    file.write_text(auth_file(ada_entry))
    with served("echo", "--port", "0", "--auth", "auth.toml", "--log-format", "json", cwd=tmp_path) as command:
        url = command.ready_line()["url"]
        card = f"{url}/.well-known/agent-card.json?A2A-Version=1.0"
        assert (status_with(ada, url), status_with(bob, url)) == (200, 401)

        file.write_text("schemes = 1")
        os.kill(command.process.pid, signal.SIGHUP)
        assert "the old one stays in force: auth.toml: " in command.until_logged("The auth file was not reloaded")
        assert (status_with(ada, url), status_with(bob, url)) == (200, 401)

        file.write_text(auth_file(bob_entry).replace("schemes.token", "schemes.people"))
        os.kill(command.process.pid, signal.SIGHUP)
        command.until_logged("The auth file was reloaded; callers authenticate with people")
        assert (status_with(ada, url), status_with(bob, url)) == (401, 200)
        assert list(json.loads(fetch(card))["securitySchemes"]) == ["people"]
        assert command.end() == 0


def test_the_parent_of_workers_passes_sighup_on(folder: KeyFolder, tmp_path: Path) -> None:
    options = ("--workers", "2", "--port", "0", "--store", "sqlite:///tasks.db", "--signing-key", "keys")
    (ada, ada_entry), (bob, bob_entry) = new_token("ada"), new_token("bob")
    (tmp_path / "auth.toml").write_text(auth_file(ada_entry))
    words = ("echo", *options, "--auth", "auth.toml", "--log-format", "json")
    with served(*words, cwd=tmp_path) as command:
        url = json.loads(command.until_logged("workers serve at"))["url"]
        (tmp_path / "auth.toml").write_text(auth_file(bob_entry))
        os.kill(command.process.pid, signal.SIGHUP)
        for _ in range(2):
            command.until_logged("The auth file was reloaded")
        assert {(status_with(ada, url), status_with(bob, url)) for _ in range(20)} == {(401, 200)}
        assert command.end() == 0


def test_sighup_reads_a_single_key_file_again_and_the_old_key_stays_published(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    for name in ("a", "b"):
        KeyFolder(tmp_path / name).create(key_id=name)
    file = tmp_path / "key.json"
    file.write_bytes((tmp_path / "a" / "a.json").read_bytes())
    with served("echo", "--port", "0", "--signing-key", "key.json", "--log-format", "json", cwd=tmp_path) as command:
        url = command.ready_line()["url"]
        assert signer_of(fetch(f"{url}/.well-known/agent-card.json")) == "a"
        file.write_text("{")
        os.kill(command.process.pid, signal.SIGHUP)
        assert "key.json is not a valid signing key" in command.until_logged("the old ones stay in use")
        file.write_bytes((tmp_path / "b" / "b.json").read_bytes())
        os.kill(command.process.pid, signal.SIGHUP)
        command.until_logged("The keys were reloaded; b signs")
        assert signer_of(fetch(f"{url}/.well-known/agent-card.json")) == "b"
        assert [key["kid"] for key in json.loads(fetch(f"{url}/.well-known/jwks.json"))["keys"]] == ["b", "a"]
        assert command.end() == 0


# --- the host ---------------------------------------------------------------------------------------------------------


def test_a_host_signs_its_cards_and_publishes_its_keys(folder: KeyFolder, tmp_path: Path) -> None:
    words = ("up", "--port", "0", "--signing-key", "keys", "--tenant-token-file", "token.txt", "--log-format", "json")
    with running(sys.executable, "-m", "parley.cli.main", *words, cwd=tmp_path) as command:
        url = command.ready_line()["url"]
        token = (tmp_path / "token.txt").read_text().strip()
        card_url = f"{url}/v1/a2a/agents/index/agent-card.json"
        until(lambda: host_signer(card_url, token) == (folder.read().keys[0].key_id, url))
        new = json.loads(parley("keys", "rotate", "keys", "--now", "--json", cwd=tmp_path))["id"]
        until(lambda: host_signer(card_url, token) == (new, url))
        below = f"{url}/v1/a2a/agents/index/.well-known/jwks.json"
        assert fetch(below) == fetch(f"{url}/.well-known/jwks.json")
        assert command.end() == 0


def host_signer(card_url: str, token: str) -> tuple[str, str]:
    """The key that verifies the card, from where the card says that it is, and the URL of that place."""
    request = urllib.request.Request(card_url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=20) as reply:
        card: bytes = reply.read()
    url = header_in(json.loads(card)["signatures"][0]["protected"])["jku"]
    known = read_key_set(fetch(url))
    return verify_card(card, lambda header: known.get(header.key_id)).header.key_id, url.partition("/.well-known")[0]
