"""A message as each dialect and binding would send it: as HTTP, as a curl command, and as Python.

Each has a new id, because an agent treats a message with a known id as a repeat. It is without what a host
has added to it, and without large files.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from parley.console.backend import OwnAgent
from parley.console.tasks.wire_forms import BINDING_NAMES, GRPC_EXTRA, every_binding
from parley.protocol.cards import Binding
from parley.protocol.extensions import DELEGATION
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, TextPart, UrlPart, is_plain_text
from parley.protocol.operations import SEND_MESSAGE, SEND_STREAMING_MESSAGE, Operation
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.versions import Version
from parley.proxy.trace_json import show_request

MAX_FILE = 16 * 1024
"""Bytes of a file that is part of a request here; a larger one is empty."""

MAX_ARGUMENT = 100_000
"""Characters of a body on a command line, of which Linux takes 131,072 in one argument."""

HOST_MEMBERS = "urn:parley:host-"
"""The prefix of members of metadata that a host adds, and accepts from no caller."""


class RequestForm(Struct, frozen=True, kw_only=True):
    """A request as one dialect and binding sends it, or the reason why there is no such form."""

    version: str
    binding: str
    title: str
    method: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    body: JsonValue = None
    curl: str = ""
    python: str = ""
    reason: str = ""


class RequestForms(Struct, frozen=True):
    """A message in all forms."""

    forms: list[RequestForm]


class RequestTarget(Struct, frozen=True):
    """Where requests to an agent go."""

    agent: OwnAgent
    origin: str
    """The URL of the server, without a trailing slash."""
    grpc: str | None = None
    """The address of its gRPC port, if it has one."""
    needs_token: bool = False
    """Whether the caller must authenticate with a bearer token."""

    @property
    def base_url(self) -> str:
        """The URL of the agent, without a trailing slash."""
        return self.origin + self.agent.path.rstrip("/")

    @property
    def rest_url(self) -> str:
        """The URL that the routes of REST are below."""
        return self.base_url if self.agent.rest_path is None else self.origin + self.agent.rest_path

    def jsonrpc_url(self) -> str:
        """The URL of JSON-RPC."""
        return self.base_url if self.agent.rest_path is not None else f"{self.base_url}/"


def request_forms(message: Message, target: RequestTarget, new_id: str, *, began_task: bool) -> RequestForms | None:
    """A message in every dialect and binding; None if no caller has sent it."""
    if message.role is not Role.USER:
        return None
    message = _as_sent(message, began_task=began_task)
    return RequestForms(
        [
            _form(structs.replace(message, message_id=f"{new_id}-{number}"), target, version, binding)
            for number, (version, binding) in enumerate(every_binding(), 1)
        ]
    )


def _as_sent(message: Message, *, began_task: bool) -> Message:
    """A message without what a server has added to it."""
    metadata = {
        name: value
        for name, value in message.metadata.items()
        if not name.startswith(HOST_MEMBERS) and name != DELEGATION
    }
    parts = tuple([structs.replace(p, raw=b"") if _is_large(p) else p for p in message.parts])
    task_id = None if began_task else message.task_id
    return structs.replace(message, task_id=task_id, metadata=metadata, parts=parts)


def _is_large(part: Part) -> bool:
    return isinstance(part, RawPart) and len(part.raw) > MAX_FILE


def _form(message: Message, target: RequestTarget, version: Version, binding: Binding) -> RequestForm:
    title = f"{version.value} {BINDING_NAMES[binding]}"
    operation = SEND_STREAMING_MESSAGE if target.agent.streams else SEND_MESSAGE
    form = RequestForm(version=version.value, binding=binding.value, title=title)
    if version is Version.V0_1 and message.task_id is None:  # its callers name their tasks themselves
        message = structs.replace(message, task_id=f"task-{message.message_id}")
    request = SendMessageRequest(message, SendConfiguration())
    try:
        what, body = show_request(operation, request, version, binding)
    except ImportError:
        return structs.replace(form, reason=GRPC_EXTRA)
    if isinstance(body, str):
        return structs.replace(form, reason=body[:1].upper() + body[1:])
    python = _python(message, target, version, binding)
    if binding is Binding.GRPC:
        if target.grpc is None:
            return structs.replace(form, method="POST", url=what, body=body, reason="This server has no gRPC port")
        return structs.replace(form, method="POST", url=f"{target.grpc}{what}", body=body, python=python)
    headers = {"Content-Type": "application/json"}
    if version is not Version.V0_3:  # which servers assume without it
        headers["A2A-Version"] = version.value
    if binding is Binding.HTTP_JSON:
        method, _, path = what.partition(" ")
        url = f"{target.rest_url}{path}"
    else:
        method, url = "POST", target.jsonrpc_url()
        body = {"jsonrpc": "2.0", "id": 1, "method": what, "params": body}
    curl = _curl(method, url, headers, body, target, operation)
    return structs.replace(form, method=method, url=url, headers=headers, body=body, curl=curl, python=python)


def _curl(
    method: str, url: str, headers: Mapping[str, str], body: JsonValue, target: RequestTarget, operation: Operation
) -> str:
    """A command for a POSIX shell. It is of ASCII only, so that nothing in it can look like something else."""
    text = json.dumps(body)
    is_long = len(text) > MAX_ARGUMENT
    words = ["curl", *(["--no-buffer"] if operation.streams else []), "--request", method, shlex.quote(url)]
    lines = [" ".join(words), *[f"--header {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]]
    if target.needs_token:
        lines.append('--header "Authorization: Bearer $TOKEN"')
    lines.append("--data-binary @request.json" if is_long else f"--data-binary {shlex.quote(text)}")
    command = " \\\n  ".join(lines)
    return f"# Save the body as request.json first.\n{command}" if is_long else command


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(message: Message, target: RequestTarget, version: Version, binding: Binding) -> str:
    """A program that sends the message with `parley.Client` and shows what comes."""
    contents = [_content(part) for part in message.parts]
    used = sorted({type(part).__name__ for part in message.parts if not is_plain_text(part)})
    options = {"context": message.context_id, "task": message.task_id, "metadata": dict(message.metadata) or None}
    if version is Version.V0_1:
        options["task"] = None  # the client chooses one
    arguments = [*contents, *[f"{name}={value!a}" for name, value in options.items() if value is not None]]
    about = [f"{target.base_url!a}", f"versions=[{version.value!a}]", f"bindings=[{binding.value!a}]"]
    if target.needs_token:
        about.append('credentials=os.environ["TOKEN"]')
    lines = [
        "import asyncio",
        *(["import os"] if target.needs_token else []),
        "",
        "from parley import Client",
        *([f"from parley.protocol.messages import {', '.join(used)}"] if used else []),
        "",
        "",
        "async def main() -> None:",
        f"    async with Client({', '.join(about)}) as agent:",
        "        async for update in agent.stream(",
        *[f"            {argument}," for argument in arguments],
        "        ):",
        '            print(update.text, end="", flush=True)',
        "        print()",
        "",
        "",
        "asyncio.run(main())",
        "",
    ]
    return "\n".join(lines)


def _content(part: Part) -> str:
    """A part as an expression."""
    if is_plain_text(part):
        return f"{part.text!a}"
    match part:
        case TextPart(text=value) | UrlPart(url=value):
            first = f"{value!a}"
        case RawPart(raw=raw):
            first = f"{raw!r}"
        case DataPart(data=data):
            first = f"{_plain(data)!a}"
    more: dict[str, Any] = {name: getattr(part, name) for name in ("media_type", "filename", "metadata")}
    members = [f"{name}={value!a}" for name, value in more.items() if value]
    return f"{type(part).__name__}({', '.join([first, *members])})"


def _plain(data: JsonValue) -> JsonValue:
    """The value as JSON has it: its repr is an expression of Python."""
    return msgspec.to_builtins(data)
