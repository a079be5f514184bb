"""Agents of google-adk: a run is resumed from its events, so finished model and tool calls are not repeated.

Every run has a session of its own, made of the events of the conversation and of the task. ADK resumes an invocation
wherever a tool was called or has returned, and where a workflow agent has gone on to its next part: these are the
checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from google.adk.agents.run_config import RunConfig, StreamingMode, ToolThreadPoolConfig
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.artifacts import BaseArtifactService
from google.adk.events.event import Event
from google.adk.memory import BaseMemoryService
from google.adk.runners import Runner
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import BaseNode

from parley.adapters import adapter as a
from parley.adapters.agent_as_tool import AgentAsTool
from parley.adapters.durable_run import agent_of
from parley.adapters.google_adk.events import Narration
from parley.adapters.google_adk.nodes import ResumePoints, is_resumable, nodes_of, skills_of
from parley.adapters.google_adk.parts import content_of, part_of
from parley.adapters.google_adk.questions import answers_of, open_calls, question_of
from parley.adapters.google_adk.session import RecordedSession
from parley.agents.agent import Agent


def adapt(
    thing: BaseNode | App,
    *,
    run_config: RunConfig | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
    **settings: Any,
) -> Agent:
    """An agent that runs one of google-adk. Without an artifact service, files are recorded with the events."""
    services = {"artifact_service": artifact_service, "memory_service": memory_service}
    return agent_of(GoogleADKAdapter(thing, run_config, **services), **settings)


def remote_tool(target: str, **options: Any) -> FunctionTool:
    """A remote A2A agent as a tool: `LlmAgent(…, tools=[remote_tool("https://…")])`. `options`: see `AgentAsTool`."""
    remote = AgentAsTool(target, **options)
    tool = FunctionTool(remote.ask)
    tool.name, tool.description = remote.tool_name, remote.description
    return tool


class GoogleADKAdapter:
    """One agent, workflow or app of google-adk."""

    def __init__(self, thing: BaseNode | App, run_config: RunConfig | None = None, **services: Any) -> None:
        self._app = thing if isinstance(thing, App) else App(name="parley", root_agent=thing)
        self._name = thing.name
        self._root: Any = self._app.root_agent
        self._nodes = list(nodes_of(self._root))
        resumability = self._app.resumability_config
        if resumability is None:
            with warnings.catch_warnings(action="ignore"):  # it says that it is experimental
                always = ResumabilityConfig(is_resumable=True)
            self._app = self._app.model_copy(update={"resumability_config": always})
        self._has_checkpoints = resumability.is_resumable if resumability else all(map(is_resumable, self._nodes))
        # ADK calls plain functions on the event loop otherwise, where one that blocks would block all tasks.
        in_threads = ToolThreadPoolConfig(max_workers=32)
        self._config = run_config or RunConfig(streaming_mode=StreamingMode.SSE, tool_thread_pool_config=in_threads)
        self._services = services

    def describe(self) -> a.Description:
        """Its name and description; its tools and sub-agents are its skills."""
        description, skills = self._root.description, skills_of(self._root)
        return a.Description(name=self._name, description=description, skills=skills)

    async def run(self, start: a.Start) -> AsyncIterator[a.Piece]:
        """Run it with the message, with answers, or from the last checkpoint."""
        session = await RecordedSession.of(start, app=self._app.name)
        artifacts: BaseArtifactService = self._services.get("artifact_service") or session.artifacts
        narration, resume_points = Narration(self._nodes, session.task_events), ResumePoints(self._nodes)
        services = {**self._services, "session_service": session.sessions, "artifact_service": artifacts}
        if start.states:
            answers = answers_of(start, session.task_events)
            for event in answers[:-1]:
                await session.append(event)
            message = answers[-1].content if answers else None
        else:
            message = await content_of(start.turn)
        invocation_id = None if message else session.task_events[-1].invocation_id
        events = Runner(app=self._app, **services).run_async(
            **session.user_key, invocation_id=invocation_id, new_message=message, run_config=self._config
        )
        failure: Event | None = None
        async with aclosing(events):
            async for event in events:
                for piece in narration.pieces(event):
                    yield piece
                for name, version in event.actions.artifact_delta.items():
                    if file := await artifacts.load_artifact(**session.key, filename=name, version=version):
                        yield a.Output((part_of(file, name),), artifact=name)
                if self._has_checkpoints and resume_points.include(event) and not narration.is_mid_text:
                    narration.begin_segment()
                    yield a.Checkpoint(session.take_new())
                if event.content or event.error_code:
                    failure = None if event.content else event
        if failure is not None:  # of a model; other errors are raised
            raise RuntimeError(f"{failure.author} failed: {failure.error_code}: {failure.error_message}")
        if rest := narration.rest():
            yield rest
        if asked := open_calls(session.task_events):
            questions = [question_of(call, session.task_events) for call in asked.values()]
            yield a.Pause(tuple(questions), session.take_new())
        else:
            yield a.End(session.conversation(), session.usage())
