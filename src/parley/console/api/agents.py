"""Routes: the agents of a session, their cards, and logging in at them. Also what is below `/console/remote/`."""

from __future__ import annotations

from msgspec import Struct

from parley.client.credentials.origins import origin_of
from parley.client.discovery.discovery import Authenticate
from parley.client.errors import ClientError
from parley.client.guard import Guard
from parley.client.transports.transport import CallOptions
from parley.console.agents import added
from parley.console.agents.added import RemoteAgentEntry
from parley.console.agents.callback import CALLBACK_PATH, show_callback
from parley.console.agents.card_report import (
    CardReport,
    InterfaceView,
    ProblemView,
    SignatureView,
    report_card,
)
from parley.console.agents.catalogs import find_target
from parley.console.agents.connection import session_credentials
from parley.console.agents.connections import RemoteConnections, reachability_after, requires_login
from parley.console.agents.login import AgentLogins, LoginBody, LoginView, OAuthAnswer
from parley.console.agents.logins import in_memory, logins_of
from parley.console.agents.mount import call_remote
from parley.console.agents.own_calls import own_credentials
from parley.console.agents.roster import ListedAgent, Roster
from parley.console.agents.schemes import AgentSchemeView
from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleMount, ConsoleRoute
from parley.console.backend import OwnAgent
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import ParleyError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.versions import Version


class AgentQuery(Struct, frozen=True):
    """Which agents are listed."""

    q: str = ""


class NewAgentBody(Struct, frozen=True):
    """What a person adds."""

    url: str


class AgentDetails(Struct, frozen=True):
    """Everything about one agent."""

    agent: ListedAgent
    card: JsonObject | None
    card_version: str
    raw: JsonValue
    problems: list[ProblemView]
    signature: SignatureView
    interfaces: list[InterfaceView]
    schemes: list[AgentSchemeView]
    login: LoginView


# --- the list ---------------------------------------------------------------------------------------------------------


async def list_agents(call: ConsoleCall) -> ConsoleAnswer:
    """All agents of the session."""
    query = call.query(AgentQuery)
    roster = call.console.shared(Roster)
    return ConsoleAnswer(await roster.list(call.session, call.caller, call.request.base_url, query.q))


async def add_agent(call: ConsoleCall) -> ConsoleAnswer:
    """Add the agent at a URL, or the agents of a catalogue."""
    body = await call.read(NewAgentBody)
    if not call.session.id:
        raise ConsoleError("unsupported", "Agents are added to a session; programs call them themselves")
    connections = call.console.shared(RemoteConnections)
    try:
        url = added.read_url(body.url)
        target = await find_target(url, connections.policy.guard())
    except ParleyError as error:
        if isinstance(error, ConsoleError):
            raise
        reachability = reachability_after(error, connections.policy)
        code = "agent_error" if isinstance(error, ClientError) else "bad_request"
        raise ConsoleError(code, reachability.error or "The agent cannot be reached", path="$.url") from error
    if target.agent is not None:
        await added.add_agent(call.session, target.agent)
        await connections.drop(call.session, target.agent.id)
    elif target.catalog is not None:
        await added.add_catalog(call.session, target.catalog)
    listed = await call.console.shared(Roster).list(call.session, call.caller, call.request.base_url)
    return ConsoleAnswer(listed)


async def remove_agent(call: ConsoleCall) -> ConsoleAnswer:
    """Remove an agent or a catalogue that was added, with what the session has for it."""
    agent_id = call.path["id"]
    entry = next((one for one in added.added_in(call.session).agents if one.id == agent_id), None)
    if not await added.remove(call.session, agent_id):
        raise ConsoleError("not_found", "No such agent was added in this session")
    if entry is not None and not any(
        origin_of(one.url) == origin_of(entry.url) for one in added.added_in(call.session).agents
    ):
        await call.console.shared(AgentLogins).logout(call.session, entry)
    await call.console.shared(RemoteConnections).drop(call.session, agent_id)
    return ConsoleAnswer({})


# --- one agent --------------------------------------------------------------------------------------------------------


async def show_agent(call: ConsoleCall) -> ConsoleAnswer:
    """An agent with its card. An agent elsewhere is called for it."""
    own = call.backend.find_agent(call.caller, call.path["id"])
    return ConsoleAnswer(await (_own_details(call, own) if own is not None else _remote_details(call)))


async def _own_details(call: ConsoleCall, own: OwnAgent) -> AgentDetails:
    origin = call.request.base_url
    view = call.console.shared(Roster).view_own(own, origin)
    report = await report_card(view.address, Guard(), authenticate=own_credentials(call).apply, app=call.backend.app)
    login = LoginView(call.backend.needs_login, not call.caller.is_anonymous, "")
    return _details(view, report, login)


