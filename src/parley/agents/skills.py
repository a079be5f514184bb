"""Skills: which of an agent's functions gets a message.

A message goes to the skill that it names, else to the `on_message` function, else to the only skill or the default one.
Without any of these its words are compared with the names, tags and examples of the skills, and if no skill is clearly
meant, the caller is asked. Only public skills whose scopes the caller has are guessed or offered. A choice that the
message does not make itself is recorded as a step, so that a handler that begins again is the same one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from parley.agents.handlers import Handler
from parley.engine.caller import Caller
from parley.engine.runs.journal import Journal
from parley.engine.runs.run import Run, Stopped
from parley.protocol.cards import AgentSkill
from parley.protocol.errors import InvalidParamsError, LocalProtocolError, PermissionDeniedError
from parley.protocol.events import StepRecorded
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import SKILL_KEY, Message, TextPart
from parley.protocol.tasks import TaskState

logger = logging.getLogger(__name__)

CHOSEN = "parley:skill"
OFFERED = "parley:skills-offered"
"""The names of the steps that record which skill was chosen, and which ones the caller was asked to choose from. The
question has the first one, too."""

QUESTIONS = 3
"""How often a caller is asked for a skill before the task is rejected."""

MATCHED_CHARACTERS = 10_000
"""How much of a message's text is compared with skills. What it is about is said before that."""

_WORD = re.compile(r"[^\W\d_]{2,}")

_NUMBER = re.compile(r"#?(\d{1,4})[.)]?")

_COMMON_WORDS = frozenset(
    _WORD.findall(
        "about an and any are as at be but by can could did do does for from get give had has have hello help hey hi "
        "how if in into is it its just let like ll make may me my need no not of off ok on or our out please re "
        "should so some tell than thank thanks that the their them then there these they this to up us use ve want "
        "was we were what when where which who why will with would yes you your"
    )
)
"""English words that say nothing about what a message is for."""


