"""Webhooks that are registered at the agent, which calls them itself, in its own dialect.

The proxy adds what the dialect lacks: an id for the only webhook of a task in 0.1, a list of it, and a way to find a
webhook that was registered without an id.
"""

from __future__ import annotations

from msgspec import structs

from parley.engine.caller import Caller
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import InternalError, PeerProtocolError, TaskNotFoundError
from parley.protocol.push import PushConfig
from parley.protocol.versions import Version
from parley.proxy.addressing import Addressing
from parley.proxy.upstream import Upstream

DEFAULT_ID = "default"
"""What some peers call the webhook that was registered without an id."""


class RemoteWebhooks:
    """The operations on webhooks, done by the agent."""

    def __init__(self, upstream: Upstream, addressing: Addressing) -> None:
        self._upstream = upstream
        self._addressing = addressing

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook at the agent."""
        with self._upstream.working():
            asked = self._addressing.of_task(request, caller)
            config = structs.replace(asked.config, task_id=asked.task_id)
            answer = await self._upstream.client.create_push_config(structs.replace(asked, config=config))
            return _shown(answer, request.task_id)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook; one without an id is searched for if the agent's dialect requires an id."""
        with self._upstream.working():
            asked = self._addressing.of_task(request, caller)
            if request.id in (None, DEFAULT_ID) and self._upstream.version is Version.V1_0:
                found = await self._find_default(asked)
                if found is None:
                    raise _no_webhook(asked)
            else:
                found = await self._get(asked)
            return _shown(found, request.task_id)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """Read all webhooks of a task."""
        with self._upstream.working():
            asked = self._addressing.of_task(request, caller)
            if self._upstream.version in ops.LIST_PUSH_CONFIGS.methods:
                page = await self._upstream.client.list_push_configs(asked)
            else:
                page = r.PushConfigPage(await self._only_one(asked))
            configs = tuple(_shown(config, request.task_id) for config in page.configs)
            return structs.replace(page, configs=configs)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove the webhook that `get_push_config` shows."""
        with self._upstream.working():
            asked = self._addressing.of_task(request, caller)
            if request.id == DEFAULT_ID and self._upstream.version is Version.V1_0:
                found = await self._find_default(asked)
                if found is None:
                    return
                asked = structs.replace(asked, id=found.id or asked.id)
            await self._upstream.client.delete_push_config(asked)

    async def _get(self, asked: r.GetPushConfigRequest) -> PushConfig:
        client = self._upstream.client
        if self._upstream.version is Version.V0_1:
            for config in await self._only_one(r.ListPushConfigsRequest(asked.task_id, tenant=asked.tenant)):
                return config
            raise _no_webhook(asked)
        try:
            return await client.get_push_config(asked)
        except InternalError as error:
            # a2a-sdk 0.3 answers this for a webhook that does not exist.
            listing = r.ListPushConfigsRequest(asked.task_id, tenant=asked.tenant)
            if any(config.id == asked.id for config in (await client.list_push_configs(listing)).configs):
                raise
            raise _no_webhook(asked) from error

    async def _only_one(self, asked: r.ListPushConfigsRequest) -> tuple[PushConfig, ...]:
        """The webhook of a task at an agent of 0.1, if there is one; its document answers with null if not."""
        try:
            wanted = r.GetPushConfigRequest(asked.task_id, tenant=asked.tenant)
            return (await self._upstream.client.get_push_config(wanted),)
        except (TaskNotFoundError, PeerProtocolError):
            await self._upstream.read(asked.task_id, asked.tenant)  # raises if there is no such task
            return ()

    async def _find_default(self, asked: r.GetPushConfigRequest | r.DeletePushConfigRequest) -> PushConfig | None:
        """The webhook that has the id `default` or none; else the only one, whatever id the agent has given it."""
        listing = r.ListPushConfigsRequest(asked.task_id, tenant=asked.tenant)
        configs = (await self._upstream.client.list_push_configs(listing)).configs
        by_id = {config.id: config for config in configs}
        for config_id in (DEFAULT_ID, asked.task_id, None):
            if config_id in by_id:
                return by_id[config_id]
        return configs[0] if len(configs) == 1 else None


def _shown(config: PushConfig, name: str) -> PushConfig:
    """A webhook as the caller gets it, with its name for the task, and the task's id if it has none."""
    return structs.replace(config, task_id=name, id=config.id or name)


def _no_webhook(asked: r.GetPushConfigRequest) -> TaskNotFoundError:
    return TaskNotFoundError(f"The task has no webhook {asked.id or DEFAULT_ID!r}", details={"taskId": asked.task_id})
