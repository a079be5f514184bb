"""`parley push`: setting, listing and deleting webhooks, against a served agent."""

import json
from collections.abc import Generator

import pytest

from parley.protocol.masking import MASK
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


def test_secrets_may_be_variables_which_other_users_cannot_read(url: str, task: str) -> None:
    secrets = {"PARLEY_HOOK_TOKEN": "t", "PARLEY_HOOK_AUTH": "Bearer s3cret"}
    made = parley("push", "set", url, task, HOOK, "--id", "ci", env=secrets)
    assert made.stdout == f"  id          ci\n  calls       {HOOK}\n  token       set\n  auth        Bearer\n"
    assert parley("push", "delete", url, task, "ci").exit_code == 0


def test_programs_get_configs_as_1_0_spells_them(url: str, task: str) -> None:
    config = {
        "url": HOOK,
        "id": "ci",
        "taskId": task,
        "authentication": {"scheme": "Bearer", "credentials": MASK},
    }
    made = parley("push", "set", url, task, HOOK, "--id", "ci", "--webhook-auth", "Bearer s3cret", "--json")
    assert json.loads(made.stdout) == config
    assert json.loads(parley("push", "list", url, task, "--json").stdout) == config
    assert json.loads(parley("push", "delete", url, task, "ci", "--json").stdout) == {}


def test_an_empty_authentication_is_a_mistake(url: str, task: str) -> None:
    done = parley("push", "set", url, task, HOOK, "--webhook-auth", " ")
    assert done.exit_code == 2
    assert "Write it as 'Bearer …'" in done.stderr


def test_what_failed_is_listed_shown_sent_again_and_resumed(url: str, task: str) -> None:
    """The port is closed, so every attempt fails."""
    assert parley("push", "set", url, task, HOOK, "--id", "ci").exit_code == 0
    seen = parley("push", "deliveries", url, "--task", task)
    assert seen.stdout.startswith(f"  task        {task}\n  id          ci\n  calls       http://127.0.0.1:9/…\n")
    again = json.loads(parley("push", "redeliver", url, task, "ci", "--after", "0", "--json").stdout)
    assert (again["taskId"], again["configId"], again["delivered"]) == (task, "ci", 0)
    while (shown := json.loads(parley("push", "show", url, task, "ci", "--json").stdout))["status"] != "failing":
        assert shown["status"] == "waiting"
    assert shown["lastError"] == "It could not be called: connection refused"
    assert shown["attempts"] >= 1
    listed = [json.loads(line) for line in parley("push", "deliveries", url, "--json").stdout.splitlines()]
    assert [each["configId"] for each in listed if each["taskId"] == task] == ["ci"]
    text = parley("push", "show", url, task, "ci").stdout
    assert "  status      failing\n" in text
    assert "  last error  " in text
    resumed = parley("push", "resume", url, task, "ci", "--json")
    assert json.loads(resumed.stdout)["status"] in ("waiting", "failing")
    empty = parley("push", "deliveries", url, "--status", "given_up")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "There are none.\n")


def test_a_webhook_or_status_that_is_not_there_is_a_mistake(url: str, task: str) -> None:
    missing = parley("push", "show", url, task, "other")
    assert (missing.exit_code, "no webhook 'other'" in missing.stderr) == (1, True)
    odd = parley("push", "deliveries", url, "--status", "odd")
    assert (odd.exit_code, "Choose one of" in odd.stderr) == (2, True)