@dataclass(frozen=True)
class Skill:
    """A skill with its function, and the callers that may use and see it."""

    card: AgentSkill
    handler: Handler
    scopes: tuple[str, ...]
    is_public: bool

    def missing_scopes(self, caller: Caller) -> str:
        """The scopes that a caller needs and does not have, or an empty text."""
        return ", ".join(scope for scope in self.scopes if scope not in caller.scopes)

    @cached_property
    def _words(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of its id, name and tags, and those of its examples."""
        card = self.card
        named = _words((card.id, card.name, *card.tags))
        return named, _words(card.examples) - named

    @property
    def all_words(self) -> frozenset[str]:
        """All words that score for this skill."""
        return self._words[0] | self._words[1]

    def score(self, words: frozenset[str]) -> int:
        """How well these words match: two points for each in its id, name or tags, one for each in its examples."""
        named, in_examples = self._words
        return 2 * len(words & named) + len(words & in_examples)


class Skills:
    """All skills of one agent, and its function for messages that are for none of them."""

    def __init__(self) -> None:
        self.by_id: dict[str, Skill] = {}
        self.on_message: Handler | None = None
        self.default: Skill | None = None
        self._may_reply = False

    def set_on_message(self, handler: Handler) -> None:
        """Set the function for messages that are for no skill."""
        self.on_message = handler
        self._may_reply |= handler.may_reply

    def add(self, skill: Skill, *, is_default: bool) -> None:
        """Add a skill. Raises ValueError, with what there is already: this id, or another default."""
        if skill.card.id in self.by_id:
            raise ValueError(f"a skill {skill.card.id!r}")
        if is_default and self.default is not None:
            raise ValueError(f"the default skill {self.default.card.id!r}")
        self.by_id[skill.card.id] = skill
        self._may_reply |= skill.handler.may_reply
        if is_default:
            self.default = skill

    @property
    def are_ambiguous(self) -> bool:
        """Whether a message that names no skill may leave open which one it is for."""
        return len(self.by_id) > 1 and self.on_message is None and self.default is None

    # --- before a message is accepted ---------------------------------------------------------------------------------

    def admit(self, message: Message, caller: Caller, *, can_ask: bool) -> None:
        """Refuse a message for an unknown skill, or for one that its caller may not use.

        Raises:
            InvalidParamsError: the message names an unknown skill, or none can be chosen for it.
            PermissionDeniedError: the caller lacks a scope that the skill demands.
        """
        target = self._certain(message) or self.default
        if isinstance(target, Skill):
            _check_scopes(target, caller)
        elif target is None:
            offered = self._offered_to(caller)
            if not offered or not (can_ask or best_match(message.text, offered)):
                raise InvalidParamsError(
                    f"Say in the message's metadata which skill it is for ({self._public_ids})",
                    path=f"$.message.metadata.{SKILL_KEY}",
                )

    def admit_to_task(self, journal: Journal, caller: Caller) -> None:
        """Refuse a message to a task whose skill the caller may not use. Raises as `admit`."""
        chosen = self.by_id.get(str(journal.recorded_step(CHOSEN)))
        if chosen is not None:
            _check_scopes(chosen, caller)
        elif journal.opening is not None:
            self.admit(journal.opening, caller, can_ask=True)

    # --- choosing -----------------------------------------------------------------------------------------------------

    def may_reply(self, message: Message, caller: Caller) -> bool:
        """Whether the function for a message may answer without a task. One that must be asked for cannot."""
        if not self._may_reply:
            return False
        target = self._certain(message) or self.default or best_match(message.text, self._offered_to(caller))
        handler = target.handler if isinstance(target, Skill) else target
        return handler is not None and handler.may_reply

    async def handler_for(self, run: Run) -> Handler:
        """The function for a run's message; the same one whenever the run begins again.

        Raises:
            Stopped: the caller was asked which skill the message is for.
        """
        recorded = run.journal.recorded_step(CHOSEN) if run.journal.is_replayed else None
        if recorded is not None:
            skill = self.by_id.get(str(recorded))
            if skill is None:
                raise LocalProtocolError(f"The agent does not have the task's skill {recorded!r} any more")
            return skill.handler
        target = self._certain(run.message)
        if isinstance(target, Handler):
            return target
        if target is None:
            target = await self._choose(run)
            _record(run, CHOSEN, target.card.id)
        return target.handler

    async def _choose(self, run: Run) -> Skill:
        """The skill for a message that names none."""
        offered = run.journal.recorded_step(OFFERED)
        if offered is None:
            if self.default is not None:
                return self.default
            candidates = self._offered_to(run.caller)
            matched = best_match(run.message.text, candidates)
            if matched is not None:
                logger.debug("Task %s is for skill %r by its words", run.key.task_id, matched.card.id)
                return matched
            offered = list[JsonValue](skill.card.id for skill in candidates)
            _record(run, OFFERED, offered)
        return await self._ask(run, [str(id) for id in offered] if isinstance(offered, list) else [])

    async def _ask(self, run: Run, offered: Sequence[str]) -> Skill:
        """The skill that the caller picks among those it was offered."""
        names = [self.by_id[id].card.name if id in self.by_id else id for id in offered]
        listed = [f"{number}. {name}" for number, name in enumerate(names, 1)]
        question = "\n".join(["Which of these is your message for? Answer with a name or a number.", *listed])
        for attempt in range(QUESTIONS):
            text = question if attempt == 0 else f"That is none of them. {question}"
            answer = await run.ask(TaskState.INPUT_REQUIRED, (TextPart(text),), name=CHOSEN)
            picked = self._picked(answer, offered)
            if picked is not None and _may_pick(run, answer, picked):
                return picked
        await run.end(TaskState.REJECTED, run.agent_message((TextPart("No skill was chosen for the message."),)))
        raise Stopped

    def _picked(self, answer: Message, offered: Sequence[str]) -> Skill | None:
        """The skill that an answer names by its id, its name, its number in the list, or by its words."""
        named = self.by_id.get(str(answer.metadata.get(SKILL_KEY)))
        if named is not None:
            return named
        text = answer.text.strip()
        skills = [self.by_id[id] for id in offered if id in self.by_id]
        for same in (
            [skill for skill in skills if skill.card.id == text],
            [skill for skill in skills if text.casefold() in (skill.card.id.casefold(), skill.card.name.casefold())],
        ):
            if len(same) == 1:
                return same[0]
        number = _NUMBER.fullmatch(text)
        if number is not None and 1 <= int(number[1]) <= len(offered):
            return self.by_id.get(offered[int(number[1]) - 1])
        return best_match(text, skills)

    def _certain(self, message: Message) -> Skill | Handler | None:
        """The skill that a message names, or else the only function there is for it.

        Raises:
            InvalidParamsError: the message names a skill that does not exist, and there is no `on_message`.
        """
        wanted = message.metadata.get(SKILL_KEY)
        if isinstance(wanted, str) and wanted in self.by_id:
            return self.by_id[wanted]
        if self.on_message is not None:
            return self.on_message
        if wanted is not None:
            raise InvalidParamsError(
                f"There is no skill {str(wanted)[:50]!r}; there are: {self._public_ids}",
                path=f"$.message.metadata.{SKILL_KEY}",
            )
        return next(iter(self.by_id.values())) if len(self.by_id) == 1 else None

    def _offered_to(self, caller: Caller) -> list[Skill]:
        """The skills that a caller may be led to without naming them."""
        return [skill for skill in self.by_id.values() if skill.is_public and not skill.missing_scopes(caller)]

    @property
    def _public_ids(self) -> str:
        return ", ".join(id for id, skill in self.by_id.items() if skill.is_public) or "none"


def best_match(text: str, skills: Sequence[Skill]) -> Skill | None:
    """The skill that a text matches with at least twice the score of any other, or None.

    Words that all skills share score nothing. `"Shout hello"` → the skill named "Shout".
    """
    if not skills:
        return None
    words = _words((text[:MATCHED_CHARACTERS],))
    if len(skills) > 1:
        words -= skills[0].all_words.intersection(*(skill.all_words for skill in skills[1:]))
    scores = sorted(((skill.score(words), -place) for place, skill in enumerate(skills)), reverse=True)
    best, place = scores[0]
    second = scores[1][0] if len(scores) > 1 else 0
    return skills[-place] if best > 0 and best >= 2 * second else None


def _words(texts: Iterable[str]) -> frozenset[str]:
    """The words of texts that can tell one skill from another."""
    return frozenset(word for text in texts for word in _WORD.findall(text.casefold())) - _COMMON_WORDS


def _may_pick(run: Run, answer: Message, skill: Skill) -> bool:
    """Whether the sender of an answer may use a skill. The run knows the scopes of its newest message's sender only."""
    return not skill.scopes or (answer == run.journal.messages[-1] and not skill.missing_scopes(run.caller))


def _check_scopes(skill: Skill, caller: Caller) -> None:
    missing = skill.missing_scopes(caller)
    if missing:
        raise PermissionDeniedError(f"This needs the scope {missing}", details={"scopes": missing})


def _record(run: Run, name: str, value: JsonValue) -> None:
    """Record a choice for all later runs, and for messages that come while this one works."""
    run.journal.note_step(name, value)
    run.emit_before_effects(StepRecorded(run.key.task_id, run.context_id, name, value, kind="value"))
