"""Begins an authorization whose code the server's own callback endpoint receives: `turn.require_auth(oauth=…)`.

It finds the endpoints of the authorization server, makes the URL for the person, with PKCE and an unguessable
state, and keeps for the callback what it needs. `server/authorization_callback.py` is the other half.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime

from parley.agents.authorization import CALLBACK_PATH, OAuthCode, WantedAuthorization
from parley.client.credentials.oauth import UNKNOWN_SERVER, AuthorizationServer, Endpoints, find_endpoints
from parley.client.credentials.oauth_client import Flow, OAuthClient
from parley.client.guard import read_target
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpChannel
from parley.engine.credentials import PendingAuthorization
from parley.engine.runs.run import Run
from parley.protocol.errors import LocalProtocolError


async def begin_authorization(run: Run, name: str, wanted: WantedAuthorization, expires_at: datetime) -> str:
    """Keep what the callback endpoint needs for the question of a name, and return the URL for the person.

    Raises:
        LocalProtocolError: the server does not know its public URL.
        CredentialsError: the authorization server has no metadata, or cannot be reached.
    """
    oauth = wanted.oauth
    assert oauth is not None, "the caller checks it"
    base = run.engine.public_url
    if base is None:
        raise LocalProtocolError("The callback endpoint has no URL: give the server its public_url (--public-url)")
    client = OAuthClient(oauth.client_id, oauth.client_secret, issuer=oauth.issuer, resource=oauth.resource)
    async with authorization_channel(oauth.issuer or oauth.token_url or "") as channel:
        endpoints = await _endpoints(channel, oauth, client)
        server = AuthorizationServer(channel, client, endpoints)
        begun = server.start_authorization(base.rstrip("/") + CALLBACK_PATH, wanted.scopes)
    caller, key = run.caller, run.key
    pending = PendingAuthorization(
        tenant=key.owner.tenant,
        owner=key.owner.name,
        task_id=key.task_id,
        agent=run.program.id,
        question=name,
        redirect_uri=begun.redirect_uri,
        verifier=begun.verifier,
        token_url=endpoints.token_url,
        client_id=client.client_id,
        client_secret=client.client_secret,
        scopes=wanted.scopes,
        expires_at=expires_at,
        issuer=endpoints.issuer,
        secret_in_body=endpoints.secret_in_body,
        names_issuer=endpoints.names_issuer,
        resource=client.resource,
        caller_scopes=tuple(sorted(caller.scopes)),
        caller_claims=caller.claims,
        version=caller.version.value,
    )
    await run.engine.credentials.put_pending(begun.state, pending)
    return begun.url


async def _endpoints(channel: HttpChannel, oauth: OAuthCode, client: OAuthClient) -> Endpoints:
    if oauth.issuer is None:
        assert oauth.token_url is not None, "OAuthCode checks it"
        return Endpoints(oauth.token_url, oauth.authorization_url)
    return await find_endpoints(channel, UNKNOWN_SERVER, Flow.AUTHORIZATION_CODE, client=client)


@asynccontextmanager
async def authorization_channel(url: str) -> AsyncGenerator[HttpChannel]:
    """Connections to an authorization server that the agent's author has named, wherever it is."""
    connections = Connections()
    connections.trust_address(read_target(url).host)
    try:
        yield connections.channel
    finally:
        await connections.close()
