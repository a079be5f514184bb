"""`parley push`: setting, listing and deleting webhooks, against a served agent."""

import json
from collections.abc import Generator

import pytest

from tests.cli.sampler import parley, sampler_on_a_port

HOOK = "http://127.0.0.1:9/hook"


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with sampler_on_a_port() as url:
        yield url


@pytest.fixture
def task(url: str) -> Generator[str]:
    task = json.loads(parley("send", url, "wait", "--no-wait", "--json").stdout)["task"]["id"]
    yield task
    assert parley("tasks", "cancel", url, task).exit_code == 0


def test_an_id_that_is_empty_is_a_mistake() -> None:
    for words in (("set", "x", "t", "https://hook.example", "--id", ""), ("delete", "x", "t", "")):
        assert "An id cannot be empty" in parley("push", *words).stderr


def test_webhooks_are_set_listed_and_deleted(url: str, task: str) -> None:
    made = parley(
        "push", "set", url, task, HOOK, "--id", "ci", "--webhook-token", "t", "--webhook-auth", "Bearer s3cret"
    )
    shown = f"  id          ci\n  calls       {HOOK}\n  token       set\n  auth        Bearer\n"
    assert (made.exit_code, made.stdout) == (0, shown)
    assert parley("push", "set", url, task, HOOK, "--id", "other").exit_code == 0
    listed = parley("push", "list", url, task)
    assert listed.exit_code == 0
    assert listed.stdout == f"{shown}\n  id          other\n  calls       {HOOK}\n"
    for name in ("ci", "other"):
        gone = parley("push", "delete", url, task, name)
        assert (gone.exit_code, gone.stdout, gone.stderr) == (0, "", "Deleted.\n")
    empty = parley("push", "list", url, task)
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "The task has no webhooks.\n")


def test_programs_get_configs_as_1_0_spells_them(url: str, task: str) -> None:
    config = {
        "url": HOOK,
        "id": "ci",
        "taskId": task,
        "authentication": {"scheme": "Bearer", "credentials": "s3cret"},
    }
    made = parley("push", "set", url, task, HOOK, "--id", "ci", "--webhook-auth", "Bearer s3cret", "--json")
    assert json.loads(made.stdout) == config
    assert json.loads(parley("push", "list", url, task, "--json").stdout) == config
    assert json.loads(parley("push", "delete", url, task, "ci", "--json").stdout) == {}


def test_an_empty_authentication_is_a_mistake(url: str, task: str) -> None:
    done = parley("push", "set", url, task, HOOK, "--webhook-auth", " ")
    assert done.exit_code == 2
    assert "Write it as 'Bearer …'" in done.stderr
