"""The page for people: safe whatever the card says, sufficient in itself, and its commands work."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import subprocess
from collections.abc import Generator
from uuid import uuid4

import httpx2
import msgspec
import pytest
from msgspec import structs

from parley.protocol import cards as c
from parley.server.pages.docs_page import CONTENT_SECURITY_POLICY, render
from parley.server.pages.openapi import document
from tests import samples
from tests.server.served import Served, served_agent

URL = "https://agents.example/kitchen"
TOKEN = "a-token-for-the-page"


def page(card: c.AgentCard) -> str:
    return render(card, document(card, base_url=URL), URL).decode()


def test_whatever_the_card_says_is_text() -> None:
    evil = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'\ud800"
    skill = c.AgentSkill(evil, evil, evil, (evil,), (evil,))
    card = c.AgentCard(
        evil,
        evil,
        evil,
        (c.AgentInterface(evil, evil, evil, evil),),
        skills=(skill,),
        provider=c.AgentProvider(evil, "javascript:alert(1)"),
        documentation_url="javascript:alert(1)",
        security_schemes={"key": c.ApiKeyScheme(c.ApiKeyLocation.HEADER, evil), evil: c.MutualTlsScheme(evil)},
        security=({"key": (), evil: (evil,)},),
    )
    spoken = msgspec.json.encode(msgspec.json.decode(document(samples.BARE_CARD, base_url=URL)))
    shown = render(card, spoken, URL).decode()
    assert shown.count("<script>") == 1
    assert "<img" not in shown
    assert "javascript:" not in shown


def test_it_needs_nothing_from_elsewhere() -> None:
    shown = page(samples.CARD)
    assert re.findall(r"\ssrc=|@import|url\(|<link|<iframe|\son\w+=|\sstyle=", shown) == []


def test_the_policy_allows_its_own_two_parts_and_nothing_else() -> None:
    shown = page(samples.CARD)
    hashes = {
        name: base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for name in ("style", "script")
        for part in re.findall(f"<{name}>(.*?)</{name}>", shown, re.DOTALL)
    }
    assert (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ) == CONTENT_SECURITY_POLICY


def test_it_shows_the_agent() -> None:
    shown = html.unescape(page(samples.CARD))
    card = samples.CARD
    facts = [card.name, card.description, card.version, *(skill.description for skill in card.skills)]
    facts += [example for skill in card.skills for example in skill.examples]
    facts += [face.url for face in card.interfaces]
    facts += [f"{URL}/openapi.json", f"{URL}/.well-known/agent-card.json", "https://kitchens.example/docs"]
    assert [fact for fact in facts if fact not in shown] == []


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        (c.HttpAuthScheme("Bearer"), '-H "Authorization: Bearer $TOKEN"'),
        (c.HttpAuthScheme("Basic"), '-u "$USERNAME:$PASSWORD"'),
        (c.ApiKeyScheme(c.ApiKeyLocation.HEADER, "X-Key"), "-H 'X-Key: '\"$API_KEY\""),
        (c.ApiKeyScheme(c.ApiKeyLocation.QUERY, "key"), '--url-query key="$API_KEY"'),
        (c.ApiKeyScheme(c.ApiKeyLocation.COOKIE, "key"), '-b key="$API_KEY"'),
        (c.MutualTlsScheme(), "--cert client.pem --key client.key"),
    ],
)
def test_commands_bring_the_credentials_that_the_card_demands(scheme: c.SecurityScheme, words: str) -> None:
    card = structs.replace(samples.BARE_CARD, security_schemes={"s": scheme}, security=({"s": ()},))
    assert f"curl {URL}/message:send {words} -H 'Content-Type: application/json'" in html.unescape(page(card))


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Generator[Served]:
    with served_agent("--token", TOKEN) as agent:
        yield agent


def begin_task(client: httpx2.Client) -> str:
    """A task that waits for an answer, with two webhooks: one has a name, the other is that of 0.1."""
    message = {"role": "ROLE_USER", "parts": [{"text": "ask"}], "messageId": str(uuid4())}
    task = client.post("/message:send", json={"message": message}).json()["task"]["id"]
    for name in ({}, {"id": "webhook-1"}):
        hook = {"url": "https://example.com/webhook", **name}
        assert client.post(f"/tasks/{task}/pushNotificationConfigs", json=hook).status_code == 200
    return task


def words_of(command: str, **variables: str) -> list[str]:
    """What a shell makes of a command: its words, with the variables in them."""
    script = f"set -- {command}; printf '%s\\n' \"$@\""
    done = subprocess.run(["sh", "-c", script], env={**os.environ, **variables}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), command
    return done.stdout.splitlines()


def run(client: httpx2.Client, command: str, task: str) -> tuple[int, str]:
    """What curl would do: the status and what comes back, of a stream its first event."""
    verb, url, headers, body = "", "", dict[str, str](), None
    words = iter(words_of(command, TASK=task, TOKEN=TOKEN)[1:])
    for word in words:
        match word:
            case "-X":
                verb = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case "-N" | "-s":
                pass
            case _:
                url = word
    verb = verb or ("GET" if body is None else "POST")
    with client.stream(verb, url, headers=headers, content=body) as reply:
        streams = reply.headers["content-type"].startswith("text/event-stream")
        assert streams == ("-N" in command), command
        return reply.status_code, next(reply.iter_text(), "") if streams else reply.read().decode()


def test_every_command_on_the_page_works(served: Served) -> None:
    base = f"http://127.0.0.1:{served.http}"
    with httpx2.Client(base_url=base, timeout=15) as anybody:
        shown = anybody.get("/docs")
    assert (shown.status_code, shown.headers["content-security-policy"]) == (200, CONTENT_SECURITY_POLICY)
    commands = [html.unescape(text) for text in re.findall(r"<pre><code>(.*?)</code></pre>", shown.text, re.DOTALL)]
    assert len(commands) > 50
    failed: list[tuple[str, str]] = []
    with httpx2.Client(base_url=base, timeout=15, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for command in commands:
            if command.startswith("TASK="):
                continue
            status, text = run(client, command, begin_task(client))
            if status != 200 or '"error":{"code":' in text:
                failed.append((command, text))
    assert failed == []


def test_the_command_that_begins_a_task_gives_its_id_and_begins_another_each_time(served: Served) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{served.http}", timeout=15) as client:
        shown = html.unescape(client.get("/docs").text)
        (command,) = re.findall(r"<code>(TASK=.*?)</code>", shown)
        assert '"configuration":{"returnImmediately":true}' in command
        script = f'{command}\necho "$TASK"\n'
        done = subprocess.run(
            ["sh", "-c", script * 2], env={**os.environ, "TOKEN": TOKEN}, capture_output=True, text=True, timeout=30
        )
        first, second = done.stdout.split()
        assert first != second
        for task in (first, second):
            reply = client.get(f"/tasks/{task}", headers={"Authorization": f"Bearer {TOKEN}"})
            assert (reply.status_code, reply.json()["id"]) == (200, task)
