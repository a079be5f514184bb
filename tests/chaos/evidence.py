"""What a run leaves behind for the checker: the log of every task, the clients' histories, and the side file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from tests.chaos.agents import RUN_NOTE
from tests.chaos.history import Entry, Frame
from tests.chaos.side_file import SideEvent

TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})
WAITING = frozenset({"input-required", "auth-required"})


class LoggedTask(Struct, frozen=True, dict=True):
    """A task as the store has it: the state in its row, and its numbered events as the JSON that is stored."""

    id: str
    state: str
    last_seq: int
    events: tuple[tuple[int, dict[str, Any]], ...]

    @cached_property
    def shown(self) -> tuple[Frame, ...]:
        """The events that streams show."""
        return tuple([frame for seq, event in self.events if (frame := _frame(seq, event)) is not None])

    @cached_property
    def last_shown(self) -> int:
        """The number of the last event that streams show."""
        return self.shown[-1].seq if self.shown else 0

    def text_at(self, seq: int) -> str:
        """All text of the artifacts after an event."""
        texts: dict[str, str] = {}
        for number, event in self.events:
            if number <= seq and event["type"] == "artifact":
                name = event["artifact"]["artifact_id"]
                texts[name] = (texts.get(name, "") if event.get("append") else "") + _text(event)
        return "".join(texts.values())

    def state_at(self, seq: int) -> str:
        """The state after an event."""
        states = [event["status"]["state"] for number, event in self.events if number <= seq and "status" in event]
        return states[-1] if states else ""

    @property
    def first_text(self) -> str:
        """The text of the message that began the task."""
        for _, event in self.events:
            if event["type"] == "message-added":
                return "".join([part.get("text", "") for part in event["message"]["parts"]])
        return ""

    @cached_property
    def tenures(self) -> tuple[Tenure, ...]:
        """Who held the task from when to when, as the log says."""
        return tuple(_tenures(self))


class Tenure(Struct, frozen=True):
    """One worker's time with a task: what it began with, and what wrote during it.

    `began` is `created`, `claimed`, `woken` or `answered`. `worker` is the one that the log names, if it does.
    `writers` are the runs, each with its worker, that left their mark on events, in order.
    """

    began: str
    seq: int
    worker: str
    writers: tuple[tuple[str, str], ...]


class Evidence(Struct, frozen=True):
    """All that a run left behind."""

    tasks: dict[str, LoggedTask]
    entries: Sequence[Entry]
    side: Sequence[SideEvent]
    undelivered: tuple[str, ...] = ()
    """Tasks that are still in the outbox."""


def _frame(seq: int, event: dict[str, Any]) -> Frame | None:
    match event["type"]:
        case "status":
            return Frame(seq, "status", event["status"]["state"])
        case "artifact":
            return Frame(seq, "artifact", "", _text(event), bool(event.get("append")))
        case _:
            return None


def _text(event: dict[str, Any]) -> str:
    return "".join([part.get("text", "") for part in event["artifact"]["parts"]])


def _tenures(task: LoggedTask) -> list[Tenure]:
    found: list[Tenure] = []
    state, is_asleep = "", False
    for seq, event in task.events:
        kind = event["type"]
        if kind == "created":
            found.append(Tenure("created", seq, "", ()))
        elif kind == "claimed":
            found.append(Tenure("woken" if is_asleep else "claimed", seq, event["worker"], ()))
        elif kind == "message-added" and (state in WAITING or is_asleep):  # the worker that got the message has it now
            found.append(Tenure("answered", seq, "", ()))
        elif (writer := _writer(event)) is not None and found and writer not in found[-1].writers:
            last = found.pop()
            found.append(Tenure(last.began, last.seq, last.worker, (*last.writers, writer)))
        is_asleep = kind == "sleep" or (is_asleep and kind not in ("claimed", "message-added"))
        state = event["status"]["state"] if "status" in event else state
    return found


def _writer(event: dict[str, Any]) -> tuple[str, str] | None:
    """The run, and its worker if it says so, that wrote an event with a mark."""
    if event["type"] == "note" and event["name"] == RUN_NOTE:
        return event["value"]["run"], event["value"]["worker"]
    return None
