"""Calls of hosted agents over JSON-RPC, in the documented methods and in those of real 1.0."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
import msgspec

from parley.wire.sse import Decoder

_numbers = count(1)


def path_of(agent: str) -> str:
    return f"/v1/a2a/agents/{agent}"


def documented_message(text: str, **members: Any) -> dict[str, Any]:
    """The params of a documented send."""
    part = {"kind": "text", "text": text}
    return {"message": {"role": "user", "messageId": f"m-{next(_numbers)}", "parts": [part], **members}}


def message(text: str, **members: Any) -> dict[str, Any]:
    """The params of a send of 1.0."""
    return {"message": {"role": "ROLE_USER", "messageId": f"m-{next(_numbers)}", "parts": [{"text": text}], **members}}


def request(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def call(client: httpx2.AsyncClient, method: str, params: dict[str, Any], *, agent: str = "index") -> Any:
    """The body of the reply."""
    return (await client.post(path_of(agent), json=request(method, params))).json()


async def result(client: httpx2.AsyncClient, method: str, params: dict[str, Any], *, agent: str = "index") -> Any:
    """The result of a call that succeeds."""
    reply = await call(client, method, params, agent=agent)
    assert "result" in reply, reply
    return reply["result"]


async def streamed(
    client: httpx2.AsyncClient, method: str, params: dict[str, Any], *, agent: str = "index"
) -> list[dict[str, Any]]:
    """The results in the frames of a stream."""
    found: list[dict[str, Any]] = []
    async with client.stream("POST", path_of(agent), json=request(method, params)) as reply:
        decoder = Decoder()
        async for chunk in reply.aiter_bytes():
            found += [msgspec.json.decode(frame.data) for frame in decoder.feed(chunk)]
    assert all("result" in frame for frame in found), found
    return [frame["result"] for frame in found]
