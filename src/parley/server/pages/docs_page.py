"""The documentation page of one agent: its skills, its URLs, and a curl command for each operation.

Its content comes from the card and the OpenAPI document. It is one file that loads nothing else, and works without
scripts. All content is escaped; the page must be sent with `CONTENT_SECURITY_POLICY`.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from parley.protocol import cards as c
from parley.protocol.cards import AgentCard
from parley.protocol.errors import WIRE_ERRORS
from parley.server.pages.openapi_elements import EVENT_STREAM, JSON
from parley.server.pages.sample_requests import SAMPLE_CONFIG_ID, SAMPLE_MESSAGE_ID, SAMPLE_TASK_ID
from parley.server.pages.wire_schemas import REF

_STATIC = Path(__file__).with_name("static")
_STYLE = (_STATIC / "docs.css").read_text()
_SCRIPT = (_STATIC / "docs.js").read_text()

PRINT_TASK_ID = 'import json, sys; print(json.load(sys.stdin)["task"]["id"])'


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src {_hash(_STYLE)}",
        f"script-src {_hash(_SCRIPT)}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""The header to send with the page: only its own style and script may run, and nothing may be loaded."""


def render(card: AgentCard, document: bytes, base_url: str) -> bytes:
    """The page as HTML, for an agent at this URL with this OpenAPI document."""
    described: dict[str, Any] = msgspec.json.decode(document)
    page = _Page(card, described, base_url.rstrip("/"))
    return "".join(page.write()).encode("utf-8", "replace")


