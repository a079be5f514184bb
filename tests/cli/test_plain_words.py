"""What the commands say of themselves, and of what was typed wrongly: no word of Python, and always the option."""

from __future__ import annotations

import pytest
from typer.main import get_command

from parley.cli.commands import token
from parley.cli.main import app
from parley.cli.output.exit_codes import error_json, error_text
from parley.client.errors import CredentialsError, DiscoveryError, ForbiddenTargetError
from parley.client.guard import Guard
from parley.server.security.authentication import Security
from parley.server.security.schemes.api_keys import ApiKeys
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from tests.cli.sampler import parley, sampler_on_a_port

SOME = ("send", "localhost:1", "hi")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*SOME, "--binding", "soap"), "--binding: 'soap' is not one of jsonrpc, http+json, grpc."),
        ((*SOME, "--timeout", "x"), "--timeout: Invalid number: 'x'."),
        ((*SOME, "--timeout", "0"), "--timeout: 0 is too small: the minimum is 0.001."),
        (("tasks", "list", "localhost:1", "--limit", "1.5"), "--limit: Invalid whole number: '1.5'."),
        (("serve", "x", "--port", "70000"), "--port: 70000 is too large: the maximum is 65535."),
        (("serve", "x", "--retention", "3x"), "--retention: Invalid duration: '3x'."),
        (("token", "ada", "--expires", "3x"), "--expires: Invalid duration: '3x'."),
        (("serve", "x", "--grpc-port", "x"), "--grpc-port: Invalid port: 'x'."),
        (("tasks", "show", "localhost:1", ""), "TASK: An id cannot be empty."),
        ((*SOME, "--task", ""), "--task: An id cannot be empty."),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_what_is_typed_wrongly_is_told_with_its_option(words: tuple[str, ...], told: str) -> None:
    done = parley(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Error: Invalid value for {told}" in done.stderr


@pytest.mark.parametrize("words", [(), ("tasks",), ("push",)])
def test_a_bare_command_shows_its_help_and_that_is_no_mistake(words: tuple[str, ...]) -> None:
    done = parley(*words)
    assert (done.exit_code, done.stderr, "Commands:" in done.stdout) == (0, "", True)


def test_help_shows_no_types_of_python() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for name in commands:
        lines = [parley(name, "--help").stdout]
        lines += [parley(name, one, "--help").stdout for one in getattr(commands[name], "commands", ())]
        for text in lines:
            usage = text.splitlines()[0]
            assert (
                "<" in text.split("Options:")[1].replace("<=", ""),
                "<str>" in text,
                "list[" in text,
                "{" in usage,
            ) == (False,) * 4


def test_advice_names_options_and_not_python() -> None:
    with pytest.raises(ForbiddenTargetError) as forbidden:
        Guard().check_interface("http://10.0.0.1/", card_url="https://agents.example")
    assert error_text(forbidden.value).endswith("; if that is right, allow it: --allow-private.")
    assert "Guard(" not in error_json(forbidden.value)["message"]


def test_credentials_that_a_card_would_have_sent_elsewhere_are_let_go_with_an_option() -> None:
    keys = Security({"key": ApiKeys([StoredSecret(name="ada", hash=hash_secret("k-hush"))])}, [{"key": ()}])
    with sampler_on_a_port(security=keys) as url:
        elsewhere = url.replace("127.0.0.1", "localhost")
        with sampler_on_a_port(security=keys, public_url=elsewhere) as leading:
            done = parley("send", leading, "hi", "--token", "k-hush")
            assert done.exit_code == 1
            assert done.stderr.endswith(f"is at {elsewhere}. If that is right: --trust {elsewhere}.\n")
            assert parley("send", leading, "hi", "--token", "k-hush", "--trust", elsewhere).stdout == "hi\n"


def test_the_file_of_a_token_is_spoken_of_in_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token, "_is_shown_to_a_person", lambda: True)
    done = parley("token", "ada")
    secret = done.stderr.splitlines()[2].strip()
    assert f"\nCallers send the header Authorization: Bearer {secret}\n" in done.stderr
    assert " ".join(done.stderr.split()).endswith("add its line in braces to the list in that file.")
    assert done.stdout.startswith("[schemes.token]")


def test_an_error_that_is_too_long_is_cut_after_a_word_and_places_of_cards_are_all_named() -> None:
    long = " ".join(f"https://agents.example/{number:04}" for number in range(20))
    assert str(DiscoveryError(long)) == long
    shortened = str(CredentialsError(long))
    assert (len(shortened) <= 300, shortened.endswith("…")) == (True, True)
    assert long.startswith(f"{shortened[:-1]} ")
