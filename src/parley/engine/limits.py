"""Every bound of the engine, with its default and the reason for the number.

Bounds of a task, a message, a page or a conversation hold whichever worker of a shared store works. Those that count
what a worker does say "per worker": several workers together may do as many times more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of everything there may be. Each limit gives a clear error of its own when it is met."""

    runs_at_once: int = 1_000
    """Runs of one agent, per worker. They wait for networks and models most of their time; memory is what they really
    cost. In a shared store, what finds no room here runs at another worker."""
    sends_waiting: int = 10_000
    """Messages of one agent that wait for a run. Beyond that a caller is better told to come back than kept waiting. In
    a shared store they are those of all workers, about: each worker counts them every second or so. Those that may be
    answered without a task wait, and are counted, per worker."""
    run_seconds: float | None = 3_600.0
    """An hour is long for an agent and short for a handler that hangs."""
    wait_seconds: float | None = None
    """How long a blocking send waits for the task to end or pause; the reply then shows it as it stands."""
    undecided_seconds: float = 10.0
    """How long a stream is silent while the agent may still reply without a task; then it shows the task. Proxies and
    callers give up on streams that are silent for longer."""
    cancel_seconds: float = 5.0
    """What a cancelled handler gets for cleaning up before the task is canceled without it."""
    blocked_seconds: float = 5.0
    """How long a handler may block the event loop before the log names it."""
    run_attempts: int | None = None
    """A run that crashed this often without making progress is failed instead of begun again; None leaves it to the
    agent, whose default is three. A run that was cut off by a clean stop does not count."""
    events_in_memory: int = 512
    """Recent events of a task that readers get without asking the store, per worker; a few hundred bytes each."""
    bytes_in_memory: int = 1024 * 1024
    """The content of these events. Some are files; then there are fewer."""
    unwritten_events: int = 256
    """What a run may emit ahead of the store before it has to wait."""
    events_per_task: int = 200_000
    """More chunks than any text is cut into; a handler in an endless loop meets it within a minute."""
    artifact_bytes: int = 64 * 1024 * 1024
    """All parts of a task's artifacts together. Larger things belong behind a URL."""
    message_bytes: int = 16 * 1024 * 1024
    """One message with all its parts."""
    step_bytes: int = 16 * 1024 * 1024
    """The result of one step as JSON: as much as one message. Every run of the handler reads it again."""
    history_messages: int = 10_000
    """Messages of one task; beyond that the conversation needs a new one."""
    form_answers: int = 5
    """Answers to one form. A person or a model that was told what is wrong needs two or three."""
    snapshot_events: int = 128
    """Reading folds this many events in a millisecond; after more, a snapshot is written."""
    page_events: int = 500
    """Events that a reader who has fallen behind takes from the store at once."""
    page_characters: int = 128 * 1024
    """The same, as text: a page ends with the event that goes beyond this."""
    page_bytes: int = 8 * 1024 * 1024
    """A page of a list ends with the task that goes beyond this; a hundred tasks could have gigabytes."""
    push_configs_per_task: int = 20
    """Webhooks of one task."""
    lease_seconds: float = 10.0
    """After so long without a sign of life, other workers take over what a worker holds: longer than a pause of the
    machine or the store is likely to be, and about as long as a caller waits before it tries again."""
    poll_seconds: float = 0.5
    """How often a worker looks for what others write and leave for it, in a store that is shared, and whether one has
    died; hints are faster. While hints flow, readers are looked after ten times more seldom."""
    idempotency_seconds: float = 600.0
    """How long the same message gets the same task; 0 turns it off."""
    context_values: int = 100
    """Values that an agent keeps for one conversation: a memory, not a database."""
    context_value_bytes: int = 256 * 1024
    """One such value as JSON, with its name: a long conversation's text, and no files."""
    conversation_bytes: int = 16 * 1024 * 1024
    """What a framework knows of one conversation, as JSON: as much as a step may return. The newest value is kept, and
    each one that a task began with which is not over."""
    context_bytes: int = 1024 * 1024
    """All values of one conversation together: they are read at once, within a few milliseconds."""
