"""`parley tasks export` and `parley tasks delete`: against a served agent, and on a store."""

import json
from pathlib import Path
from typing import Any

import pytest

from parley.server.app import App
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, new_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.cli.sampler import on_a_port, parley
from tests.server.serving import echo_agent


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_caller_exports_and_deletes_its_own_data_at_a_server() -> None:
    (ada, ada_hash), (bob, bob_hash) = new_secret(), new_secret()
    tokens = BearerTokens([StoredSecret(name="ada", hash=ada_hash), StoredSecret(name="bob", hash=bob_hash)])
    with on_a_port(lambda: App(echo_agent(), security=Security({"token": tokens}))) as url:
        for token, text in ((ada, "alpha"), (bob, "beta")):
            assert parley("send", url, text, "--token", token).exit_code == 0
        exported = parley("tasks", "export", url, "--all", "--token", ada)
        assert (exported.exit_code, lines(exported.stdout)[-1]["counts"]["task"]) == (0, 1)
        assert "alpha" in exported.stdout
        assert "beta" not in exported.stdout

        asked = parley("tasks", "delete", url, "--all", "--token", ada, input="n\n")
        assert (asked.exit_code, "Nothing was deleted." in asked.stderr) == (2, True)
        assert f"Delete all data at {url}? It cannot be undone. [y/N]" in asked.stderr
        deleted = parley("tasks", "delete", url, "--all", "--token", ada, input="y\n")
        assert (deleted.exit_code, deleted.stdout.split()[1:3]) == (0, ["tasks", "1"])  # after the echo of the answer
        again = parley("tasks", "delete", url, "--all", "--token", ada, "--yes", "--json")
        assert json.loads(again.stdout)["tasks"] == 0
        assert lines(parley("tasks", "export", url, "--all", "--token", bob).stdout)[-1]["counts"]["task"] == 1

        refused = parley("tasks", "delete", url, "--all", "--yes")
        assert (refused.exit_code, "credentials" in refused.stderr) == (1, True)


def test_a_task_at_work_is_deleted_with_cancel_only() -> None:
    token, token_hash = new_secret()
    tokens = BearerTokens([StoredSecret(name="ada", hash=token_hash)])
    with on_a_port(lambda: App(echo_agent(), security=Security({"token": tokens}))) as url:
        known = ("--token", token)
        task = json.loads(parley("send", url, "wait", "--no-wait", "--json", *known).stdout)["task"]["id"]
        refused = parley("tasks", "delete", url, "--task", task, "--yes", *known)
        assert (refused.exit_code, "at work" in refused.stderr) == (1, True)
        deleted = parley("tasks", "delete", url, "--task", task, "--yes", "--cancel", *known)
        assert (deleted.exit_code, deleted.stdout.split()[:2]) == (0, ["tasks", "1"])
        gone = parley("tasks", "export", url, "--task", task, *known)
        assert (gone.exit_code, gone.stdout) == (1, "")


def test_a_server_without_data_of_its_own_is_named_as_the_reason() -> None:
    def relay() -> App:
        app = App(echo_agent())
        app.shared.owner_data = None  # as in a proxy
        return app

    with on_a_port(relay) as url:
        for command in (("export",), ("delete", "--yes")):
            refused = parley("tasks", *command, url, "--all")
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert "This server does not export or delete data." in refused.stderr


def test_an_operator_exports_and_deletes_the_data_of_any_owner_in_a_store(tmp_path: Path) -> None:
    store, trail = f"sqlite:///{tmp_path / 'parley.db'}", tmp_path / "audit.jsonl"
    with on_a_port(lambda: App(echo_agent(), store=store)) as url:
        assert parley("send", url, "Zebrafinken").exit_code == 0
        assert b"Zebrafinken" in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    exported = parley("tasks", "export", "--store", store, "--owner", "", "--all")
    assert (exported.exit_code, "Zebrafinken" in exported.stdout) == (0, True)
    audited = ("--all", "--yes", "--json", "--audit", str(trail))
    other = parley("tasks", "delete", "--store", store, "--owner", "ada", *audited)
    assert json.loads(other.stdout)["tasks"] == 0
    deleted = parley("tasks", "delete", "--store", store, "--owner", "", *audited)
    assert (deleted.exit_code, json.loads(deleted.stdout)["tasks"]) == (0, 1)
    assert b"Zebrafinken" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    of_ada, line = lines(trail.read_text())
    assert (line["what"], line["caller"], line["deleted"]["tasks"]) == ("data-deleted", "operator", 1)
    assert (of_ada["caller"], of_ada["owner"], of_ada["deleted"]["tasks"]) == ("operator", "ada", 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("http://127.0.0.1:9",), "one of --task, --context and --all"),
        (("http://127.0.0.1:9", "--all", "--task", "t"), "one of --task, --context and --all"),
        (("--all",), "either the URL of an agent, or --store"),
        (("http://127.0.0.1:9", "--store", "sqlite:///x.db", "--all"), "either the URL of an agent, or --store"),
        (("--store", "sqlite:///x.db", "--all"), "--owner NAME"),
        (("http://127.0.0.1:9", "--owner", "ada", "--all"), "need --store"),
        (("--store", "sqlite:///nowhere.db", "--owner", "", "--all"), "There is no store"),
        (("--store", "memory:", "--owner", "", "--all"), "There is no store"),
        (("--task", " ", "--store", "sqlite:///x.db"), "cannot be empty"),
    ],
)
def test_arguments_that_do_not_say_whose_data_or_which_are_refused(words: tuple[str, ...], message: str) -> None:
    for command in (("export",), ("delete", "--yes")):
        refused = parley("tasks", *command, *words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert message in " ".join(refused.stderr.replace("│", " ").split())
