"""In-task authorization as messages carry it: what an agent asks for, and the credential that a caller gives.

Both are in the member `urn:parley:authorization-request:1` of a message's metadata, which every dialect has. Clients
that do not know it find what is asked for in a data part, in the members of 0.3's PushNotificationAuthenticationInfo,
and give the credential in such a part, or as the only text of a message. A credential is taken out of the message
before the message is stored; what stays says that there was one. These are pure functions on messages; where
credentials are kept is the engine's concern. Spec: 1.0 section 7.6, 0.3 section 4.5.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct, structs

from parley.protocol.errors import InvalidParamsError
from parley.protocol.extensions import AUTHORIZATION_REQUEST
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.lifecycle import is_interrupted
from parley.protocol.masking import MASK
from parley.protocol.messages import DataPart, Message, Part, TextPart
from parley.protocol.tasks import TaskStatus

MAX_CREDENTIAL = 16 * 1024
"""Characters. Tokens with many claims have several kilobytes; HTTP servers take about this much in one header."""

MAX_URL = 8 * 1024
"""Characters. The state and the scopes in it may have some kilobytes."""

MAX_SCHEME = 100
"""Characters of the name of a scheme."""

_WEB_PAGE = re.compile(r"https?://[\x21-\x7e]+", re.IGNORECASE)
"""What clients may open: an agent could name a file, the URL of a program, or an option of the browser instead."""

TEXT_SCHEMES = frozenset({"apikey", "bearer", "basic"})
"""Schemes whose credential is one word, as in a header, so that a message that is one word can be the credential."""

_PATH = f"$.message.metadata['{AUTHORIZATION_REQUEST}']"


class AnswerWay(StrEnum):
    """How an authorization gets back to the agent."""

    CREDENTIAL = "credential"
    """The caller continues the task with the credential."""
    CALLBACK = "callback"
    """The agent's own callback endpoint receives it, and the task goes on by itself."""


class RequestedAuthorization(Struct, frozen=True, gc=False):
    """What an agent needs before its task can go on."""

    scheme: str = "Bearer"
    """The HTTP scheme or the kind of credential: `Bearer`, `Basic`, `ApiKey`."""
    url: str | None = None
    """Where a person authorizes it: a page of the web."""
    scopes: tuple[str, ...] = ()
    answer: AnswerWay = AnswerWay.CREDENTIAL
    expires_at: datetime | None = None
    """After which the URL is of no use, and the agent must be asked for another."""
    takes_text: bool = False
    """Whether a message that is one text without spaces is the credential, from clients that do not know the extension.
    Not where a person may answer that they have logged in at the URL."""


class GivenCredential(Struct, frozen=True, gc=False):
    """A credential that a caller, or the callback endpoint, gives to a task."""

    value: str
    scheme: str = "Bearer"
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"GivenCredential(…, {self.scheme!r})"


def encode_authorization(request: RequestedAuthorization) -> JsonObject:
    """The metadata of the message that asks for an authorization."""
    asked: JsonObject = {"scheme": request.scheme, "answer": request.answer.value}
    if request.url is not None:
        asked["url"] = request.url
    if request.scopes:
        asked["scopes"] = list(request.scopes)
    if request.expires_at is not None:
        asked["expiresAt"] = request.expires_at.isoformat()
    if request.takes_text:
        asked["text"] = True
    return {AUTHORIZATION_REQUEST: asked}


def describing(message: Message, request: RequestedAuthorization) -> Message:
    """The message with what it asks for in its metadata, and as a data part for clients that do not know those."""
    described: JsonObject = {"schemes": [request.scheme]}
    if request.url is not None:
        described["url"] = request.url
    if request.scopes:
        described["scopes"] = list(request.scopes)
    metadata = {**message.metadata, **encode_authorization(request)}
    message = structs.replace(message, metadata=metadata)
    return structs.replace(message, parts=(*without_description(message), DataPart(described)))


def without_description(message: Message) -> tuple[Part, ...]:
    """The parts of a message that are for people: without the one that `describing` has added."""
    if AUTHORIZATION_REQUEST not in message.metadata:
        return message.parts
    return tuple(part for part in message.parts if not _is_description(part))


def _is_description(part: Part) -> bool:
    return isinstance(part, DataPart) and isinstance(part.data, dict) and "schemes" in part.data


