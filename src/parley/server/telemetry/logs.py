"""Log lines for people and for machines: what happened, and in which task, for which caller, in which trace.

A record is one line of JSON, or one line of text; in text the lines of a traceback follow, each behind a bar. Nothing
that is logged can begin a line of its own or move a terminal's cursor: control characters are shown, not sent. What
looks like a secret is replaced. That is a net for texts of other libraries; Parley itself logs no secrets.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias, cast

from parley.server.telemetry.log_context import subject_ids
from parley.server.telemetry.tracing import current_trace_ids

LogFormat: TypeAlias = Literal["text", "json"]

REDACTED = "[redacted]"
DEEPEST_EXTRA = 5

# Libraries that set handlers of their own, so that their lines would not look like ours.
_TAKEN_OVER = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "grpc", "py.warnings")

# On INFO these write the URLs that we call, on DEBUG headers and bytes: webhooks and tokens that are others' secrets.
_QUIET = ("httpx2", "httpcore2", "hpack", "asyncio", "grpc")

_RECORD_MEMBERS = {*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"}
_OURS = ("time", "level", "logger", "message", "exception")

_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|credential|api[-_]?key|private[-_]?key", re.I)
_SECRET_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A header in any spelling: `Authorization: Bearer x`, `{'cookie': 'a=b; c=d'}`, `(b'cookie', b'a=b')`.
    (
        re.compile(r"""((?:authorization|cookie)["']?\s*[:=,]\s*)(b?"[^"]*"|b?'[^']*'|[^"'\n]+)""", re.I),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"\b(bearer|basic)\s+[\w+/.~-]{8,}=*", re.I), rf"\1 {REDACTED}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), REDACTED),  # a JWT
    (
        re.compile(
            r"""((?:token|secret|passwo?r?d|api[-_]?key)["']?\s*[:=]\s*)(b?"[^"]*"|b?'[^']*'|[^\s"'&,;)}]+)""", re.I
        ),
        rf"\1{REDACTED}",
    ),
    (re.compile(r"://[^/\s:@]*:[^/\s@]+@"), f"://{REDACTED}@"),
)

# C0, C1, line and paragraph separators, what turns the direction of text round, and lone surrogates.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PLAIN_VALUE = re.compile(r"[\w.:@/+-]+")


def configure_logging(
    format: LogFormat = "text", level: int | str = logging.INFO, *, stream: TextIO | None = None
) -> None:
    """Send every log line of the process to standard error, or this stream, in one format.

    For whoever owns the process, such as the command line: it replaces the root logger's handlers. Start uvicorn with
    `log_config=None`, or it sets its own.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper() if isinstance(level, str) else level)
    for name in _TAKEN_OVER:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


class JsonFormatter(logging.Formatter):
    """One line of JSON per record: time, level, logger, message, ids, further fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line, in ASCII: no terminal and no collector can stumble over it."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(_message(record)),
            **_fields(record),
        }
        trouble = _trouble(self, record)
        if trouble:
            line["exception"] = redact(trouble)
        return json.dumps(line, allow_nan=False)


class TextFormatter(logging.Formatter):
    """One readable line per record; a traceback follows it, each line behind a bar."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line: `2026-01-01T00:00:00.000Z INFO parley.engine: Hello agent=echo task=1`."""
        head = f"{_time(record)} {record.levelname} {record.name}: {visible(redact(_message(record)))}"
        fields = [f"{visible(name)}={_text_value(value)}" for name, value in _fields(record).items()]
        trouble = _trouble(self, record)
        rest = [f"  | {visible(line)}" for line in redact(trouble).split("\n")] if trouble else []
        return "\n".join((" ".join((head, *fields)), *rest))


def redact(text: str) -> str:
    """The text without what looks like a secret: `"Bearer abcdefgh"` → `"Bearer [redacted]"`."""
    for pattern, replacement in _SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return text


def visible(text: str) -> str:
    """The text with control characters shown as escapes: a newline as `\\n`."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # arguments that do not fit: better odd than lost
        return f"{record.msg} {record.args!r}"


def _trouble(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts: list[str] = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Ids of the present call or run and trace, and the record's extra fields, which may say it better."""
    fields: dict[str, Any] = dict(subject_ids())
    ids = current_trace_ids()
    if ids:
        fields["trace_id"], fields["span_id"] = ids
    for name, value in vars(record).items():
        if name not in _RECORD_MEMBERS:
            fields[f"extra_{name}" if name in _OURS else name] = _clean(name, value)
    return fields


def _clean(name: str, value: object, depth: int = 0) -> Any:
    """A value as JSON has it, without secrets."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case _ if _SECRET_NAME.search(name):
            return REDACTED
        case str():
            return redact(value)
        case Mapping() if depth < DEEPEST_EXTRA:
            members = cast("Mapping[object, object]", value)
            return {str(key): _clean(str(key), member, depth + 1) for key, member in members.items()}
        case list() | tuple() if depth < DEEPEST_EXTRA:
            return [_clean("", item, depth + 1) for item in cast("Sequence[object]", value)]
        case _:
            return redact(str(value))


def _text_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text)