async def _remote_details(call: ConsoleCall) -> AgentDetails:
    entry = await find_entry(call)
    connections = call.console.shared(RemoteConnections)
    report = await _remote_report(call, entry)
    if report.error is not None:
        connections.note(call.session.id, entry.id, reachability_after(report.error, connections.policy))
    else:
        try:
            async with connections.using(call.session, entry):
                pass
        except ConsoleError as error:
            if error.code == "rate_limited":
                raise
    view = call.console.shared(Roster).view_remote(
        call.session, entry, is_added=call.console.shared(Roster).is_added(call.session, entry.id)
    )
    is_required = view.state == "needs_login" or (report.card is not None and requires_login(report.card))
    login = call.console.shared(AgentLogins).view(call.session, entry, is_required=is_required)
    return _details(view, report, login)


async def find_entry(call: ConsoleCall, agent_id: str | None = None) -> RemoteAgentEntry:
    """The agent elsewhere that a path means. Raises ConsoleError if the session has no such agent."""
    wanted = call.path["id"] if agent_id is None else agent_id
    roster = call.console.shared(Roster)
    entry = await roster.find_remote(call.session, call.caller, wanted, call.request.base_url)
    if entry is None:
        raise ConsoleError("not_found", "There is no such agent")
    if not call.session.id:
        raise ConsoleError("unsupported", "Agents elsewhere need a session; programs call them themselves")
    return entry


async def _remote_report(call: ConsoleCall, entry: RemoteAgentEntry) -> CardReport:
    connections = call.console.shared(RemoteConnections)
    return await report_card(
        entry.url,
        connections.guard(entry),
        authenticate=_authenticate(call, entry),
        private_hint=connections.policy.hint,
    )


def _authenticate(call: ConsoleCall, entry: RemoteAgentEntry) -> Authenticate | None:
    """Adds the session's credentials to a request for a private card, if there are some for its origin."""
    logins = in_memory(logins_of(call.session, origin_of(entry.url)))
    secrets = [one for one in logins.all() if one.secret is not None or one.tokens is not None]
    if not secrets:
        return None

    async def authenticate(options: CallOptions) -> CallOptions:
        from parley.client.transports.connections import Connections

        connections = Connections(guard=call.console.shared(RemoteConnections).guard(entry))
        unknown = AgentInterface(entry.url, Binding.HTTP_JSON, Version.V1_0)
        try:
            bound = session_credentials(logins).bind(
                AgentCard("", "", "", (unknown,)), target_url=entry.url, channel=connections.channel
            )
            return await bound.apply(options, unknown)
        finally:
            await connections.close()

    return authenticate


def _details(view: ListedAgent, report: CardReport, login: LoginView) -> AgentDetails:
    return AgentDetails(
        agent=view,
        card=report.card_json,
        card_version=report.card_version,
        raw=report.raw,
        problems=report.problems,
        signature=report.signature,
        interfaces=report.interfaces,
        schemes=report.schemes,
        login=login,
    )


# --- logging in -------------------------------------------------------------------------------------------------------


async def log_in(call: ConsoleCall) -> ConsoleAnswer:
    """Log in at an agent elsewhere, or go on with a login."""
    body = await call.read(LoginBody)
    entry = await find_entry(call)
    report = await _remote_report(call, entry)
    reply = await call.console.shared(AgentLogins).login(
        call.session, entry, report.card, body, redirect_uri=f"{call.request.base_url}{CALLBACK_PATH}"
    )
    return ConsoleAnswer(reply)


async def log_out(call: ConsoleCall) -> ConsoleAnswer:
    """Forget the credentials for an agent elsewhere."""
    entry = await find_entry(call)
    await call.console.shared(AgentLogins).logout(call.session, entry)
    return ConsoleAnswer({})


async def finish_login(call: ConsoleCall) -> ConsoleAnswer:
    """Finish a login with what an authorization server has sent the browser back with."""
    answer = await call.read(OAuthAnswer)
    logins = call.console.shared(AgentLogins)
    pending = await logins.redeem(call.session, answer)
    entry = await find_entry(call, pending.agent)
    await logins.finish_redirect(call.session, entry, pending, answer)
    return ConsoleAnswer({"state": "done", "agent": entry.id})


ROUTES = (
    ConsoleRoute("GET", "/agents", list_agents),
    ConsoleRoute("POST", "/agents", add_agent),
    ConsoleRoute("POST", "/agents/oauth", finish_login),
    ConsoleRoute("GET", "/agents/{id}", show_agent),
    ConsoleRoute("DELETE", "/agents/{id}", remove_agent),
    ConsoleRoute("POST", "/agents/{id}/login", log_in),
    ConsoleRoute("POST", "/agents/{id}/logout", log_out),
)

MOUNTS = (
    ConsoleMount("/remote/", call_remote),
    ConsoleMount("/oauth/", show_callback, needs_caller=False, needs_no_csrf=True),
)
