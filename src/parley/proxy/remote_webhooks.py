"""Forwards the operations on webhooks to the agent, which calls the webhooks itself, in its own version.

What its version lacks is provided here: an id for the only webhook of a task in 0.1, a list of it, and a search for a
webhook that was registered without an id.
"""

from __future__ import annotations

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.webhooks.configs import DEFAULT_ID
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import InternalError, PeerProtocolError, TaskNotFoundError
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.proxy.id_mapping import IdMapping
from parley.proxy.upstream import Upstream


class RemoteWebhooks:
    """The operations on webhooks, forwarded to the agent."""

    def __init__(self, upstream: Upstream, ids: IdMapping) -> None:
        self._upstream = upstream
        self._ids = ids

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook at the agent."""
        with self._upstream.working():
            forwarded = self._ids.for_task(request, caller)
            config = structs.replace(forwarded.config, task_id=forwarded.task_id)
            answer = await self._upstream.client.create_push_config(structs.replace(forwarded, config=config))
            return _shown(answer, request.task_id)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook. One without an id is searched for if the agent's version requires an id."""
        with self._upstream.working():
            forwarded = self._ids.for_task(request, caller)
            if request.id in (None, DEFAULT_ID) and self._upstream.version is Version.V1_0:
                found = await self._find_default(forwarded)
                if found is None:
                    raise _no_webhook(forwarded)
            else:
                found = await self._get(forwarded)
            return _shown(found, request.task_id)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """List all webhooks of a task."""
        with self._upstream.working():
            forwarded = self._ids.for_task(request, caller)
            if self._upstream.version in ops.LIST_PUSH_CONFIGS.methods:
                page = await self._upstream.client.list_push_configs(forwarded)
            else:
                page = r.PushConfigPage(await self._only_one(forwarded))
            configs = tuple(_shown(config, request.task_id) for config in page.configs)
            return structs.replace(page, configs=configs)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove the webhook that `get_push_config` shows."""
        with self._upstream.working():
            forwarded = self._ids.for_task(request, caller)
            if request.id == DEFAULT_ID and self._upstream.version is Version.V1_0:
                found = await self._find_default(forwarded)
                if found is None:
                    return
                forwarded = structs.replace(forwarded, id=found.id or forwarded.id)
            await self._upstream.client.delete_push_config(forwarded)

    async def _get(self, forwarded: r.GetPushConfigRequest) -> PushConfig:
        client = self._upstream.client
        if self._upstream.version is Version.V0_1:
            for config in await self._only_one(r.ListPushConfigsRequest(forwarded.task_id, tenant=forwarded.tenant)):
                return config
            raise _no_webhook(forwarded)
        try:
            return await client.get_push_config(forwarded)
        except InternalError as error:
            # The answer of a2a-sdk 0.3 for an unknown webhook.
            listing = r.ListPushConfigsRequest(forwarded.task_id, tenant=forwarded.tenant)
            if any(config.id == forwarded.id for config in (await client.list_push_configs(listing)).configs):
                raise
            raise _no_webhook(forwarded) from error

    async def _only_one(self, forwarded: r.ListPushConfigsRequest) -> tuple[PushConfig, ...]:
        """The webhook of a task at an agent of 0.1, if there is one; the agent may answer with null if not."""
        try:
            wanted = r.GetPushConfigRequest(forwarded.task_id, tenant=forwarded.tenant)
            return (await self._upstream.client.get_push_config(wanted),)
        except (TaskNotFoundError, PeerProtocolError):
            await self._upstream.read(forwarded.task_id, forwarded.tenant)  # raises if there is no such task
            return ()

    async def _find_default(self, forwarded: r.GetPushConfigRequest | r.DeletePushConfigRequest) -> PushConfig | None:
        """The webhook with the id `default` or without an id; otherwise the only one, whatever its id."""
        listing = r.ListPushConfigsRequest(forwarded.task_id, tenant=forwarded.tenant)
        configs = (await self._upstream.client.list_push_configs(listing)).configs
        by_id = {config.id: config for config in configs}
        for config_id in (DEFAULT_ID, forwarded.task_id, None):
            if config_id in by_id:
                return by_id[config_id]
        return configs[0] if len(configs) == 1 else None


def _shown(config: PushConfig, name: str) -> PushConfig:
    """A webhook with the caller's name of the task. If it has no id, it gets that of the task."""
    return structs.replace(config, task_id=name, id=config.id or name)


def _no_webhook(forwarded: r.GetPushConfigRequest) -> TaskNotFoundError:
    wanted = forwarded.id or DEFAULT_ID
    return TaskNotFoundError(f"The task has no webhook {wanted!r}", details={"taskId": forwarded.task_id})
