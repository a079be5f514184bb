"""The commands against agents on other people's SDKs, each from its own environment and in its own process."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.sampler import parley
from tests.client.test_peers import PEERS, Peer, served

OF_EACH_SDK = [next(peer for peer in PEERS if peer.environment == name) for name in ("a2a-sdk-1.3.0", "a2a-sdk-0.3.26")]
(FASTA2A,) = [peer for peer in PEERS if peer.environment == "fasta2a"]


@pytest.fixture(scope="module", params=[*OF_EACH_SDK, FASTA2A], ids=str)
def peer(request: pytest.FixtureRequest) -> Peer:
    return request.param


@pytest.fixture(scope="module")
def url(peer: Peer, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with served(peer, tmp_path_factory.mktemp("peer")) as url:
        yield url


def last(text: str) -> Any:
    return json.loads(text.splitlines()[-1])


@pytest.mark.parametrize("how", [(), ("--no-stream",)])
def test_the_answer_is_shown_whether_it_was_streamed_or_not(url: str, how: tuple[str, ...]) -> None:
    """fasta2a streams how the work goes; what came of it is in the task alone."""
    done = parley("send", url, "echo hello", *how)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "hello\n", "")


def test_a_chat_shows_it_too(url: str, tmp_path: Path) -> None:
    done = parley("chat", url, "--save", str(tmp_path), input="echo hello\n")
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, ["> echo hello", "hello"])


def test_chunks_flow(url: str) -> None:
    done = parley("send", url, "count 3")
    assert (done.exit_code, done.stdout) == (0, "1 2 3 \n")


def test_a_question_is_answered_in_a_chat(url: str) -> None:
    done = parley("chat", url, input="ask\nfour\n")
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (
        0,
        ["> ask", "For how many?", "answer> four", "A table for four."],
    )


def test_a_question_is_shown_to_who_comes_later(url: str) -> None:
    """fasta2a has it in the history, the others in the status."""
    asked = parley("send", url, "ask", "--no-stream", "--json")
    done = parley("tasks", "watch", url, last(asked.stdout)["task"]["id"])
    assert (done.exit_code, done.stdout) == (4, "For how many?\n")


def test_a_task_is_canceled_or_said_not_to_be(url: str, peer: Peer) -> None:
    asked = parley("send", url, "ask", "--no-stream", "--json")
    done = parley("tasks", "cancel", url, last(asked.stdout)["task"]["id"])
    if peer is FASTA2A:  # which answers before its worker has heard of it
        assert (done.exit_code, done.stderr) == (1, "The task is not canceled, or not yet.\n")
    else:
        assert (done.exit_code, done.stderr) == (0, "")


def test_webhooks_are_set_listed_and_deleted_where_there_are_any(url: str, peer: Peer) -> None:
    task = last(parley("send", url, "echo hi", "--no-stream", "--json").stdout)["task"]["id"]
    done = parley("push", "set", url, task, "https://hooks.example/a", "--id", "ci")
    if peer is FASTA2A:  # a method that it does not know ends in HTTP 500
        assert (done.exit_code, done.stdout) == (1, "")
        return
    assert (done.exit_code, done.stdout.split()) == (0, ["id", "ci", "calls", "https://hooks.example/a"])
    assert parley("push", "list", url, task).stdout == done.stdout
    assert parley("push", "delete", url, task, "ci").exit_code == 0
    assert parley("push", "list", url, task).stderr == "The task has no webhooks.\n"
