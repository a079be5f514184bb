"""The scenario, played by the remote agent of Google's Agent Development Kit, in a runner with sessions in memory."""

import asyncio
import base64
import logging
import warnings

from fastapi.openapi.models import HTTPBearer
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, HttpAuth, HttpCredentials
from google.adk.runners import InMemoryRunner
from google.genai import types
from steps import play, settings


class Client:
    lacks = ("card", "data", "long_running", "cancel")

    def __init__(self, url, *, guarded=None, token=None):
        self.url, self.guarded, self.token = url, guarded, token

    def known(self):
        return Client(self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return Client(self.guarded[0])

    def runner(self):
        credentials = {}
        if self.token:
            bearer = HttpAuth(scheme="bearer", credentials=HttpCredentials(token=self.token))
            credential = AuthCredential(auth_type=AuthCredentialTypes.HTTP, http=bearer)
            credentials = {"auth_scheme": HTTPBearer(), "auth_credential": credential}
        card = f"{self.url}/.well-known/agent-card.json"
        return InMemoryRunner(RemoteA2aAgent("scenario", card, **credentials), app_name="interop")

    async def events(self, runner, session, message, **options):
        content = types.Content(role="user", parts=[part(value) for value in message])
        return [
            event
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=content, **options)
        ]

    async def converse(self, *messages):
        runner = self.runner()
        session = await runner.session_service.create_session(app_name="interop", user_id="u")
        return [seen(await self.events(runner, session, message)) for message in messages]

    async def stream(self, message):
        runner = self.runner()
        session = await runner.session_service.create_session(app_name="interop", user_id="u")
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        events = await self.events(runner, session, message, run_config=config)
        return {"pieces": [[text_of(event), bool(event.partial)] for event in events if text_of(event)]}


def part(value):
    if "text" in value:
        return types.Part(text=value["text"])
    if "raw" in value:
        blob = types.Blob(data=base64.b64decode(value["raw"]), mime_type=value["type"], display_name=value["name"])
        return types.Part(inline_data=blob)
    return types.Part(
        file_data=types.FileData(file_uri=value["url"], mime_type=value["type"], display_name=value["name"])
    )


def text_of(event):
    parts = event.content.parts or [] if event.content else []
    return "".join(part.text or "" for part in parts if not part.thought)


def seen(events):
    """The text of the whole answer, and what else the events hold."""
    whole = [event for event in events if not event.partial]
    shown = {"text": "".join(map(text_of, whole))}
    parts = [part for event in whole if event.content for part in event.content.parts or []]
    if blobs := [part.inline_data for part in parts if part.inline_data]:
        shown["raw"] = [[base64.b64encode(blob.data).decode(), blob.display_name, blob.mime_type] for blob in blobs]
    if links := [part.file_data for part in parts if part.file_data]:
        shown["url"] = [[link.file_uri, link.display_name, link.mime_type] for link in links]
    if calls := [part.function_call for part in parts if part.function_call]:
        shown["calls"] = [[call.name, call.args] for call in calls]
    if errors := [event.error_message for event in events if event.error_message]:
        shown["errors"] = [error.splitlines()[0] for error in errors]
    return shown


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    given = settings()
    asyncio.run(play(Client(given["url"], guarded=(given["guarded_url"], given["token"]))))
