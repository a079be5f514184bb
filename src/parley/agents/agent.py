"""An agent: a name, skills, and functions that do the work. It is the program that an engine runs, and knows its card.

    agent = Agent("Echo", description="Says what you say.")

    @agent.on_message
    async def echo(turn):
        return turn.text

Which function gets a message is decided in `skills`. An answer goes where the message went that began its task.
"""

from __future__ import annotations

import inspect
import logging
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from parley.agents.authorization import AuthorizationRefusedError, CredentialNeeded
from parley.agents.delegation.delegation import Delegations, cancel_open
from parley.agents.durations import parse_duration
from parley.agents.handlers import Handler
from parley.agents.replies import end_with, reply_with_all
from parley.agents.skills import Skill, Skills
from parley.agents.streams import StreamedContent, UnusedContents, warn_of
from parley.agents.turn import RESPONSE, Turn
from parley.contents import parts_of
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.engine.program import OnDivergence, Recovery
from parley.engine.runs.journal import Journal
from parley.engine.runs.run import Run
from parley.protocol.cards import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentProvider,
    AgentSkill,
)
from parley.protocol.messages import Message, TextPart
from parley.protocol.negotiation import accepts_part, check_input_modes
from parley.protocol.tasks import Artifact, TaskState
from parley.stores.interface import TaskKey

if TYPE_CHECKING:
    from parley.agents.handlers import HandlerFunction

H = TypeVar("H", bound="HandlerFunction")

logger = logging.getLogger(__name__)


