"""A batch of appends: checked one by one against the heads of their tasks, and written by one statement.

An append that conflicts stages nothing. The statement compares every head again with what was believed of it, so that
heads from memory may be used: if one of them is wrong, or a message was sent before, the whole statement fails and
nothing of it is kept. The cost of an event does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from parley.stores.appends import Append, StagedHead, TaskId, new_head, new_row
from parley.stores.interface import RepeatedSendError, SendRecord
from parley.stores.postgres.statements import join_statements, load_statements
from parley.stores.rows import Value

_STATEMENTS = load_statements("append")

_PARTS = {
    name: (_STATEMENTS[name], count)
    for name, count in (
        ("mark_batch", 3),
        ("insert_tasks", 17),
        ("update_tasks", 14),
        ("put_behind", 0),
        ("put_new_behind", 4),
        ("insert_events", 6),
        ("put_snapshots", 3),
        ("put_sends", 8),
        ("put_new_sends", 9),
        ("put_webhooks", 7),
        ("take_from_inbox", 3),
    )
}

LOAD_HEADS = _STATEMENTS["load_heads"]
LOAD_SENDS = _STATEMENTS["load_sends"]
NEXT_NUMBERS = _STATEMENTS["next_numbers"]
MARK_BATCH = _STATEMENTS["mark_batch"]

NUMBERS_AT_ONCE = 1_000
"""Numbers of tasks that a process takes at a time: the increment of the sequence `task_numbers`."""

SendId: TypeAlias = tuple[Value, ...]
"""Tenant, owner, message id and digest."""

Expected: TypeAlias = tuple[int, str, int]
"""Last number, holder and number of the snapshot."""

_texts: dict[tuple[str, ...], str] = {}


class Batch:
    """Appends that are written together."""

    def __init__(self, heads: Mapping[TaskId, StagedHead | None], next_number: Callable[[], int]) -> None:
        """`heads` are those of all the tasks; None for those that do not exist."""
        self.heads = dict(heads)
        self._next_number = next_number
        self._expected: dict[TaskId, Expected] = {}
        self._events: list[tuple[Any, ...]] = []
        self._sends: dict[SendId, tuple[Value, ...]] = {}
        self._new_sends: dict[SendId, tuple[Value, ...]] = {}
        self._sends_since = 0
        self._webhooks: dict[tuple[Value, ...], tuple[Value, ...]] = {}
        self._with_new_webhooks: set[TaskId] = set()
        self._taken: list[tuple[str, ...]] = []

    def repeats_a_send(self, append: Append) -> bool:
        """Whether a message of an append is staged already: it must be written before it can be looked for."""
        return any(row[:4] in self._new_sends or row[:4] in self._sends for row in append.sends)

    def stage(self, append: Append, sent: Mapping[SendId, SendRecord] | None = None) -> None:
        """Stage an append. `sent` are the messages that are there.

        Raises:
            ConflictError: the task is not as the writer believes it to be. Nothing is staged.
            RepeatedSendError: a message was sent before. Nothing is staged.
        """
        write, head = append.write, self.heads[append.task_id]
        if head is None:
            write.check_fence(None)
        else:
            write.check_fence(head.owner, head.last_seq, head.holder)
        if append.sends_since is not None and sent:
            _require_new(append, sent)
        if head is None:
            head = self.heads[append.task_id] = new_head(append, self._next_number())
        elif head.new is None and append.task_id not in self._expected:
            self._expected[append.task_id] = (head.last_seq, head.holder, head.snapshot_seq)
        seq = head.last_seq
        for number, events, is_unlisted, written_at in append.events:
            self._events.append((head.number, seq + 1, seq + number, events, bool(is_unlisted), written_at))
            seq += number
        head.stage(append)
        if append.events and head.writer is None:  # another process may have added a webhook
            head.writer = write.holder or write.expected_holder
        self._stage_sends(append)
        if append.webhooks:
            self._with_new_webhooks.add(append.task_id)
        for row in append.webhooks:
            before = self._webhooks.get(row[:3])
            self._webhooks[row[:3]] = row if before is None else (*row[:-1], before[-1])
        self._taken += [(*append.task_id, item) for item in write.taken]

    def _stage_sends(self, append: Append) -> None:
        since = append.sends_since
        for row in append.sends:
            if since is None:
                self._sends[row[:4]] = row
            else:
                # The earliest of all: an append that is refused because of that is tried again alone.
                self._sends_since = min(since, self._sends_since) if self._new_sends else since
                self._new_sends[row[:4]] = row

    def statement(self, number: int, writer: str, session: int) -> tuple[str, list[Any]]:
        """The statement that writes what is staged as the batch `number` of a writer, and its parameters."""
        heads = [head for head in self.heads.values() if head is not None and head.is_changed]
        heads.sort(key=lambda head: head.number)  # every process locks rows in this order
        kept = [head for head in heads if head.new is None]
        behind = [(h.tenant, h.owner, h.task_id, h.writer) for h in heads if h.new is not None and h.has_webhooks]
        new_sends = _columns(self._sorted(self._new_sends), 8)
        parts: list[tuple[str, list[Any]]] = [("mark_batch", [number, writer, session])]
        for name, columns in (
            ("insert_tasks", _columns([_new_task(h) for h in heads if h.new is not None], 17)),
            ("update_tasks", _columns([self._update(h) for h in kept], 14)),
            ("put_new_behind", _columns([row for row in behind if row[3] is not None], 4)),
            ("insert_events", _columns(self._events, 6)),
            ("put_snapshots", _columns([(h.number, *h.snapshot) for h in heads if h.snapshot is not None], 3)),
            ("put_sends", _columns(self._sorted(self._sends), 8)),
            ("put_new_sends", [*new_sends, self._sends_since]),
            ("put_webhooks", _columns(self._sorted(self._webhooks), 7)),
            ("take_from_inbox", _columns(sorted(self._taken), 3)),
        ):
            if columns[0]:
                parts.append((name, columns))
                if name == "update_tasks":
                    parts.append(("put_behind", []))
        counts = {"mark_batch": 1, "update_tasks": len(kept), "put_new_sends": len(self._new_sends)}
        text = _text_of(tuple([name for name, _ in parts]))
        expected = [counts[name] for name, _ in parts if name in counts]
        return text, [*[value for _, values in parts for value in values], *expected]

    def _update(self, h: StagedHead) -> tuple[Any, ...]:
        task_id = (h.tenant, h.task_id)
        return (
            *(h.number, *self._expected[task_id], h.state, h.status_at, h.holder, h.last_seq, h.attempts),
            # Not what the head says of webhooks: they may have been deleted since.
            *(h.snapshot_seq, h.size, h.wake_at, task_id in self._with_new_webhooks, h.writer),
        )

    def _sorted(self, rows: Mapping[Any, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [rows[key] for key in sorted(rows)]

    def heads_after(self) -> Iterable[tuple[TaskId, StagedHead]]:
        """The heads as they are once this is committed."""
        for task_id, head in self.heads.items():
            if head is not None:
                head.new = head.snapshot = head.writer = None
                head.has_new_status = head.has_new_wake = head.is_changed = False
                yield task_id, head


def _new_task(head: StagedHead) -> tuple[Any, ...]:
    assert head.new is not None
    row = new_row(head, head.new)
    return (*row[:11], bool(head.has_webhooks), *row[12:], head.wake_at)


def _require_new(append: Append, sent: Mapping[SendId, SendRecord]) -> None:
    for row in append.sends:
        found = sent.get(row[:4])
        if found is not None and not found.is_in_work(str(row[-1])):
            raise RepeatedSendError(found)


def _columns(rows: Sequence[tuple[Any, ...]], number: int) -> list[Any]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * number


def _text_of(names: tuple[str, ...]) -> str:
    """The statement of some parts. It fails if a part that counts its rows changed fewer than it was given."""
    text = _texts.get(names)
    if text is None:
        counted = [name for name in names if name in ("mark_batch", "update_tasks", "put_new_sends")]
        conditions = [f"(SELECT count(*) FROM {name}) = ${n}::bigint" for n, name in enumerate(counted, start=1)]
        # A division by zero is the only way for a plain statement to undo itself.
        last = f"SELECT 1 / CASE WHEN {' AND '.join(conditions)} THEN 1 ELSE 0 END"
        text = _texts[names] = join_statements([(name, *_PARTS[name]) for name in names], last)
    return text
