"""Log lines as text or JSON, with the ids of the current task, caller and trace.

A record is one line of JSON or one line of text; in text the lines of a traceback follow, each after a bar. Control
characters are escaped, so that logged text can neither start a new line nor move the cursor of a terminal. Strings that
look like secrets are replaced. That is a safeguard for other libraries; Parley itself logs no secrets.
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

from parley.safe_text import escaped
from parley.server.telemetry.log_context import log_context_ids
from parley.server.telemetry.tracing import current_trace_ids

LogFormat: TypeAlias = Literal["text", "json"]

REDACTED = "[redacted]"
MAX_EXTRA_DEPTH = 5

# Libraries that set handlers of their own, with another format.
_RECONFIGURED = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "grpc", "py.warnings")

# On INFO these log the URLs of requests, on DEBUG headers and bodies. Both may contain secrets of third parties.
_QUIET = ("httpx2", "httpcore2", "hpack", "asyncio", "grpc")

_RECORD_MEMBERS = {*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"}
_OURS = ("time", "level", "logger", "message", "exception")

_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|credential|api[-_]?key|private[-_]?key", re.I)
_SECRET_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A header in any notation: `Authorization: Bearer x`, `{'cookie': 'a=b; c=d'}`, `(b'cookie', b'a=b')`.
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

_PLAIN_VALUE = re.compile(r"[\w.:@/+-]+")


def configure_logging(
    format: LogFormat = "text", level: int | str = logging.INFO, *, stream: TextIO | None = None
) -> None:
    """Send every log line of the process to standard error, or this stream, in one format.

    It replaces the handlers of the root logger, so only the main program should call it. Start uvicorn with
    `log_config=None`; otherwise it sets its own handlers.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper() if isinstance(level, str) else level)
    for name in _RECONFIGURED:
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
        """The record as a line in ASCII, which every terminal and log collector can read."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(_message(record)),
            **_fields(record),
        }
        traceback = _traceback(self, record)
        if traceback:
            line["exception"] = redact(traceback)
        return json.dumps(line, allow_nan=False)


class TextFormatter(logging.Formatter):
    """One readable line per record; the lines of a traceback follow, each after a bar."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line: `2026-01-01T00:00:00.000Z INFO parley.engine: Hello agent=echo task=1`."""
        head = f"{_time(record)} {record.levelname} {record.name}: {escaped(redact(_message(record)))}"
        fields = [f"{escaped(name)}={_text_value(value)}" for name, value in _fields(record).items()]
        traceback = _traceback(self, record)
        rest = [f"  | {escaped(line)}" for line in redact(traceback).split("\n")] if traceback else []
        return "\n".join((" ".join((head, *fields)), *rest))


def redact(text: str) -> str:
    """The text with likely secrets replaced: `"Bearer abcdefgh"` → `"Bearer [redacted]"`."""
    for pattern, replacement in _SECRET_TEXTS:
        text = pattern.sub(replacement, text)
    return text


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # the arguments do not match the message: log both
        return f"{record.msg} {record.args!r}"


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts: list[str] = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The ids of the current call or run and trace, and the record's extra fields, which take precedence."""
    fields: dict[str, Any] = dict(log_context_ids())
    ids = current_trace_ids()
    if ids:
        fields["trace_id"], fields["span_id"] = ids
    for name, value in vars(record).items():
        if name not in _RECORD_MEMBERS:
            fields[f"extra_{name}" if name in _OURS else name] = _clean(name, value)
    return fields


def _clean(name: str, value: object, depth: int = 0) -> Any:
    """A value that can be encoded as JSON, without secrets."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case _ if _SECRET_NAME.search(name):
            return REDACTED
        case str():
            return redact(value)
        case Mapping() if depth < MAX_EXTRA_DEPTH:
            members = cast("Mapping[object, object]", value)
            return {str(key): _clean(str(key), member, depth + 1) for key, member in members.items()}
        case list() | tuple() if depth < MAX_EXTRA_DEPTH:
            return [_clean("", item, depth + 1) for item in cast("Sequence[object]", value)]
        case _:
            return redact(str(value))


def _text_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if _PLAIN_VALUE.fullmatch(text) else json.dumps(text)
