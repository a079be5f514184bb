"""Cases about push notifications. Webhooks are registered for tasks where nothing happens, so none is called."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

from parley.check.cases.case import Cases
from parley.check.cases.expectations import INCONCLUSIVE, INVALID, describe, expect
from parley.check.cases.reading import need_agent
from parley.check.endpoints.probe import Probe, unknown_id
from parley.check.findings import Broken, Undecided
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    ParleyError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.lifecycle import is_interrupted, is_terminal
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task

CASES = Cases()
METADATA_SERVICE = "http://169.254.169.254/parley-check"
"""The metadata service of clouds, which every server must refuse to call."""


def _pushes(probe: Probe) -> None:
    if not probe.card.capabilities.push_notifications:
        raise Undecided("the card declares no push notifications")


@CASES.case("An agent without push notifications refuses them", v1_0="G1.32", v0_3="G2.5b", v0_1="A1.2b")
async def refused(probe: Probe) -> str:
    if probe.card.capabilities.push_notifications:
        raise Undecided("the card declares push notifications")
    task = await probe.samples.task()
    calls: list[tuple[Operation, r.Request]] = [
        (ops.CREATE_PUSH_CONFIG, r.CreatePushConfigRequest(task.id, PushConfig(probe.options.webhook))),
        (ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, "check")),
        (ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id)),
        (ops.DELETE_PUSH_CONFIG, r.DeletePushConfigRequest(task.id, "check")),
    ]
    for operation, request in calls:
        if probe.version in operation.methods:
            error = await probe.refusal(operation, request)
            expect(probe, error, PushNotificationNotSupportedError, what=operation.name)
    return "All of them are refused"


async def _quiet_task(probe: Probe) -> Task:
    """A task whose webhooks are not called: one that waits for its caller, else one that has ended."""
    task = await probe.samples.task()
    return task if is_interrupted(task.status.state) else await probe.samples.finished()


async def _registered(probe: Probe, task: Task) -> PushConfig:
    request = r.CreatePushConfigRequest(task.id, PushConfig(probe.options.webhook, id=f"check-{uuid4()}"))
    try:
        return await probe.call(ops.CREATE_PUSH_CONFIG, request)
    except PushNotificationNotSupportedError as error:
        raise Broken(
            f"the card declares push notifications, and a webhook is answered with {describe(error)}"
        ) from error
    except (*INVALID, UnsupportedOperationError, TaskNotFoundError) as error:
        reason = f"the server does not accept the webhook {probe.options.webhook}"
        raise Undecided(f"{reason} at a task that is {task.status.state}: {describe(error)}") from error


def _deletion(task: Task, config: PushConfig) -> r.DeletePushConfigRequest:
    return r.DeletePushConfigRequest(task.id, config.id or task.id)


@asynccontextmanager
async def _deleting_afterwards(probe: Probe, task: Task) -> AsyncGenerator[list[PushConfig]]:
    """A list of webhooks that are deleted in the end; the deletions are not part of the evidence."""
    configs: list[PushConfig] = []
    try:
        yield configs
    finally:
        evidence = len(probe.recorder.exchanges)
        for config in configs:
            with suppress(ParleyError):
                await probe.call(ops.DELETE_PUSH_CONFIG, _deletion(task, config))
        del probe.recorder.exchanges[evidence:]


def _missing(task: Task, what: str) -> ParleyError:
    """The verdict on a webhook that is gone: it must be kept until its task ends, and no longer."""
    if is_terminal(task.status.state):
        return Undecided(f"{what}; perhaps because the task is {task.status.state}")
    return Broken(what)


@CASES.case("Webhooks are kept, listed and deleted", v1_0="G1.33", v0_3="G2.5b")
async def kept(probe: Probe) -> str:
    _pushes(probe)
    task = await _quiet_task(probe)
    async with _deleting_afterwards(probe, task) as left:
        left += [await _registered(probe, task), await _registered(probe, task)]
        first, second = left
        if not first.id or not second.id or first.id == second.id:
            raise Broken(f"two webhooks came back with the ids {first.id!r} and {second.id!r}")
        try:
            read = await probe.call(ops.GET_PUSH_CONFIG, r.GetPushConfigRequest(task.id, first.id))
        except TaskNotFoundError as error:
            raise _missing(task, "a webhook that was registered cannot be read") from error
        if (read.id, read.url) != (first.id, probe.options.webhook):
            raise Broken(f"the webhook reads as {read.id}, {read.url}")
        page = await probe.call(ops.LIST_PUSH_CONFIGS, r.ListPushConfigsRequest(task.id))
        listed = {config.id for config in page.configs}
        if not {first.id, second.id} <= listed and not page.next_page_token:
            raise _missing(task, "the list lacks a webhook")
        while left:
            await probe.call(ops.DELETE_PUSH_CONFIG, _deletion(task, left[-1]))
            left.pop()
    return "Two webhooks were registered, read, listed and deleted"


@CASES.case("Deleting a webhook is idempotent, and removes it", v1_0="G1.34b")
async def deleted(probe: Probe) -> str:
    _pushes(probe)
    task = await _quiet_task(probe)
    config = await _registered(probe, task)
    await probe.call(ops.DELETE_PUSH_CONFIG, _deletion(task, config))
    again = await probe.refusal(ops.DELETE_PUSH_CONFIG, _deletion(task, config))
    if isinstance(again, INCONCLUSIVE):
        raise Undecided(f"deleting a second time is answered with {describe(again)}") from again
    if again is not None:
        raise Broken(f"deleting a second time is answered with {describe(again)}")
    read = r.GetPushConfigRequest(task.id, config.id)
    error = await probe.refusal(ops.GET_PUSH_CONFIG, read)
    return expect(probe, error, TaskNotFoundError, what="Reading a deleted webhook", clause="G1.34a")


@CASES.case("A missing webhook is not found", v1_0="G1.34a")
async def missing(probe: Probe) -> str:
    _pushes(probe)
    await need_agent(probe)
    request = r.GetPushConfigRequest(unknown_id(), "check")
    error = await probe.refusal(ops.GET_PUSH_CONFIG, request)
    return expect(probe, error, TaskNotFoundError, what="Reading a webhook of an unknown task")


@CASES.case("An unknown task has no webhooks", v0_3="G2.18", v0_1="A1.7a")
async def unknown_task(probe: Probe) -> str:
    _pushes(probe)
    await need_agent(probe)
    request = r.CreatePushConfigRequest(unknown_id(), PushConfig(probe.options.webhook))
    error = await probe.refusal(ops.CREATE_PUSH_CONFIG, request)
    if isinstance(error, INVALID):
        raise Undecided(f"the server does not accept the webhook {probe.options.webhook}: {error}")
    return expect(probe, error, TaskNotFoundError, what="A webhook for an unknown task")


@CASES.case("Webhooks at private addresses are refused", v1_0="G1.36", v0_3="G2.20d")
async def private(probe: Probe) -> str:
    _pushes(probe)
    task = await _quiet_task(probe)
    async with _deleting_afterwards(probe, task) as left:
        left.append(await _registered(probe, task))  # what follows is refused because of its address alone
        try:
            request = r.CreatePushConfigRequest(task.id, PushConfig(METADATA_SERVICE))
            left.append(await probe.call(ops.CREATE_PUSH_CONFIG, request))
        except A2AError as error:
            what = "A webhook at a link-local address"
            return expect(probe, error, InvalidParamsError, what=what, must=False, any_error=True)
        raise Broken(f"the webhook {METADATA_SERVICE} is accepted", must=False)