class _Page:
    def __init__(self, card: AgentCard, document: dict[str, Any], base_url: str) -> None:
        self._card = card
        self._document = document
        self._url = base_url
        self._credentials = _credentials(card)

    def write(self) -> Iterator[str]:
        name = escape(self._card.name)
        yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f"<title>{name}</title><style>{_STYLE}</style></head><body>"
        yield from self._head(name)
        yield "<main>"
        yield from self._first_steps()
        yield from self._skills()
        yield from self._interfaces()
        yield from self._security()
        yield from self._operations()
        yield from self._objects()
        yield from _errors()
        yield "</main><footer>An agent of the A2A protocol, served by Parley.</footer>"
        yield f"<script>{_SCRIPT}</script></body></html>\n"

    def _head(self, name: str) -> Iterator[str]:
        card = self._card
        yield f'<header class="top"><div><h1>{name} <small>{escape(card.version)}</small></h1>'
        if card.description:
            yield f'<p class="lead">{escape(card.description)}</p>'
        yield "<nav>"
        yield from (
            f'<a href="#{anchor}">{text}</a>'
            for anchor, text in (("skills", "Skills"), ("interfaces", "Interfaces"), ("operations", "Operations"))
        )
        yield _link(f"{self._url}/.well-known/agent-card.json", "Agent card")
        yield _link(f"{self._url}/openapi.json", "OpenAPI document")
        if card.documentation_url:
            yield _link(card.documentation_url, "Documentation")
        if card.provider:
            yield _link(card.provider.url, card.provider.organization)
        yield "</nav></div></header>"

    # --- sections -----------------------------------------------------------------------------------------------------

    def _first_steps(self) -> Iterator[str]:
        yield "<h2>Send a message</h2>"
        path = "/message:send"
        send = self._document["paths"][path]["post"]
        yield _run(self._curl("POST", path, send))
        yield "<p>The commands below use the task that this one creates, without waiting for it to end:</p>"
        sample = send["requestBody"]["content"][JSON]["example"]
        start = self._curl("POST", path, send, body={**sample, "configuration": {"returnImmediately": True}})
        yield _run(f"TASK=$({start.replace('curl', 'curl -s', 1)} | python3 -c {shlex.quote(PRINT_TASK_ID)})")

    def _skills(self) -> Iterator[str]:
        yield '<h2 id="skills">Skills</h2><div class="cards">'
        for skill in self._card.skills:
            yield f'<section class="card"><h3>{escape(skill.name)}</h3><p>{escape(skill.description)}</p>'
            if skill.examples:
                yield "<ul>" + "".join(f"<li>{escape(example)}</li>" for example in skill.examples) + "</ul>"
            yield "".join(f'<span class="tag">{escape(tag)}</span>' for tag in skill.tags)
            yield "</section>"
        yield "</div>"

    def _interfaces(self) -> Iterator[str]:
        yield '<h2 id="interfaces">Interfaces</h2>'
        rows = [
            (
                _code(interface.url),
                escape(interface.binding),
                f"A2A {escape(interface.version)}",
                escape(interface.tenant or ""),
            )
            for interface in self._card.interfaces
        ]
        yield _table(("URL", "Binding", "Version", "Tenant"), rows)

    def _security(self) -> Iterator[str]:
        schemes = self._document["components"]["securitySchemes"]
        if not schemes:
            return
        yield '<h2 id="security">Authentication</h2><p>One of these rows is sufficient.</p>'
        rows: list[tuple[str, ...]] = []
        for requirement in self._card.security:
            needed = [
                f"{_code(name)} {escape(schemes.get(name, {}).get('type', ''))} {escape(' '.join(scopes))}"
                for name, scopes in requirement.items()
            ]
            rows.append((" and ".join(needed) or "nothing",))
        yield _table(("Credentials",), rows)

    def _operations(self) -> Iterator[str]:
        yield '<h2 id="operations">Operations</h2>'
        yield "<p>Paths of A2A 1.0 may start with a tenant: <code>/{tenant}/tasks</code>.</p>"
        for tag in (tag["name"] for tag in self._document["tags"]):
            yield f"<h3>{escape(tag)}</h3>"
            for path, item in self._document["paths"].items():
                for verb, operation in item.items():
                    # The root shows a page to browsers only, so a curl command for it would fail.
                    is_shown = not path.startswith("/{tenant}") and operation["operationId"] != "get_root"
                    if tag in operation["tags"] and is_shown:
                        yield from self._operation(verb.upper(), path, operation)

    def _operation(self, verb: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
        content = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
        examples = content.get("examples")
        if examples is None:
            fields = [*operation.get("parameters", ()), *self._body_fields(content.get("schema", {}))]
            about = operation["summary"]
            yield from self._details(verb, path, about, fields, self._curl(verb, path, operation))
            return
        for method, example in examples.items():
            fields = self._body_fields(self._method_schema(content["schema"], method))
            # A streaming method has events instead of a response.
            streams = f"jsonrpc.{method.replace('/', '.')}.response" not in self._document["components"]["schemas"]
            command = self._curl(verb, path, operation, body=example["value"], streams=streams)
            yield from self._details(verb, method, example["summary"], fields, command)

    def _details(self, verb: str, title: str, about: str, fields: Sequence[Any], command: str) -> Iterator[str]:
        yield f'<details><summary><span class="verb {verb.lower()}">{verb}</span>'
        yield f'<code class="path">{escape(title)}</code><span class="about">{escape(about)}</span></summary><div>'
        yield _run(command)
        if fields:
            rows = [
                (
                    _code(field["name"]) + (" *" if field["required"] else ""),
                    escape(field["in"]),
                    escape(self._type(field["schema"])),
                    escape(field.get("description", "")),
                )
                for field in fields
            ]
            yield _table(("Name", "In", "Type", "Meaning (* required)"), rows)
        yield "</div></details>"

    def _objects(self) -> Iterator[str]:
        yield '<h2 id="objects">Objects in requests</h2>'
        for name, schema in self._document["components"]["schemas"].items():
            if not name.endswith("Input"):
                continue
            required = schema["required"]
            rows = [
                (_code(member) + (" *" if member in required else ""), escape(self._type(about)))
                for member, about in schema["properties"].items()
            ]
            yield f'<details><summary><code class="path">{escape(name.removesuffix("Input"))}</code></summary><div>'
            yield _table(("Name (* required)", "Type"), rows) + "</div></details>"

    # --- schemas ------------------------------------------------------------------------------------------------------

    def _method_schema(self, schema: dict[str, Any], method: str) -> dict[str, Any]:
        whole = self._resolve({"$ref": schema["discriminator"]["mapping"][method]})
        return whole["properties"]["params"]

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The object schema behind references and alternatives; the first alternative is the usual one."""
        while "properties" not in schema:
            if "$ref" in schema:
                schema = self._document["components"]["schemas"][schema["$ref"].removeprefix(REF)]
            elif alternatives := schema.get("anyOf") or schema.get("allOf"):
                schema = alternatives[0]
            else:
                return {}
        return schema

    def _body_fields(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        whole = self._resolve(schema)
        required = whole.get("required", ())
        return [
            {"name": name, "in": "body", "required": name in required, "schema": member}
            for name, member in whole.get("properties", {}).items()
        ]

    def _type(self, schema: dict[str, Any]) -> str:
        """A short description of a schema: `list of v1_0.Part`, `integer`."""
        if "$ref" in schema:
            return schema["$ref"].removeprefix(REF).removesuffix("Input")
        if "anyOf" in schema:
            names = [self._type(member) for member in schema["anyOf"] if member.get("type") != "null"]
            return " or ".join(dict.fromkeys(names))
        if "enum" in schema:
            return ", ".join(str(value) for value in schema["enum"] if isinstance(value, str) and value)
        if schema.get("type") == "array":
            return f"list of {self._type(schema['items'])}"
        return str(schema.get("type", "any"))

    # --- commands -----------------------------------------------------------------------------------------------------

    def _curl(
        self, verb: str, path: str, operation: dict[str, Any], *, body: Any = None, streams: bool | None = None
    ) -> str:
        content = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
        body = body if body is not None else content.get("example")
        if streams is None:
            streams = EVENT_STREAM in operation["responses"]["200"]["content"]
        url = self._url + path.replace("{id}", SAMPLE_TASK_ID).replace("{config_id}", SAMPLE_CONFIG_ID)
        words = ["curl"]
        if streams:
            words.append("-N")
        if verb != "GET" and not (verb == "POST" and body is not None):
            words.append(f"-X {verb}")
        words.append(_shell_word(url))
        words += self._credentials if "security" not in operation else []
        words += self._required_headers(operation)
        if body is not None:
            words.append(f"-H 'Content-Type: {JSON}'")
            words.append(f"-d {_shell_word(msgspec.json.encode(body).decode())}")
        return " ".join(words)

    def _required_headers(self, operation: dict[str, Any]) -> list[str]:
        return [
            f"-H {shlex.quote(field['name'] + ': ' + field['schema']['enum'][0])}"
            for field in operation.get("parameters", ())
            if field["in"] == "header" and field["required"]
        ]


def _shell_word(text: str) -> str:
    """A word for the shell, with the task and a new message id as variables."""
    word = shlex.quote(text)
    # The variable has quotes of its own: zsh would read `"$TASK:cancel"` differently.
    for sample, value in ((SAMPLE_TASK_ID, '"$TASK"'), (SAMPLE_MESSAGE_ID, '"$(date +%s%N)"')):
        word = word.replace(sample, f"'{value}'" if word.startswith("'") else value)
    return word


# --- pieces of HTML ---------------------------------------------------------------------------------------------------


def _errors() -> Iterator[str]:
    yield '<h2 id="errors">Errors</h2>'
    rows = [
        (
            _code(error.row.reason),
            escape(error().message),
            f"<code>{error.row.code}</code>",
            f"{error.row.http}",
            f"{error.row.http_0_3}",
            escape(error.row.grpc),
        )
        for error in WIRE_ERRORS
    ]
    yield _table(("Reason", "Meaning", "JSON-RPC", "HTTP, 1.0", "HTTP, 0.3", "gRPC, 1.0"), rows)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _run(command: str) -> str:
    return f'<div class="run"><pre><code>{escape(command)}</code></pre></div>'


def _link(url: str, text: str) -> str:
    """A link, or only the text if the URL is not http or https (`javascript:…`)."""
    if not url.lower().startswith(("http://", "https://")):
        return escape(text)
    return f'<a href="{escape(url)}" rel="noreferrer">{escape(text)}</a>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells."""
    head = "".join(f"<th>{text}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _credentials(card: AgentCard) -> list[str]:
    """The curl options for the first requirement of the card."""
    names = card.security[0] if card.security else {}
    return [word for name in names if name in card.security_schemes for word in _show(card.security_schemes[name])]


def _show(scheme: c.SecurityScheme) -> list[str]:
    match scheme:
        case c.ApiKeyScheme(location=c.ApiKeyLocation.HEADER, name=name):
            return [f'-H {shlex.quote(name + ": ")}"$API_KEY"']
        case c.ApiKeyScheme(location=c.ApiKeyLocation.COOKIE, name=name):
            return [f'-b {shlex.quote(name + "=")}"$API_KEY"']
        case c.ApiKeyScheme(name=name):
            return [f'--url-query {shlex.quote(name + "=")}"$API_KEY"']
        case c.HttpAuthScheme(scheme=kind) if kind.lower() == "basic":
            return ['-u "$USERNAME:$PASSWORD"']
        case c.MutualTlsScheme():
            return ["--cert client.pem --key client.key"]
        case _:
            return ['-H "Authorization: Bearer $TOKEN"']
