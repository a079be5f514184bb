"""Routes: checks of agents, as `parley check` makes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Struct

from parley import __version__
from parley.check.options import EXAMPLE_WEBHOOK, CheckOptions
from parley.check.report.formats import as_html, as_json, as_junit
from parley.check.rules import RULES
from parley.check.run import check as run_check
from parley.client.credentials.credentials import ANY_ORIGIN, Credentials, Secret
from parley.client.credentials.origins import origin_of
from parley.client.guard import Guard
from parley.console.agents.connection import session_credentials
from parley.console.agents.connections import RemoteConnections
from parley.console.agents.logins import in_memory, logins_of
from parley.console.agents.own_calls import own_credentials
from parley.console.agents.roster import Roster
from parley.console.api.agents import find_entry
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleRoute
from parley.console.checks.checks import Checks, report_json
from parley.console.checks.owner import check_owner
from parley.protocol.cards import ApiKeyLocation, ApiKeyScheme, Binding
from parley.protocol.versions import Version

MOST_MESSAGE = 10_000
LONGEST_TIMEOUT = 120.0

REPORTS = {
    "json": (as_json, "application/json"),
    "html": (as_html, "text/html; charset=utf-8"),
    "junit": (as_junit, "application/xml"),
}


class CheckBody(Struct, frozen=True):
    """What is checked, and how; as `parley check` has options."""

    agent: str
    message: str = "Hello"
    only: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    bindings: tuple[Literal["JSONRPC", "HTTP+JSON", "GRPC"], ...] = ()
    versions: tuple[Literal["0.1", "0.2", "0.3", "1.0"], ...] = ()
    timeout: float = 30.0
    webhook: str = EXAMPLE_WEBHOOK


class CheckRow(Struct, frozen=True):
    """A check in the list."""

    id: str
    agent: str
    agent_name: str
    state: str
    began_at: datetime
    counts: dict[str, int] | None


class CheckView(Struct, frozen=True):
    """A check with its report."""

    state: str
    report: msgspec.Raw | None
    error: str | None


class ReportQuery(Struct, frozen=True):
    """The format of a report."""

    format: Literal["json", "html", "junit"] = "json"


async def start_check(call: ConsoleCall) -> ConsoleAnswer:
    """Start a check of an agent."""
    call.backend.require(call.caller, "call")
    body = await call.read(CheckBody)
    if unknown := [rule for rule in body.only if rule not in RULES]:
        raise ConsoleError("bad_request", f"There is no rule {', '.join(unknown)[:200]}", path="$.only")
    if not body.message or len(body.message) > MOST_MESSAGE:
        raise ConsoleError("bad_request", f"It must have 1 to {MOST_MESSAGE} characters", path="$.message")
    if not 0.1 <= body.timeout <= LONGEST_TIMEOUT:
        raise ConsoleError("bad_request", f"It must be between 0.1 and {LONGEST_TIMEOUT:g} seconds", path="$.timeout")
    url, name, options = await _target(call, body)
    run = partial(
        run_check,
        url,
        options,
        only=body.only,
        bindings=_bindings(call, body),
        versions=[Version(version) for version in body.versions],
    )
    check_id = await call.console.shared(Checks).start(
        check_owner(call.session, call.caller), body.agent, name, lambda on_progress: run(on_progress=on_progress)
    )
    return ConsoleAnswer({"check": check_id})


def _bindings(call: ConsoleCall, body: CheckBody) -> list[Binding]:
    """The bindings that are checked; none stands for all.

    gRPC of an own agent is dialled, at the host of the server's URL. Without a public URL, that is the `Host` header of
    the caller, who could make a server on a network call any host.
    """
    wanted = [Binding(binding) for binding in body.bindings]
    is_own = call.backend.find_agent(call.caller, body.agent) is not None
    if not is_own or call.console.settings.is_loopback or call.backend.app.own_urls:
        return wanted
    if Binding.GRPC in wanted:
        raise ConsoleError("unsupported", "gRPC can be checked on a server with a public URL", path="$.bindings")
    return wanted or [Binding.JSONRPC, Binding.HTTP_JSON]


async def _target(call: ConsoleCall, body: CheckBody) -> tuple[str, str, CheckOptions]:
    """The URL of an agent, its name, and how it is checked: own agents in process, others with the session's logins."""
    about: dict[str, Any] = {
        "timeout": body.timeout,
        "text": body.message,
        "skills": tuple(dict.fromkeys(body.skills)),
        "made_by": f"Parley {__version__}",
        "webhook": body.webhook,
    }
    own = call.backend.find_agent(call.caller, body.agent)
    roster = call.console.shared(Roster)
    if own is not None:
        view = roster.view_own(own, call.request.base_url)
        options = CheckOptions(credentials=_own_credentials(call), guard=Guard(), app=call.backend.app, **about)
        return view.address, own.name, options
    entry = await find_entry(call, body.agent)
    logins = in_memory(logins_of(call.session, origin_of(entry.url)))
    guard = call.console.shared(RemoteConnections).guard(entry)
    options = CheckOptions(credentials=session_credentials(logins), guard=guard, **about)
    return entry.url, roster.view_remote(call.session, entry).name, options


