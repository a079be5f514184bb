"""Cases about push notifications. Webhooks are registered at finished tasks only, so that nobody is called."""

from __future__ import annotations

from uuid import uuid4

from parley.check.cases import Cases
from parley.check.envelope import absent
from parley.check.probe import Probe, expect
from parley.check.verdict import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version

CASES = Cases()
METADATA_SERVICE = "http://169.254.169.254/parley-check"
"""What every guard must know: the address where clouds keep their secrets."""


def _pushes(probe: Probe) -> None:
    if not probe.card.capabilities.push_notifications:
        raise Undecided("the card declares no push notifications")


def _create(probe: Probe, task_id: str, url: str, id: str | None = None) -> r.CreatePushConfigRequest:
    return r.CreatePushConfigRequest(task_id, PushConfig(url, id=id), tenant=probe.tenant)


@CASES.case("An agent without push notifications refuses them", v1_0="G1.32", v0_3="G2.5", v0_1="A1.2")
async def refused(probe: Probe) -> str:
    if probe.card.capabilities.push_notifications:
        raise Undecided("the card declares push notifications")
    task = await probe.task()
    calls: list[tuple[Operation, r.Request]] = [
        (ops.CREATE_PUSH_CONFIG, _create(probe, task.id, probe.options.webhook)),
        (ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "check", tenant=probe.tenant)),
        (ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id, tenant=probe.tenant)),
        (ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "check", tenant=probe.tenant)),
    ]
    for operation, request in calls:
        if probe.version in operation.methods:
            error = await probe.refusal(operation, request)
            expect(probe, error, PushNotificationNotSupportedError, what=operation.name)
    return "All of them are refused"


async def _registered(probe: Probe, task_id: str) -> PushConfig:
    try:
        config: PushConfig = await probe.call(
            ops.CREATE_PUSH_CONFIG, _create(probe, task_id, probe.options.webhook, f"check-{uuid4()}")
        )
    except (InvalidParamsError, InvalidRequestError) as error:
        raise Undecided(f"the server does not take the webhook {probe.options.webhook}: {error}") from error
    return config


@CASES.case("Webhooks are kept, listed and deleted", v1_0="G1.33", v0_3="G2.5")
async def kept(probe: Probe) -> str:
    _pushes(probe)
    task = await probe.finished()
    first, second = await _registered(probe, task.id), await _registered(probe, task.id)
    if not first.id or not second.id or first.id == second.id:
        raise Broken(f"two webhooks came back with the ids {first.id!r} and {second.id!r}")
    read = await probe.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, first.id, tenant=probe.tenant))
    if (read.id, read.url) != (first.id, probe.options.webhook):
        raise Broken(f"the webhook reads as {read.id}, {read.url}")
    page = await probe.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id, tenant=probe.tenant))
    listed = {config.id for config in page.configs}
    for config in (first, second):
        request = r.DeletePushConfigRequest(task.id, config.id or "", tenant=probe.tenant)
        await probe.call(ops.DELETE_PUSH_CONFIG, request)
    if not {first.id, second.id} <= listed and not page.next_page_token:
        raise Broken("the list lacks a webhook")
    return "Two webhooks were registered, read, listed and deleted"


@CASES.case("Deleting is idempotent, and what is deleted is gone", v1_0="G1.34")
async def deleted(probe: Probe) -> str:
    _pushes(probe)
    task = await probe.finished()
    config = await _registered(probe, task.id)
    request = r.DeletePushConfigRequest(task.id, config.id or "", tenant=probe.tenant)
    await probe.call(ops.DELETE_PUSH_CONFIG, request)
    again = await probe.refusal(ops.DELETE_PUSH_CONFIG, request)
    if again is not None:
        raise Broken(f"deleting a second time is answered with {type(again).__name__}")
    read = r.GetPushConfigRequest(task.id, config.id, tenant=probe.tenant)
    error = await probe.refusal(ops.GET_PUSH_CONFIG, read)
    return expect(probe, error, TaskNotFoundError, what="Reading a deleted webhook")


@CASES.case("An unknown task has no webhooks", v1_0="G1.34", v0_3="G2.18", v0_1="A1.7")
async def unknown_task(probe: Probe) -> str:
    _pushes(probe)
    error = await probe.refusal(ops.CREATE_PUSH_CONFIG, _create(probe, absent(), probe.options.webhook))
    if isinstance(error, InvalidParamsError | InvalidRequestError):
        raise Undecided(f"the server does not take the webhook {probe.options.webhook}: {error}")
    return expect(probe, error, TaskNotFoundError, what="A webhook for an unknown task")


@CASES.case("Webhooks at private addresses are refused", v1_0="G1.36", v0_3="G2.20")
async def private(probe: Probe) -> str:
    _pushes(probe)
    task = await probe.finished()
    try:
        config: PushConfig = await probe.call(ops.CREATE_PUSH_CONFIG, _create(probe, task.id, METADATA_SERVICE))
    except A2AError as error:
        what = "A webhook at a link-local address"
        return expect(probe, error, InvalidParamsError, what=what, must=False, any_error=True)
    if config.id and probe.version is not Version.V0_1:
        request = r.DeletePushConfigRequest(task.id, config.id, tenant=probe.tenant)
        await probe.refusal(ops.DELETE_PUSH_CONFIG, request)
        probe.recorder.exchanges.pop()  # the evidence is what was said before
    raise Broken(f"the webhook {METADATA_SERVICE} is taken", must=False)