class Agent:
    """What an author writes."""

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        version: str = "1.0.0",
        input_modes: Sequence[str] = ("text/plain", "application/json", "*/*"),
        output_modes: Sequence[str] = ("text/plain",),
        provider: AgentProvider | None = None,
        documentation_url: str | None = None,
        icon_url: str | None = None,
        on_restart: Recovery | Literal["rerun", "fail"] = Recovery.RERUN,
        run_attempts: int = 3,
        on_divergence: OnDivergence | Literal["replace", "fail"] = OnDivergence.REPLACE,
        replies_directly: bool = False,
        streaming: bool = True,
        extensions: Sequence[AgentExtension] = (),
        retention: timedelta | str | None = None,
        id: str | None = None,
    ) -> None:
        """An agent without skills yet.

        `on_restart` says what becomes of work that a crash cut off: `"rerun"` from the top, or `"fail"`. Work that has
        crashed `run_attempts` times in a row without making progress is failed in either case.
        `on_divergence` says what becomes of a task whose handler begins again and emits something else than before: it
        replaces what was emitted before (`"replace"`), or the task fails (`"fail"`).
        `replies_directly` makes it answer with messages and keep no tasks; it can then neither ask nor stream.
        `extensions` are those of the protocol that it supports; callers must activate the required ones.
        `retention` is how long its finished tasks are kept at most: a timedelta, or `"30d"`. None: as the server says.
        """
        self.name = name
        self.id = id or _slug(name)
        self.description = description
        self.version = version
        self.input_modes = tuple(input_modes)
        self.output_modes = tuple(output_modes)
        self.provider = provider
        self.documentation_url = documentation_url
        self.icon_url = icon_url
        self.recovery = Recovery(on_restart)
        if run_attempts < 1:
            raise ValueError("An agent needs at least one run attempt")
        self.run_attempts = run_attempts
        self.on_divergence = OnDivergence(on_divergence)
        self.replies_directly = replies_directly
        self.streaming = streaming
        self.extensions = tuple(extensions)
        self.retention = _retention(retention)
        self._skills = Skills()
        self._bare_card: AgentCard | None = None
        self._takes_text = False

    @classmethod
    def of(cls, thing: object, /, *, name: str | None = None, **settings: object) -> Agent:
        """An agent of another framework as one of Parley: `agent = Agent.of(graph)`.

        `thing` is a LangGraph graph, an agent of pydantic-ai, OpenAI Agents, google-adk or Microsoft Agent Framework, a
        crew or flow of CrewAI, or an `AgentExecutor` of a2a-sdk. `settings` are those of `Agent`, and those that
        docs/adapters names for the framework. An `Agent` is returned as it is.

        Raises:
            LocalProtocolError: no adapter knows such objects.
        """
        if isinstance(thing, Agent):
            return thing
        from parley.adapters.recognition import adapt  # not above: adapters are made of agents

        return adapt(thing, name=name, **settings)

    # --- for authors --------------------------------------------------------------------------------------------------

    @overload
    def on_message(self, handler: H, /) -> H: ...

    @overload
    def on_message(self, handler: None = None, /, *, may_reply: bool | None = None) -> Callable[[H], H]: ...

    def on_message(self, handler: H | None = None, /, *, may_reply: bool | None = None) -> H | Callable[[H], H]:
        """Give every message to this function that is not for a skill.

        `may_reply` says whether it may answer without a task, with `turn.reply`. By default that is known by looking at
        whether its code calls `reply`.

        Raises:
            ValueError: another function gets these messages already.
        """

        def add(handler: H) -> H:
            if self._skills.on_message is not None:
                name = self._skills.on_message.name
                raise ValueError(f"The agent {self.name!r} has an on_message handler already: {name}")
            self._skills.set_on_message(Handler(handler, may_reply=may_reply))
            return handler

        return add if handler is None else add(handler)

    @overload
    def skill(self, handler: H, /) -> H: ...

    @overload
    def skill(
        self,
        handler: None = None,
        /,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        input_modes: Sequence[str] = (),
        output_modes: Sequence[str] = (),
        scopes: Sequence[str] = (),
        public: bool = True,
        default: bool = False,
        may_reply: bool | None = None,
    ) -> Callable[[H], H]: ...

    def skill(
        self,
        handler: H | None = None,
        /,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        input_modes: Sequence[str] = (),
        output_modes: Sequence[str] = (),
        scopes: Sequence[str] = (),
        public: bool = True,
        default: bool = False,
        may_reply: bool | None = None,
    ) -> H | Callable[[H], H]:
        """Make a function a skill. Its name and docstring describe it, unless you pass others.

        Callers need all of its `scopes`. A skill that is not `public` is only in the extended card. The `default` skill
        gets all messages that name none, if there is no `on_message` handler. `may_reply` is as for `on_message`.

        Raises:
            ValueError: the agent has another skill with this id, or another default.
        """

        def add(handler: H) -> H:
            words = handler.__name__.replace("_", " ")
            skill = AgentSkill(
                id=id or handler.__name__,
                name=name or words.capitalize(),
                description=description or inspect.getdoc(handler) or words.capitalize(),
                tags=tuple(tags),
                examples=tuple(examples),
                input_modes=tuple(input_modes),
                output_modes=tuple(output_modes),
            )
            try:
                self._skills.add(
                    Skill(skill, Handler(handler, may_reply=may_reply), tuple(scopes), public), is_default=default
                )
            except ValueError as exc:
                raise ValueError(f"The agent {self.name!r} has {exc} already") from None
            self._bare_card = None
            return handler

        return add if handler is None else add(handler)

    def check(self) -> None:
        """Check that the agent has a handler, before it is served; warn if its callers may be asked for a skill.

        Raises:
            ValueError: the agent has no handler.
        """
        if self._skills.on_message is None and not self._skills.by_id:
            raise ValueError(
                f"The agent {self.name!r} has no handler: put @agent.on_message or @agent.skill before a function"
            )
        if self._skills.are_ambiguous:
            logger.warning(
                "The agent %r has several skills, but no default: a message that names none and clearly fits none is "
                "answered with a question. Declare @agent.skill(default=True) or @agent.on_message to avoid that.",
                self.name,
            )

    @property
    def skill_scopes(self) -> dict[str, tuple[str, ...]]:
        """The scopes that each skill demands of its callers, by the skill's id."""
        return {id: skill.scopes for id, skill in self._skills.by_id.items()}

    @property
    def has_private_skills(self) -> bool:
        """Whether an extended card would show more than the public one."""
        return not all(skill.is_public for skill in self._skills.by_id.values())

    def card(
        self,
        *interfaces: AgentInterface,
        push_notifications: bool = False,
        extended_card: bool = False,
        everything: bool = False,
    ) -> AgentCard:
        """The agent's card, with capabilities that are really there.

        `extended_card` says that there is one; `everything` makes this it, with the skills that are not public.
        """
        shown = tuple(skill.card for skill in self._skills.by_id.values() if skill.is_public or everything)
        return AgentCard(
            name=self.name,
            description=self.description,
            version=self.version,
            interfaces=interfaces,
            capabilities=AgentCapabilities(
                streaming=self.streaming,
                push_notifications=push_notifications,
                extended_card=extended_card or None,
                state_transition_history=True,
                extensions=self.extensions,
            ),
            skills=shown or (self._whole_skill(),),
            default_input_modes=self.input_modes,
            default_output_modes=self.output_modes,
            provider=self.provider,
            documentation_url=self.documentation_url,
            icon_url=self.icon_url,
        )

    def _whole_skill(self) -> AgentSkill:
        """The skill of an agent that declares none. Every card needs one."""
        return AgentSkill(self.id, self.name, self.description or self.name, tags=(self.id,))

    # --- for engines --------------------------------------------------------------------------------------------------

    def admit(self, message: Message, caller: Caller) -> None:
        """Refuse messages with media types that the card does not list, for unknown skills, or without the scopes.

        Raises:
            ContentTypeNotSupportedError, InvalidParamsError: the agent does not take such messages.
            PermissionDeniedError: the caller lacks a scope that the skill demands.
        """
        self._check_modes(message)
        if message.task_id is None:
            self._skills.admit(message, caller, can_ask=not self.replies_directly)

    def admit_to_task(self, journal: Journal, caller: Caller) -> None:
        """Refuse messages to a task from callers that lack the scopes of its skill. Raises as `admit`."""
        self._skills.admit_to_task(journal, caller)

    def admit_answer(self, journal: Journal, caller: Caller) -> None:
        """Accept any message: a handler reads the answer, and asks again if it must."""

    def admit_while_running(self, message: Message, caller: Caller) -> None:
        """Accept any message: a handler finds it in `turn.history`."""

    @property
    def waits_for_turn(self) -> bool:
        """Never: its runs begin when the engine starts them."""
        return False

    def check_room(self, message: Message, caller: Caller) -> None:
        """Accept any load: the engine limits the runs of an agent."""

    def may_reply(self, message: Message, caller: Caller) -> bool:
        """Whether the function for a message may answer with a message instead of a task."""
        return self._skills.may_reply(message, caller)

    def _check_modes(self, message: Message) -> None:
        if self._bare_card is None:
            self._bare_card = self.card(everything=True)
            self._takes_text = accepts_part(self.input_modes, TextPart(""))
        # Nearly all messages are plain text and need no look at the card.
        for part in message.parts:
            if not (self._takes_text and type(part) is TextPart and not part.media_type):
                check_input_modes(message, self._bare_card)
                return

    async def run(self, run: Run) -> None:
        """Give the message to its function and make artifacts of what comes back."""

        def name_lines_of(handler_frame: Callable[[], FrameType | None]) -> None:
            run.emissions.handler_frame = handler_frame

        unused: UnusedContents = {}
        delegations = Delegations(run, unused)
        try:
            handler = await self._skills.handler_for(run)
            turn = Turn(run, delegations, unused)
            if self.replies_directly:
                await reply_with_all(run, partial(handler.handle, turn))
            await handler.handle(turn, partial(_say, run), name_lines_of)
            warn_of(unused, run)
        except CredentialNeeded as needed:
            await needed.ask_again()
        except AuthorizationRefusedError as error:
            await end_with(run, TaskState.FAILED, (str(error),))
        except Exception:
            warn_of(unused, run)
            raise
        finally:
            unused.clear()
            delegations.end()

    async def release(self, engine: Engine, key: TaskKey) -> None:
        """Cancel the tasks of other agents that a task has left open."""
        await cancel_open(engine, key)


async def _say(run: Run, result: Any) -> None:
    """Emit one result: an artifact as it is, a message as the last word, anything else as a chunk of the response."""
    if isinstance(result, Artifact):
        await run.emissions.emit_chunk(result, append=False, last=True)
    elif isinstance(result, Message):
        await end_with(run, TaskState.COMPLETED, (result,))
    elif isinstance(result, StreamedContent):
        await result.write_to(Artifact(RESPONSE, (), RESPONSE))
    elif parts := parts_of(result):
        await run.emissions.emit_chunk(Artifact(RESPONSE, parts, RESPONSE))


def _retention(given: timedelta | str | None) -> timedelta | None:
    if given is None:
        return None
    kept = parse_duration(given)
    if not kept:
        raise ValueError("Finished tasks of an agent are kept for a time above zero, such as '30d'")
    return kept


def _slug(name: str) -> str:
    """An id for URLs: `"Café Straße 7"` → `"cafe-strasse-7"`."""
    letters = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    return re.sub(r"[^a-z0-9]+", "-", letters.casefold()).strip("-") or "agent"
