"""The measured client of a2a-sdk 1.3.0: sends, or one stream."""

import uuid

import httpx
import uvloop
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as pb
from measuring import measured, options


def request(text: str) -> pb.SendMessageRequest:
    message = pb.Message(message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    return pb.SendMessageRequest(message=message)


async def main() -> None:
    chosen = options()
    async with httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, chosen.url).get_agent_card()

        def client(*, streaming: bool):
            config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[chosen.binding])
            return ClientFactory(config).create(card, [])

        sender, streamer = client(streaming=False), client(streaming=True)

        async def send() -> None:
            [event] = [event async for event in sender.send_message(request("echo hello"))]
            assert event.task.artifacts[0].parts[0].text == "hello"

        async def stream() -> int:
            events = streamer.send_message(request(f"talk {chosen.chunks}"))
            return len([event async for event in events if event.HasField("artifact_update")])

        await measured(send, stream, chosen)


uvloop.run(main())
