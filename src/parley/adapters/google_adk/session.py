"""The session of one run of google-adk, made of recorded events, and what it has that is not recorded yet.

Sessions live as long as a run: nothing is shared between conversations or callers. Their user state (`user:`) and app
state (`app:`) therefore belong to the conversation, too. Files that tools save are recorded with the events.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import Field

from parley.adapters.adapter import Start
from parley.protocol.jsonvalue import JsonObject, JsonValue


class EventRecorder(InMemorySessionService):
    """The session service of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep an event, without the temporary state that ADK keeps in no session."""
        await super().append_event(session, event)
        if not event.partial:
            self.events.append(event)
        return event


class FileRecorder(InMemoryArtifactService):
    """The artifact service of a run, unless it has another one. ADK's is a pydantic model, so this is one."""

    saved: list[Any] = Field(default_factory=list[Any])
    """The names and contents of all files, oldest first."""

    async def save_artifact(self, *, filename: str, artifact: Any, **options: Any) -> int:
        """Keep a file."""
        version = await super().save_artifact(filename=filename, artifact=artifact, **options)
        self.saved.append([filename, _dump(types.Part.model_validate(artifact))])
        return version


class RecordedSession:
    """The events and files of a conversation, those of the task at hand last."""

    def __init__(self, sessions: EventRecorder, session: Session) -> None:
        self.sessions = sessions
        self.artifacts = FileRecorder()
        self.user_key: dict[str, Any] = {"user_id": session.user_id, "session_id": session.id}
        self.key = {"app_name": session.app_name, **self.user_key}
        self._session = session
        self._events_before = self._events_taken = self._files_taken = 0

    @classmethod
    async def of(cls, start: Start, *, app: str) -> RecordedSession:
        """The session as the conversation and the states of the task say."""
        caller = start.turn.caller
        # Artifact services make paths of the ids: without slashes, and with nothing in them that a caller chooses.
        user_id = quote(caller.name, safe="@ ") or "anonymous"
        session_id = str(uuid5(NAMESPACE_URL, f"{caller.tenant}\n{caller.name}\n{start.turn.context.id}"))
        sessions = EventRecorder()
        self = cls(sessions, await sessions.create_session(app_name=app, user_id=user_id, session_id=session_id))
        recorded: list[Any] = [start.conversation, *start.states]
        for number, state in enumerate(recorded):
            for event in state["events"] if state else ():
                await self.append(Event.model_validate_json(msgspec.json.encode(event)))
            for name, file in state.get("files", ()) if state else ():
                part = types.Part.model_validate_json(msgspec.json.encode(file))
                await self.artifacts.save_artifact(filename=name, artifact=part, **self.key)
            if number == 0:
                self._events_before = len(self.sessions.events)
        self.take_new()
        return self

    @property
    def task_events(self) -> list[Event]:
        """The events of the task."""
        return self.sessions.events[self._events_before :]

    async def append(self, event: Event) -> None:
        """Add an event that is not of a run: a recorded one, or an answer."""
        await self.sessions.append_event(self._session, event)

    def take_new(self) -> JsonObject:
        """What no state has yet, as the next state."""
        events, files = self.sessions.events[self._events_taken :], self.artifacts.saved[self._files_taken :]
        self._events_taken, self._files_taken = len(self.sessions.events), len(self.artifacts.saved)
        return {"events": [_dump(event) for event in events], **({"files": files} if files else {})}

    def conversation(self) -> JsonObject:
        """All of it."""
        self._events_taken = self._files_taken = 0
        return self.take_new()

    def usage(self) -> JsonObject:
        """The tokens that the models took in the task."""
        used = [event.usage_metadata for event in self.task_events if event.usage_metadata]
        return {
            "requests": len(used),
            "inputTokens": sum(one.prompt_token_count or 0 for one in used),
            "outputTokens": sum((one.candidates_token_count or 0) + (one.thoughts_token_count or 0) for one in used),
        }


def _dump(model: Event | types.Part) -> JsonValue:
    dumped = model.model_dump_json(by_alias=True, exclude_none=True, exclude_defaults=True)
    return msgspec.json.decode(dumped)
