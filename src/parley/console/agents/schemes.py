"""The security schemes of agents as the page shows them, with the ways in which the server can log in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from parley.client.credentials.oauth import flow_of
from parley.client.credentials.oauth_client import Flow as OAuthFlowName
from parley.client.credentials.schemes import resolve_scheme
from parley.console.scheme_views import Flow, Kind, SchemeField, view_scheme
from parley.protocol.cards import (
    AgentCard,
    HttpAuthScheme,
    MutualTlsScheme,
    OAuth2Scheme,
    OAuthFlows,
    OpenIdConnectScheme,
    SecurityScheme,
)
from parley.safe_text import printable_line

MOST_SCHEMES = 50
MOST_TEXT = 1_000
MOST_SCOPES = 100

UNDECLARED: dict[str, SecurityScheme] = {"bearer": HttpAuthScheme("Bearer"), "basic": HttpAuthScheme("Basic")}
"""What one can try where an agent shows no card without credentials, or a card that declares nothing."""

MUTUAL_TLS = (
    "A browser cannot present a client certificate through this page. Start `parley proxy URL --cert FILE --key FILE`, "
    "and add the URL of that proxy here."
)

OAUTH_FIELDS = (
    SchemeField("client_id", "Client id", is_secret=False, is_required=False),
    SchemeField("client_secret", "Client secret, if it has one", is_required=False),
    SchemeField("issuer", "Authorization server, if the card does not name it", is_secret=False, is_required=False),
    SchemeField("token", "Or an access token that you have", is_required=False),
)

FLOWS: dict[OAuthFlowName, Flow] = {
    OAuthFlowName.AUTHORIZATION_CODE: "redirect",
    OAuthFlowName.DEVICE_CODE: "device",
    OAuthFlowName.CLIENT_CREDENTIALS: "form",
}


class AgentSchemeView(Struct, frozen=True):
    """A scheme, the way that the page takes first, and the others that the server supports."""

    name: str
    kind: Kind
    description: str
    scheme: str
    fields: tuple[SchemeField, ...]
    flow: Flow
    flows: tuple[Flow, ...]
    scopes: dict[str, str]
    reason: str


def schemes_of(card: AgentCard | None) -> dict[str, SecurityScheme]:
    """The schemes with which one can log in at the agent of a card; None is a card that needs credentials itself."""
    declared = {} if card is None else card.security_schemes
    found = {name: resolve_scheme(scheme) for name, scheme in declared.items()}
    return dict(list(found.items())[:MOST_SCHEMES]) if found else UNDECLARED


def view_schemes(card: AgentCard | None) -> list[AgentSchemeView]:
    """These schemes as the page shows them."""
    return [_view(name, scheme) for name, scheme in schemes_of(card).items()]


def oauth_flows(scheme: OAuth2Scheme | OpenIdConnectScheme) -> Sequence[OAuthFlowName]:
    """The flows of a scheme that are supported, the best for a person first; all if the card does not list them."""
    is_bare = isinstance(scheme, OAuth2Scheme) and scheme.metadata_url and scheme.flows == OAuthFlows()
    if isinstance(scheme, OpenIdConnectScheme) or is_bare:
        return list(FLOWS)
    return [flow for flow in FLOWS if flow_of(scheme, flow) is not None]


def _view(name: str, scheme: SecurityScheme) -> AgentSchemeView:
    plain = view_scheme(name, scheme)
    fields, flow, reason = plain.fields, plain.flow, plain.reason
    flows: tuple[Flow, ...] = (flow,)
    scopes: dict[str, str] = {}
    if isinstance(scheme, OAuth2Scheme | OpenIdConnectScheme):
        fields = OAUTH_FIELDS
        flows = tuple(FLOWS[one] for one in oauth_flows(scheme)) or ("form",)  # a token can always be pasted
        flow, scopes = flows[0], _scopes(scheme)
    elif isinstance(scheme, MutualTlsScheme):
        reason = MUTUAL_TLS
    return AgentSchemeView(
        name=name[:MOST_TEXT],
        kind=plain.kind,
        description=printable_line(plain.description[:MOST_TEXT]),
        scheme=plain.scheme[:MOST_TEXT],
        fields=fields,
        flow=flow,
        flows=flows,
        scopes=scopes,
        reason=reason,
    )


def _scopes(scheme: OAuth2Scheme | OpenIdConnectScheme) -> dict[str, str]:
    found: dict[str, str] = {}
    for flow in FLOWS:
        declared = flow_of(scheme, flow)
        for scope, text in (declared.scopes if declared is not None else {}).items():
            found.setdefault(scope[:MOST_TEXT], printable_line(text[:MOST_TEXT]))
    return dict(list(found.items())[:MOST_SCOPES])
