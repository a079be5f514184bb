"""The callback endpoint of in-task authorization: it exchanges a code for a token, and the task goes on.

A browser comes here from an authorization server. The state in its query is unguessable and good once; it stands for
one question of one task of one owner, and expires. The token goes to the task as a message that continues it does, so
that any replica may receive the callback, whichever holds the task. Replies are pages for people, and say nothing of
the task. Spec: RFC 6749 section 4.1.2, RFC 7636, RFC 9207, RFC 9700 section 2.1.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime

from parley.agents.authorization_code import authorization_channel
from parley.client.credentials.oauth import AuthorizationRequest, AuthorizationServer, Endpoints, RefusedError
from parley.client.credentials.oauth_client import OAuthClient
from parley.client.errors import ClientError
from parley.engine.caller import Caller
from parley.engine.credentials import PendingAuthorization
from parley.engine.engine import Engine
from parley.engine.runs.journal import Journal
from parley.protocol.authorization import GivenCredential, encode_credential
from parley.protocol.errors import A2AError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest
from parley.stores.interface import Owner, StoreError, TaskKey

logger = logging.getLogger(__name__)

MAX_VALUE = 4_096
"""The longest parameter of a callback. Codes of the largest authorization servers have about two kilobytes."""

HEADERS: tuple[Header, ...] = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),  # the URL holds the code
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
)

DONE = "You can close this window. The agent goes on."
REFUSED = "Access was not granted. The agent was told."
INVALID = "This link is not valid, was used before, or has expired. Ask the agent for another one."
FAILED = "The authorization server did not give the agent a token. Ask the agent for another link."
UNAVAILABLE = "The agent cannot go on now. Ask it for another link."


class AuthorizationCallback:
    """Receives the codes of authorization servers for the tasks of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def receive(self, request: AsgiRequest) -> None:
        """Answer one request of a browser."""
        if request.verb != "GET":
            await request.reply(405, b"", b"text/plain", ((b"allow", b"GET"),))
            return
        try:
            status, text = await self._finish({name: values[0] for name, values in request.query.items()})
        except (StoreError, A2AError) as error:
            logger.warning("An authorization could not be finished: %s", error)
            status, text = 503, UNAVAILABLE
        page = f'<!doctype html><html lang="en"><title>Authorization</title><p>{text}</p></html>'
        await request.reply(status, page.encode(), b"text/html; charset=utf-8", HEADERS)

    async def _finish(self, answer: dict[str, str]) -> tuple[int, str]:
        """Use a state, and give its task the credential, or the reason why there is none."""
        state = answer.get("state", "")
        if not state or any(len(value) > MAX_VALUE for value in answer.values()):
            return 400, INVALID
        pending = await self._engine.credentials.take_pending(state)
        if pending is None or not await self._is_awaited(pending):
            return 400, INVALID
        try:
            credential = await _redeem(pending, state, answer)
        except RefusedError as error:
            # A refusal of the person ends the question; one of the token endpoint is nothing that the task can use.
            if "code" in answer:
                logger.warning("Task %s: %s", pending.task_id, error, extra={"task": pending.task_id})
                return 502, FAILED
            refused: JsonObject = {AUTHORIZATION_REQUEST: {"error": error.error}}
            await self._continue(pending, state, "The authorization was refused.", refused)
            return 200, REFUSED
        except ClientError as error:
            logger.warning("Task %s: %s", pending.task_id, error, extra={"task": pending.task_id})
            return 502, FAILED
        await self._continue(pending, state, "Authorized.", encode_credential(credential))
        return 200, DONE

    async def _is_awaited(self, pending: PendingAuthorization) -> bool:
        """Whether the task still waits for the answer to this very question."""
        key = _key(pending)
        head = await self._engine.store.tasks.head(key)
        if head is None or head.agent != pending.agent or head.state is not TaskState.AUTH_REQUIRED:
            return False
        return Journal.read(await self._engine.views.events(key)).last_question == pending.question

    async def _continue(self, pending: PendingAuthorization, state: str, text: str, metadata: JsonObject) -> None:
        """Send the message that continues the task, as its owner."""
        id = hashlib.sha256(f"authorization {state}".encode()).hexdigest()[:32]
        message = Message(id, Role.USER, (TextPart(text),), task_id=pending.task_id, metadata=metadata)
        request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
        caller = Caller(
            pending.owner,
            pending.tenant,
            frozenset(pending.caller_scopes),
            pending.caller_claims,
            Version(pending.version),
        )
        await self._engine.agent(pending.agent).send_message(request, caller)


async def _redeem(pending: PendingAuthorization, state: str, answer: dict[str, str]) -> GivenCredential:
    """The token for the code in a callback. Raises ClientError."""
    endpoints = Endpoints(
        pending.token_url,
        issuer=pending.issuer,
        secret_in_body=pending.secret_in_body,
        names_issuer=pending.names_issuer,
    )
    client = OAuthClient(pending.client_id, pending.client_secret, resource=pending.resource)
    begun = AuthorizationRequest("", pending.redirect_uri, state, pending.verifier)
    async with authorization_channel(pending.token_url) as channel:
        server = AuthorizationServer(channel, client, endpoints)
        tokens = await server.finish_authorization(begun, answer, pending.scopes)
    expires_at = None if tokens.expires_at is None else datetime.fromtimestamp(tokens.expires_at, UTC)
    return GivenCredential(tokens.access_token, "Bearer", expires_at)


def _key(pending: PendingAuthorization) -> TaskKey:
    return TaskKey(Owner(pending.tenant, pending.owner), pending.task_id)
