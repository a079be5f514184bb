"""The limits of a server as options, declared in one table: which field of which class each one sets.

An option takes a time (`10m`, or seconds), a size (`24MiB`, or bytes) or a number; `off` removes a limit that can be
removed. Its default is that of the field. A test compares the table with the classes.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from parley.cli.options.durations import read_seconds, seconds_as_text
from parley.cli.output.help_text import Section
from parley.engine.limits import Limits
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.server.limits import ServerLimits
from parley.server.listener.limits import ListenerLimits
from parley.server.security.throttle import RateLimits

T = TypeVar("T")

OFF = "off"

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _read_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text, re.ASCII):
        raise ValueError(f"Invalid whole number: {text!r}.")
    return int(text)


def _read_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"Invalid number: {text!r}.")
    return number


def _read_size(text: str) -> int:
    """The bytes of a size: `"24 MiB"` → 25165824."""
    found = re.fullmatch(r"(\d{1,12})\s*([KMG]?)(?:i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError(f"Invalid size: {text!r}. Write for example 512KiB or 24MiB, or a number of bytes.")
    return int(found[1]) * _UNITS[found[2].upper()]


def _size_as_text(size: int) -> str:
    name = next((name for name in "GMK" if size % _UNITS[name] == 0), "")
    return f"{size // _UNITS[name]}{name}iB" if name else str(size)


@dataclass(frozen=True, slots=True)
class Quantity:
    """What the text of a limit means, and how a value is written."""

    metavar: str
    read: Callable[[str], Any]
    """Raises ValueError, with a sentence for the user."""
    write: Callable[[Any], str]


COUNT = Quantity("N", _read_count, str)
NUMBER = Quantity("N", _read_number, "{:g}".format)
SIZE = Quantity("SIZE", _read_size, _size_as_text)
TIME = Quantity("TIME", read_seconds, seconds_as_text)


@dataclass(frozen=True, slots=True)
class LimitOption:
    """One option: its name, the field that it sets, what it takes and its help."""

    name: str
    owner: type
    field: str
    quantity: Quantity
    text: str
    section: Section
    may_be_zero: bool = False
    may_be_off: bool = True
    """Whether `off` is allowed, if the field may be None."""

    @property
    def default(self) -> Any:
        """The default of the field."""
        return inspect.signature(self.owner).parameters[self.field].default

    @property
    def default_text(self) -> str | None:
        """The default as it would be typed; None if the field is not set by default."""
        return None if self.default is None else self.quantity.write(self.default)

    @property
    def allows_off(self) -> bool:
        """Whether the limit can be removed."""
        return self.may_be_off and type(None) in get_args(get_type_hints(self.owner)[self.field])

    def read(self, text: str) -> Any:
        """The value of the field.

        Raises:
            BadParameter: the text is not valid.
        """
        if text == OFF and self.allows_off:
            return None
        try:
            value = self.quantity.read(text)
        except ValueError as error:
            also = f" Write {OFF} for no limit." if self.allows_off else ""
            raise typer.BadParameter(f"{error}{also}", param_hint=f"--{self.name}") from None
        if value < 0 or not (value or self.may_be_zero):
            raise typer.BadParameter(f"{text} is too small: it must be more than 0.", param_hint=f"--{self.name}")
        return value

    @property
    def parameter(self) -> inspect.Parameter:
        """The option as the parameter of a command."""
        metavar = f"{self.quantity.metavar}|{OFF}" if self.allows_off else self.quantity.metavar
        option = typer.Option(f"--{self.name}", metavar=metavar, help=self.text, rich_help_panel=self.section)
        return inspect.Parameter(
            self.name.replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default_text,
            annotation=Annotated[str | None, option],
        )


@dataclass(frozen=True, slots=True)
class LimitValues:
    """The limits that were chosen, by the class and the field that they belong to."""

    values: Mapping[type, Mapping[str, Any]]

    def of(self, owner: type[T], **more: Any) -> T:
        """The limits of one class."""
        return owner(**self.values.get(owner, {}), **more)


NO_CHANGES = LimitValues({})
"""The defaults."""


def limit_options(*options: LimitOption) -> Callable[..., LimitValues]:
    """A group of options: a function that reads their texts."""

    def read(**texts: str | None) -> LimitValues:
        values: dict[type, dict[str, Any]] = {}
        for option in options:
            text = texts[option.name.replace("-", "_")]
            values.setdefault(option.owner, {})[option.field] = option.default if text is None else option.read(text)
        return LimitValues(values)

    read.__dict__["__signature__"] = inspect.Signature([option.parameter for option in options])
    return read


# --- the table --------------------------------------------------------------------------------------------------------


def _limits(owner: type, section: Section, *rows: tuple[str, str, Quantity, str]) -> tuple[LimitOption, ...]:
    return tuple(LimitOption(name, owner, field, quantity, text, section) for name, field, quantity, text in rows)


_RATE = LimitOption(
    "rate",
    RateLimits,
    "requests_per_second",
    NUMBER,
    "Requests per second of each caller, with bursts of twice as many.",
    Section.SECURITY,
)
_SEND_WINDOW = LimitOption(
    "send-window",
    Limits,
    "idempotency_seconds",
    TIME,
    "How long a message that is sent again gets the same task; 0 turns this off.",
    Section.TASKS,
    may_be_zero=True,
)
_WEBHOOK_PAUSED_FOR = LimitOption(
    "webhook-paused-for",
    DeliveryLimits,
    "paused_for",
    TIME,
    "How long a failing webhook is paused before one last call; 0 gives its events up at once.",
    Section.WEBHOOK_LIMITS,
    may_be_zero=True,
)
_RUN_ATTEMPTS = LimitOption(
    "run-attempts",
    Limits,
    "run_attempts",
    COUNT,
    "Fail a task after so many crashes without progress; by default as its agent says, or 3.",
    Section.TASKS,
    may_be_off=False,  # None means the agent's own limit
)

SERVER_LIMITS = (
    _RATE,
    *_limits(
        RateLimits,
        Section.CALLER_LIMITS,
        ("rate-burst", "request_burst", COUNT, "Requests of one caller at once; off allows those of two seconds."),
        ("total-rate", "total_requests_per_second", NUMBER, "Requests per second of all callers."),
        ("total-rate-burst", "total_request_burst", COUNT, "Requests of all callers at once; off as above."),
        ("max-requests", "total_requests", COUNT, "Active requests of all callers."),
        ("max-requests-per-caller", "requests", COUNT, "Active requests of one caller."),
        ("max-auth-failures", "failures_per_minute", COUNT, "Refused credentials per minute from one address."),
    ),
    *_limits(
        ServerLimits,
        Section.CALLER_LIMITS,
        ("max-body", "body_bytes", SIZE, "The body of one request."),
        ("body-memory", "bodies_bytes", SIZE, "All long bodies in memory; one address has a quarter."),
        ("max-json-containers", "json_containers", COUNT, "Objects and arrays in one body."),
        ("max-parts", "parts", COUNT, "Parts of one message."),
        ("max-id-length", "id_characters", COUNT, "Characters of one id or tenant."),
    ),
    *_limits(
        RateLimits,
        Section.STREAM_LIMITS,
        ("max-streams", "total_streams", COUNT, "Open streams of all callers."),
        ("max-streams-per-caller", "streams", COUNT, "Open streams of one caller."),
    ),
    *_limits(
        ServerLimits,
        Section.STREAM_LIMITS,
        ("heartbeat", "heartbeat_seconds", TIME, "How often a stream without events sends a comment."),
        ("stalled-timeout", "stalled_seconds", TIME, "End a stream whose reader reads nothing for so long."),
        ("idle-stream-timeout", "idle_stream_seconds", TIME, "End a stream without events for so long."),
    ),
    *_limits(
        ListenerLimits,
        Section.CONNECTION_LIMITS,
        ("max-connections", "connections", COUNT, "Connections in total."),
        ("max-connections-per-address", "connections_per_address", COUNT, "Connections from one address."),
        ("handshake-timeout", "handshake_seconds", TIME, "Time for a TLS handshake."),
        ("header-timeout", "header_seconds", TIME, "Time for the headers of a request."),
        ("keep-alive-timeout", "idle_seconds", TIME, "Time between two requests of a connection."),
        ("max-header-bytes", "head_bytes", SIZE, "All headers of a request."),
        ("max-headers", "headers", COUNT, "Headers of a request."),
        ("min-body-rate", "body_bytes_per_second", NUMBER, "The slowest body, in bytes per second."),
        ("body-rate-window", "body_seconds", TIME, "The time over which that rate is measured."),
        ("min-read-rate", "write_bytes_per_second", NUMBER, "The slowest reader of a reply, in bytes per second."),
        ("read-rate-window", "write_seconds", TIME, "The time over which that rate is measured."),
    ),
)
"""The limits of every server, also of a proxy."""

ENGINE_LIMITS = (
    _SEND_WINDOW,
    _RUN_ATTEMPTS,
    *_limits(
        Limits,
        Section.RUN_LIMITS,
        ("run-timeout", "run_seconds", TIME, "Time for one run of a handler."),
        ("wait-timeout", "wait_seconds", TIME, "Answer a blocking send after so long, with the unfinished task."),
        (
            "reply-timeout",
            "undecided_seconds",
            TIME,
            "Show a stream its task if there is no direct reply after so long.",
        ),
        ("cancel-timeout", "cancel_seconds", TIME, "Time for a canceled handler to clean up."),
        ("blocked-warning", "blocked_seconds", TIME, "Log a handler that blocks the event loop for so long."),
        ("lease", "lease_seconds", TIME, "Other processes take over the runs of one that is silent for so long."),
        ("poll", "poll_seconds", TIME, "How often to look for changes by other processes if no hint arrives."),
        ("max-runs", "runs_at_once", COUNT, "Runs at the same time."),
        ("max-waiting", "sends_waiting", COUNT, "Messages that wait for a run."),
    ),
    *_limits(
        Limits,
        Section.TASK_LIMITS,
        ("max-events", "events_per_task", COUNT, "Events of one task."),
        ("max-history", "history_messages", COUNT, "Messages of one task."),
        ("max-message", "message_bytes", SIZE, "One message with all its parts."),
        ("max-step", "step_bytes", SIZE, "The result of one step, as JSON."),
        ("max-form-answers", "form_answers", COUNT, "Answers to one form before the task fails."),
        ("max-artifacts", "artifact_bytes", SIZE, "All artifacts of one task."),
        ("max-context-values", "context_values", COUNT, "Values that are kept for one conversation."),
        ("max-context-value", "context_value_bytes", SIZE, "One such value, as JSON."),
        ("max-context", "context_bytes", SIZE, "All values of one conversation."),
        ("max-conversation", "conversation_bytes", SIZE, "What a framework's agent knows of one conversation."),
    ),
    *_limits(
        Limits,
        Section.WEBHOOK_LIMITS,
        ("max-webhooks", "push_configs_per_task", COUNT, "Webhooks of one task."),
    ),
    *_limits(
        DeliveryLimits,
        Section.WEBHOOK_LIMITS,
        ("max-webhook-calls", "max_calls", COUNT, "Calls at the same time."),
        ("max-webhook-calls-per-host", "max_calls_per_host", COUNT, "Calls of one host at the same time."),
        ("webhook-attempts", "attempts", COUNT, "Calls for one event."),
        ("webhook-first-pause", "first_pause", TIME, "The pause before the second call; then it doubles."),
        ("webhook-longest-pause", "longest_pause", TIME, "The longest pause before the next call."),
        ("webhook-retry-for", "retry_for", TIME, "How long an event is retried before its webhook is paused."),
    ),
    _WEBHOOK_PAUSED_FOR,
)
"""The limits of tasks, runs and webhook calls."""
