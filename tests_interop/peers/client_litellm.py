"""The scenario, played by LiteLLM: its A2A client, and `acompletion` with a model that is an agent."""

import asyncio
import logging
import os
import uuid
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads its price list when it is imported

import litellm
from a2a.compat.v0_3.types import MessageSendParams, SendMessageRequest, SendStreamingMessageRequest
from litellm.a2a_protocol import A2AClient, aget_agent_card, asend_message_streaming
from steps import play, settings


class Client:
    lacks = ("long_running", "cancel")

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = url, guarded, token

    def known(self):
        return Client(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0])

    def client(self):
        return A2AClient(self.url, extra_headers={"authorization": f"Bearer {self.token}"} if self.token else None)

    async def card(self):
        card = await aget_agent_card(self.url)
        return {"name": card.name, "version": card.version, "skills": [skill.id for skill in card.skills]}

    async def converse(self, *messages):
        client, before, replies = self.client(), {}, []
        for message in messages:
            request = SendMessageRequest(id=str(uuid.uuid4()), params=params(message, before))
            response = (await client.send_message(request)).model_dump(mode="json", exclude_none=True)
            before = response.get("result", {})
            replies.append(seen(response))
        return replies

    async def stream(self, message):
        """By the function, and by the class that wraps the same call."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else None
        function = asend_message_streaming(request=streaming(message), api_base=self.url, agent_extra_headers=headers)
        return {
            "pieces": [piece async for piece in pieces_of(function)],
            "of the class": [
                piece async for piece in pieces_of(self.client().send_message_streaming(streaming(message)))
            ],
        }


class CompletionClient(Client):
    """The same agent as a model: `acompletion(model="a2a/…")`, which shows text alone."""

    lacks = (
        "card",
        "conversation",
        "multi_turn",
        "stream",
        "whole",
        "files",
        "data",
        "endings",
        "long_running",
        "cancel",
    )

    def known(self):
        return CompletionClient(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return CompletionClient(self.guarded[0])

    async def converse(self, *messages):
        replies = []
        for message in messages:
            asked = [{"role": "user", "content": message[0]["text"]}]
            reply = await litellm.acompletion(
                model="a2a/scenario", api_base=self.url, api_key=self.token or "none", messages=asked
            )
            replies.append({"text": reply.choices[0].message.content})
        return replies


def streaming(message):
    return SendStreamingMessageRequest(id=str(uuid.uuid4()), params=params(message, {}))


async def pieces_of(chunks):
    async for chunk in chunks:
        result = chunk.model_dump(mode="json", exclude_none=True)["result"]
        if result["kind"] == "artifact-update":
            yield "".join(part["text"] for part in result["artifact"]["parts"])


def params(message, before):
    sent = {"role": "user", "messageId": uuid.uuid4().hex, "parts": [part(one) for one in message]}
    if before:
        sent["contextId"] = before["contextId"]
    if before.get("status", {}).get("state") == "input-required":
        sent["taskId"] = before["id"]
    return MessageSendParams(message=sent)


def part(value):
    if "text" in value:
        return {"kind": "text", "text": value["text"]}
    if "data" in value:
        return {"kind": "data", "data": value["data"]}
    where = {"bytes": value["raw"]} if "raw" in value else {"uri": value["url"]}
    return {"kind": "file", "file": {**where, "name": value["name"], "mimeType": value["type"]}}


def seen(response):
    if "error" in response:
        return {"error": response["error"]}
    task = response["result"]
    parts = [part for artifact in task.get("artifacts") or [] for part in artifact["parts"]]
    said = (task["status"].get("message") or {}).get("parts") or []
    shown = {"text": "".join(part.get("text", "") for part in [*parts, *said]), "state": task["status"]["state"]}
    if others := [part for part in parts if part["kind"] != "text"]:
        shown["parts"] = others
    return shown


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    litellm.suppress_debug_info = True
    given = settings()
    player = CompletionClient if given.get("how") == "completion" else Client
    asyncio.run(play(player(given["url"], guarded=(given["guarded_url"], given["token"]))))
