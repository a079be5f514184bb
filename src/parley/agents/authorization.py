"""In-task authorization for handlers: what `turn.require_auth` asks for, and what it returns.

A handler gets each credential once. If the run that got it was cut off before it recorded what it did, the next run
finds none, and asks the caller again. So use a credential in a step: a recorded step needs none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NoReturn

from msgspec import structs

from parley.agents.received_message import ReceivedMessage
from parley.engine.runs.run import Run
from parley.engine.sealed_answers import is_left_out, open_answer
from parley.protocol.authorization import (
    TEXT_SCHEMES,
    AnswerWay,
    GivenCredential,
    RequestedAuthorization,
    credential_in_parts,
    describing,
    refusal_in,
    stored_credential,
)
from parley.protocol.errors import LocalProtocolError
from parley.protocol.messages import Message, Part, TextPart
from parley.protocol.tasks import TaskState

CALLBACK_PATH = "/auth/callback"
"""Where the server receives the codes of authorization servers: register it there as the redirect URI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthCode:
    """An authorization server at which a person lets the agent act for them: authorization code with PKCE.

    Give the `issuer`, whose metadata names the endpoints, or both URLs. The server's own callback endpoint receives the
    code: `<public URL>/auth/callback`. A public client has no secret.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    resource: str | None = None

    def __post_init__(self) -> None:
        if self.issuer is None and (self.authorization_url is None or self.token_url is None):
            raise LocalProtocolError("OAuthCode needs an issuer, or authorization_url and token_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedAuthorization:
    """What a handler asks for: a description for programs, and how long a person has for it."""

    scheme: str | None = None
    url: str | None = None
    scopes: tuple[str, ...] = ()
    oauth: OAuthCode | None = None
    lifetime: timedelta = timedelta(minutes=10)

    @property
    def is_described(self) -> bool:
        """Whether there is more to it than a text."""
        return self != WantedAuthorization(lifetime=self.lifetime)

    @property
    def request(self) -> RequestedAuthorization:
        """What the caller is asked for; the URL of `oauth` and its end are not known yet."""
        way = AnswerWay.CREDENTIAL if self.oauth is None else AnswerWay.CALLBACK
        scheme = self.scheme or "Bearer"
        # A URL without a scheme is where a person logs in, and any text may say that it is done.
        is_for_login = self.oauth is not None or (self.scheme is None and self.url is not None)
        takes_text = not is_for_login and scheme.lower() in TEXT_SCHEMES
        return RequestedAuthorization(scheme, self.url, self.scopes, way, takes_text=takes_text)


class CredentialNeeded(Exception):
    """A handler uses a credential that it does not have; the caller is asked again, unless the handler catches this."""

    def __init__(self, ask_again: Callable[[], Awaitable[NoReturn]]) -> None:
        super().__init__("There is no credential: an earlier run has used it, it has expired, or none was given")
        self.ask_again = ask_again


class AuthorizationRefusedError(Exception):
    """The person, or the authorization server, has refused; `error` is the code of OAuth, such as `access_denied`."""

    def __init__(self, error: str) -> None:
        super().__init__(f"The authorization was refused: {error}")
        self.error = error


class Authorized(ReceivedMessage):
    """The answer to `turn.require_auth`, with the credential, if there is one."""

    def __init__(
        self, message: Message, run: Run, given: GivenCredential | None, ask_again: Callable[[], Awaitable[NoReturn]]
    ) -> None:
        super().__init__(message, run.engine.files)
        self._given = given
        self._ask_again = ask_again

    def __repr__(self) -> str:
        return f"Authorized(has_credential={self.has_credential})"

    @property
    def has_credential(self) -> bool:
        """Whether this run was given the credential."""
        return self._given is not None

    @property
    def error(self) -> str | None:
        """The error code of OAuth, if the authorization was refused: `access_denied`."""
        return refusal_in(self.message)

    @property
    def credential(self) -> str:
        """The credential: a token, a key, or what the scheme calls for.

        Raises:
            AuthorizationRefusedError: it was refused. If the handler does not catch it, the task fails for that reason.
            CredentialNeeded: there is none. If the handler does not catch it, the caller is asked again.
        """
        if self._given is not None:
            return self._given.value
        if self.error is not None:
            raise AuthorizationRefusedError(self.error)
        raise CredentialNeeded(self._ask_again)

    @property
    def scheme(self) -> str:
        """The scheme of the credential, such as `Bearer`. Raises as `credential` does."""
        return self._given.scheme if self._given is not None else self.credential

    @property
    def expires_at(self) -> datetime | None:
        """When the credential ends, if that is known."""
        return self._given.expires_at if self._given is not None else None


async def require_authorization(
    run: Run, number: int, question: tuple[Part, ...], wanted: WantedAuthorization
) -> Authorized:
    """The answer to a demand for authorization, if there is one; otherwise demand it and end the run.

    `number` counts the demands of a run. Of several answers to one demand, the newest counts.

    Raises:
        Stopped: it was demanded, and the task waits.
    """
    name = f"parley:authorization {number}" if wanted.is_described else ""
    refused = ""

    async def ask() -> NoReturn:
        await _ask(run, name, question, wanted, refused)
        raise AssertionError("it ends the run")

    if not name:
        answer = await run.ask(TaskState.AUTH_REQUIRED, question)
    else:
        newest: Message | None = None
        while (taken := run.journal.take_answer(name)) is not None:
            newest = taken
        if newest is None:
            await ask()
        assert newest is not None
        if is_left_out(newest):
            answer = newest  # with the id of a credential that is not here either: who uses it asks again
            if stored_credential(answer) is None and refusal_in(answer) is None:
                await ask()
        else:
            answer = open_answer(run.engine.store.sealer, run.key, newest)
    id = stored_credential(answer)
    if name and id is None and wanted.oauth is None and not is_left_out(answer):
        found = credential_in_parts(wanted.request, answer)
        refused = found if isinstance(found, str) else ""
    if id is None and wanted.oauth is not None and refusal_in(answer) is None:
        await ask()  # with another URL: the caller may say by any message that it needs one
    given = None if id is None else await run.engine.credentials.take(run.key, id)
    return Authorized(answer, run, given, ask)


async def _ask(run: Run, name: str, question: tuple[Part, ...], wanted: WantedAuthorization, refused: str) -> None:
    """Demand it; `refused` says what was wrong with the answer before."""
    if not name:
        await run.ask(TaskState.AUTH_REQUIRED, question)
        return
    request = wanted.request
    expires_at = run.engine.clock.now() + wanted.lifetime
    if wanted.oauth is not None:
        from parley.agents.authorization_code import begin_authorization  # not above: few agents need an HTTP client

        request = structs.replace(request, url=await begin_authorization(run, name, wanted, expires_at))
    if request.url is not None:
        request = structs.replace(request, expires_at=expires_at)
    texts = tuple(TextPart(f"\n{text}") for text in (request.url, refused) if text)
    message = describing(run.agent_message((*question, *texts)), request)
    await run.ask(TaskState.AUTH_REQUIRED, message.parts, name=name, message=message)
