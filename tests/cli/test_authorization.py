"""`parley send` and `parley chat` with a task that waits for an authorization."""

from __future__ import annotations

import re

import pytest

from parley.cli.output.authorization_text import describe_authorization, is_safe_to_open
from parley.protocol.authorization import AnswerWay, RequestedAuthorization
from tests.cli.sampler import parley, sampler_on_a_port

SECRET = "the-key-of-the-test"


def test_send_says_what_is_needed_and_gives_the_credential_from_standard_input() -> None:
    with sampler_on_a_port() as url:
        asked = parley("send", url, "key")
        assert "The agent needs a Bearer credential with the scope read." in asked.stderr
        assert "https://keys.example" in asked.output
        (command,) = re.findall(r"Give it with: parley send (.*)", asked.stderr)
        task = command.split()[-1]
        refused = parley("send", url, "--credential", "--task", task, input="\n")
        assert (refused.exit_code, "The credential is empty" in refused.output) == (2, True)
        done = parley("send", url, "--credential", "--task", task, input=f"{SECRET}\n")
        shown = parley("tasks", "show", url, task, "--json")
    assert (done.exit_code, done.stdout.strip()) == (0, f"a key of {len(SECRET)}")
    assert SECRET not in done.output + shown.output


def test_a_credential_needs_a_task() -> None:
    done = parley("send", "http://127.0.0.1:1", "--credential", input=SECRET)
    assert (done.exit_code, "--task ID" in done.output) == (2, True)


def test_chat_asks_for_the_credential_and_goes_on() -> None:
    with sampler_on_a_port() as url:
        said = parley("chat", url, input=f"key\n{SECRET}\n")
    assert f"a key of {len(SECRET)}" in said.output
    assert SECRET not in said.output


def test_an_authorization_in_words() -> None:
    asked = RequestedAuthorization("Bearer", "https://x", ("a", "b\x1b"), AnswerWay.CALLBACK)
    assert describe_authorization(asked) == (
        "The agent needs a Bearer credential with the scopes a, b␛. "
        "Open the URL in a browser; the task then goes on by itself."
    )
    assert describe_authorization(None) == "The agent needs authentication."


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://login.example/authorize?state=x", True),
        ("HTTPS://login.example", True),
        ("http://127.0.0.1:8080/authorize", True),
        ("http://[::1]/authorize", True),
        ("http://login.example/authorize", False),
        ("http://localhost@evil.example/", False),
        ("file:///home/ada/evil.desktop", False),
        ("--gpu-launcher=/tmp/evil", False),
        ("http://[", False),
    ],
)
def test_chat_sends_the_browser_to_safe_pages_only(url: str, is_safe: bool) -> None:
    assert is_safe_to_open(url) is is_safe
