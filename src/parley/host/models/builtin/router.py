"""The model `parley/router`: finds the agents that a request fits, hands each its part, and composes their answers.

While agents are to be called, its replies consist of commands only; then comes the answer. Texts of users and agents
reach a reply only as the last part of a command's line, or in lines that are not commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from parley.host.models.builtin.clauses import split_clauses
from parley.host.models.builtin.matching import find_match
from parley.host.models.builtin.references import previous_answer
from parley.host.models.builtin.replies import failure_reason, single_line, without_commands
from parley.host.models.builtin.routing import ClauseState, Routing
from parley.host.models.model import ModelRequest, RosterEntry

_MOST_LISTED = 12
_LONGEST_NAME = 60


def reply(request: ModelRequest) -> str:
    """Commands that call agents, or the answer."""
    roster = tuple(entry for entry in request.roster if entry.id != request.agent_id and _is_callable(entry))

    @cache
    def choose(text: str) -> RosterEntry | None:
        match = find_match(text, roster)
        return match.entry if match is not None else None

    clauses = split_clauses(request.query, choose)
    if not any(clause.entry for clause in clauses):
        return without_commands(_introduction(roster, is_empty=not clauses))
    routing = Routing(clauses, request.results, previous=previous_answer(request))
    return routing.commands() or without_commands(_answer(routing))


def _is_callable(entry: RosterEntry) -> bool:
    """Whether its name can stand in a command."""
    return entry.id.isprintable() and len(entry.id.split()) == 1


def _answer(routing: Routing) -> str:
    """What the agents answered: as it is if it is one answer, otherwise as a list."""
    answers = list(_answers(routing))
    if len(answers) == 1:
        return answers[0]
    return "\n".join("- " + "\n  ".join(answer.splitlines()) for answer in answers)


def _answers(routing: Routing) -> Iterator[str]:
    for position, (clause, state) in enumerate(zip(routing.clauses, routing.states(), strict=True)):
        if state is ClauseState.DONE:
            yield routing.outcomes[position].body.strip()
            continue
        match state:
            case ClauseState.FAILED:
                reason = failure_reason(routing.outcomes[position].body)
            case ClauseState.WITHOUT_AGENT:
                reason = "no agent fits it"
            case ClauseState.WITHOUT_INPUT:
                reason = "it needs the result of an earlier step, and there is none"
            case _:
                reason = "one request may not have so many steps"
        yield f"“{_shortened(clause.text)}” could not be done: {reason}."


def _introduction(roster: Sequence[RosterEntry], *, is_empty: bool) -> str:
    """What the router says if it calls no agent: which agents there are, with an example each."""
    if not roster:
        return (
            "There are no agents here that I could pass a request to, and I am not a language model. "
            "Store an agent, or name a model: parley up --model openai/…, or the member model of this agent."
        )
    opening = "I pass requests to agents." if is_empty else "No agent here fits that request."
    lines = [f"- {_shortened(entry.name or entry.id)}: {_about(entry)}" for entry in roster[:_MOST_LISTED]]
    if len(roster) > _MOST_LISTED:
        lines.append(f"- and {len(roster) - _MOST_LISTED} more")
    return "\n".join([f"{opening} These are the agents, each with something to try:", *lines])


def _about(entry: RosterEntry) -> str:
    if entry.examples:
        return f"“{_shortened(entry.examples[0])}”"
    return _shortened(entry.description) or "no description"


def _shortened(text: str) -> str:
    text = single_line(text)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1].rstrip() + "…"