def decode_authorization(status: TaskStatus) -> RequestedAuthorization | None:
    """What a task in `auth-required` asks for; None if it does not say so in a way that programs understand."""
    if not is_interrupted(status.state) or status.message is None:  # 0.1 has no state of its own for it
        return None
    asked = status.message.metadata.get(AUTHORIZATION_REQUEST)
    if not isinstance(asked, dict):
        return None
    url, scheme, scopes = asked.get("url"), asked.get("scheme"), asked.get("scopes")
    return RequestedAuthorization(
        scheme if isinstance(scheme, str) else "Bearer",
        url if isinstance(url, str) and len(url) <= MAX_URL and _WEB_PAGE.fullmatch(url) else None,
        tuple(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else (),
        AnswerWay.CALLBACK if asked.get("answer") == AnswerWay.CALLBACK else AnswerWay.CREDENTIAL,
        _moment(asked.get("expiresAt")),
        asked.get("text") is True,
    )


def encode_credential(credential: GivenCredential) -> JsonObject:
    """The metadata of the message that gives a credential."""
    given: JsonObject = {"credential": credential.value, "scheme": credential.scheme}
    if credential.expires_at is not None:
        given["expiresAt"] = credential.expires_at.isoformat()
    return {AUTHORIZATION_REQUEST: given}


def decode_credential(message: Message) -> GivenCredential | None:
    """The credential in a message, if it has one.

    Raises:
        InvalidParamsError: it is too long or not a text, or the message refers to one that was stored.
    """
    given = message.metadata.get(AUTHORIZATION_REQUEST)
    if given is None:
        return None
    if not isinstance(given, dict) or "masked" in given:
        raise InvalidParamsError("Must be an object with a credential", path=_PATH)
    value, scheme, expires_at = given.get("credential"), given.get("scheme", "Bearer"), given.get("expiresAt")
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CREDENTIAL:
        raise InvalidParamsError(f"Must be a text of up to {MAX_CREDENTIAL} characters", path=f"{_PATH}.credential")
    if not isinstance(scheme, str) or not 0 < len(scheme) <= MAX_SCHEME:
        raise InvalidParamsError("Must be the name of a scheme", path=f"{_PATH}.scheme")
    moment = _moment(expires_at)
    if expires_at is not None and moment is None:
        raise InvalidParamsError("Must be a moment such as 2026-01-31T12:00:00Z", path=f"{_PATH}.expiresAt")
    return GivenCredential(value, scheme, moment)


def credential_in_parts(asked: RequestedAuthorization, message: Message) -> GivenCredential | str:
    """The credential in the parts of a message that answers a demand; if there is none, why not, as a sentence."""
    answers = [part.data for part in message.parts if isinstance(part, DataPart) and isinstance(part.data, dict)]
    given = next((data for data in answers if "credentials" in data), None)
    if given is not None:
        return _credential_in_data(asked, given)
    if not asked.takes_text:
        return 'The answer has no credential. Send it as a data part: {"credentials": "…"}'
    match message.parts:
        case (TextPart(text=text),) if _is_one_word(value := text.strip()):
            return GivenCredential(value, asked.scheme)
        case _:
            return (
                "The answer has no credential. "
                'Send it as one text part without spaces, or as a data part: {"credentials": "…"}'
            )


def _credential_in_data(asked: RequestedAuthorization, given: JsonObject) -> GivenCredential | str:
    value, schemes = given["credentials"], given.get("schemes", [asked.scheme])
    if not isinstance(value, str):
        return "`credentials` in the answer must be a string"
    if not 0 < len(value) <= MAX_CREDENTIAL:
        return f"`credentials` in the answer must have 1 to {MAX_CREDENTIAL:,} characters, and has {len(value):,}"
    if value == MASK:
        return f"`credentials` in the answer is {MASK}, which only stands for one. Send the credential"
    match schemes:
        case [str(scheme), *_] if 0 < len(scheme) <= MAX_SCHEME:
            return GivenCredential(value, scheme)
        case _:
            return "`schemes` in the answer must be a list with the name of the scheme"


def _is_one_word(text: str) -> bool:
    """Whether a text can be a key or a token; a sentence and a mask cannot."""
    return 0 < len(text) <= MAX_CREDENTIAL and len(text.split()) == 1 and text != MASK


def without_credential_in_parts(message: Message, credential: GivenCredential, kept_as: str) -> Message:
    """The message as others may see it, whose parts held a credential; `kept_as` is the id under which it is stored."""
    masked: JsonObject = {"scheme": credential.scheme, "masked": kept_as}
    parts = tuple(_masked_part(part, credential.value) for part in message.parts)
    return structs.replace(message, parts=parts, metadata={**message.metadata, AUTHORIZATION_REQUEST: masked})


def _masked_part(part: Part, secret: str) -> Part:
    match part:
        case TextPart() if secret in part.text:
            return TextPart(MASK)
        case DataPart(data=dict() as data) if "credentials" in data:
            return DataPart({**data, "credentials": MASK})
        case _:
            return part


def without_credential(message: Message, kept_as: str = "") -> Message:
    """The message as others may see it; `kept_as` is the id under which its credential is stored."""
    given = message.metadata.get(AUTHORIZATION_REQUEST)
    if not isinstance(given, dict) or "credential" not in given:
        return message
    masked: JsonObject = {name: value for name, value in given.items() if name != "credential"}
    masked["masked"] = kept_as or True
    return structs.replace(message, metadata={**message.metadata, AUTHORIZATION_REQUEST: masked})


def stored_credential(message: Message) -> str | None:
    """The id under which the credential of a message in the log is stored, if it had one."""
    given = message.metadata.get(AUTHORIZATION_REQUEST)
    id = given.get("masked") if isinstance(given, dict) else None
    return id if isinstance(id, str) else None


def refusal_in(message: Message) -> str | None:
    """Why there is no credential, if the authorization was refused: an error code of OAuth such as `access_denied`."""
    given = message.metadata.get(AUTHORIZATION_REQUEST)
    error = given.get("error") if isinstance(given, dict) else None
    return error if isinstance(error, str) else None


def _moment(value: JsonValue) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