def _own_credentials(call: ConsoleCall) -> Credentials:
    """The caller's credentials for this server. The check calls it in process, so they leave it for no other origin."""
    own = own_credentials(call)
    keys: dict[str, Secret] = {
        name: own.query[scheme.name]
        for name, scheme in call.backend.schemes.items()
        if isinstance(scheme, ApiKeyScheme) and scheme.location is ApiKeyLocation.QUERY and scheme.name in own.query
    }
    return Credentials(keys, headers=own.headers, origins=[ANY_ORIGIN])


async def list_checks(call: ConsoleCall) -> ConsoleAnswer:
    """The checks of this session, the newest first."""
    found = await call.console.shared(Checks).of_owner(check_owner(call.session, call.caller))
    rows = [
        CheckRow(one.id, one.agent, one.agent_name, one.state, datetime.fromtimestamp(one.began_at, UTC), one.counts)
        for one in found
    ]
    return ConsoleAnswer({"checks": rows})


async def show_check(call: ConsoleCall) -> ConsoleAnswer:
    """A check, with its report if it has ended."""
    checks = call.console.shared(Checks)
    check = await checks.get(check_owner(call.session, call.caller), call.path["id"])
    report = await checks.report(check)
    return ConsoleAnswer(CheckView(check.state, None if report is None else report_json(report), check.error))


async def download_report(call: ConsoleCall) -> ConsoleAnswer:
    """The report of a check as a file."""
    query = call.query(ReportQuery)
    checks = call.console.shared(Checks)
    check = await checks.get(check_owner(call.session, call.caller), call.path["id"])
    report = await checks.report(check)
    if report is None:
        raise ConsoleError("conflict", check.error or "The check has not ended")
    encode, content_type = REPORTS[query.format]
    ending = "xml" if query.format == "junit" else query.format
    headers = (
        (b"content-disposition", f'attachment; filename="parley-check.{ending}"'.encode()),
        (b"content-security-policy", b"sandbox; default-src 'none'; style-src 'unsafe-inline'"),
    )
    return ConsoleAnswer(encode(report), content_type=content_type, headers=headers)


async def stop_check(call: ConsoleCall) -> ConsoleAnswer:
    """Stop a check, or forget one that has ended."""
    await call.console.shared(Checks).stop(check_owner(call.session, call.caller), call.path["id"])
    return ConsoleAnswer({})


async def list_rules(call: ConsoleCall) -> ConsoleAnswer:
    """The rules that checks test."""
    return ConsoleAnswer({"rules": list(RULES.values())})


ROUTES = (
    ConsoleRoute("GET", "/checks", list_checks),
    ConsoleRoute("POST", "/checks", start_check),
    ConsoleRoute("GET", "/checks/rules", list_rules),
    ConsoleRoute("GET", "/checks/{id}", show_check),
    ConsoleRoute("DELETE", "/checks/{id}", stop_check),
    ConsoleRoute("GET", "/checks/{id}/report", download_report),
)
