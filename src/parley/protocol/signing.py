"""Signs agent cards and verifies their signatures: JWS (RFC 7515) over the card in canonical JSON (RFC 8785).

A signature covers a written document, so this module alone in `protocol` works on the card's 1.0 JSON object instead of
an `AgentCard`. It fetches no keys: the caller looks them up by the protected header (`kid`, `jku`). The rule that stays
true: the key decides the algorithm, never the header; `none` and shared secrets are never accepted. A verified
signature vouches for its `payload` and for nothing else: members that prune to empty, and the endpoints of other
releases, could be in the document unsigned. So a verified card is read from there, as 1.0. Spec: 1.0 section 8.4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import rfc8785
from joserfc.errors import InvalidKeyTypeError, JoseError, SecurityWarning
from joserfc.util import json_b64encode, urlsafe_b64decode, urlsafe_b64encode
from msgspec import Struct

from parley.protocol.cards import CardSignature
from parley.protocol.errors import LocalProtocolError, ParleyError, SignatureInvalidError
from parley.protocol.jsonvalue import JsonObject, JsonValue

# Keys are handled by modules that take longer to import than all of `protocol`, and that few servers and clients need.
# So the functions that are given a key import them.
if TYPE_CHECKING:
    from joserfc.jwk import DictKey, ECKey, OKPKey, RSAKey

CardKey: TypeAlias = "RSAKey | ECKey | OKPKey"
"""A key for cards: RSA of at least 2048 bits (RS256), EC on P-256 (ES256) or Ed25519 (EdDSA), private or public."""

ALGORITHMS = ("ES256", "RS256", "EdDSA")

MAX_SIGNATURES = 16
"""How many signatures of a card are checked. Key rotation needs two or three; a card from an unknown server must not
cause more work than that."""

_MIN_RSA_BITS = 2048  # NIST SP 800-131A
_PRIVATE_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})  # RFC 7518 sections 6.2.2 and 6.3.2, RFC 8037


class CardForm(StrEnum):
    """The canonical forms that signers use, in the order in which they are tried."""

    SPEC = "spec"
    """The members of 1.0 under the presence rules of section 8.4.1."""
    SPEC_FILLED = "spec, absent required members filled in"
    """The same as it was signed, where the server then left out required members because they are empty."""
    SPEC_UNKNOWN = "spec, unknown members included"
    """The same with members that 1.0 does not have: a newer signer may include them."""
    NO_EMPTIES = "no empties"
    """The members of 1.0 without anything empty, even where required: what a2a-sdk 1.3.0 signs."""
    NO_EMPTIES_UNKNOWN = "no empties, unknown members included"


class ProtectedHeader(Struct, frozen=True):
    """The header that a signature protects. It is not verified yet."""

    algorithm: str
    key_id: str
    jku: str | None = None


class VerifiedSignature(Struct, frozen=True):
    """The signature that verified: its index in `signatures`, its header, and the form of the card it covers.

    `payload` is what it covers: canonical JSON. Read the card from there and nowhere else, with
    `v1_0.DIALECT.decode_card(verified.payload)`. The document around it may hold unsigned members: a requirement or
    scheme that prunes to empty, or the members of another release.
    """

    index: int
    header: ProtectedHeader
    form: CardForm
    payload: bytes


def load_key(source: CardKey | Mapping[str, object] | str | bytes) -> CardKey:
    """The key in a PEM text or a JWK object, private or public.

    Raises:
        LocalProtocolError: it cannot be read, or cards are not signed with keys of its kind.
    """
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = _import_key(source)
    # joserfc warns of short RSA keys, which is an exception where warnings are errors; cryptography reports an
    # encrypted PEM as a TypeError; an unknown curve is a KeyError.
    except (JoseError, SecurityWarning, UnsupportedAlgorithm, ValueError, TypeError, KeyError) as exc:
        raise LocalProtocolError(f"The key cannot be read: {exc}") from exc
    algorithm_of(key)
    return key


def public_members(jwk: Mapping[str, object]) -> dict[str, object]:
    """A JWK of a key set without private members: to import them takes as long as the sender of the set likes."""
    return {name: value for name, value in jwk.items() if name not in _PRIVATE_MEMBERS}


def _import_key(source: CardKey | Mapping[str, object] | str | bytes) -> CardKey:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    if isinstance(source, RSAKey | ECKey | OKPKey):
        return source
    key_classes = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    if isinstance(source, Mapping):
        key_class = key_classes.get(str(source.get("kty")))
        if key_class:
            return key_class.import_key(cast("DictKey", dict(source)))  # which checks the types of the members
    else:
        for key_class in key_classes.values():
            with suppress(InvalidKeyTypeError):
                return key_class.import_key(source)
    raise InvalidKeyTypeError("it is neither RSA nor EC nor OKP")


def algorithm_of(key: CardKey) -> str:
    """The algorithm that a key signs with: `ES256`, `RS256` or `EdDSA`.

    Raises:
        LocalProtocolError: cards are not signed with keys of its kind.
    """
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    match key:
        case RSAKey() if key.raw_value.key_size >= _MIN_RSA_BITS:
            return "RS256"
        case ECKey() if key.raw_value.curve.name == "secp256r1":
            return "ES256"
        case OKPKey() if key.curve_name == "Ed25519":
            return "EdDSA"
        case _:
            raise LocalProtocolError("Cards are signed with RSA keys of at least 2048 bits, P-256 or Ed25519 keys")


def signing_payload(card: JsonObject, form: CardForm = CardForm.SPEC) -> bytes:
    """What a signature of this card covers: the canonical bytes of one of its forms.

    Raises:
        LocalProtocolError: the card has none, because a number is too large or a text is not Unicode.
    """
    try:
        return _payload(card, form)
    except (ValueError, RecursionError) as exc:
        raise LocalProtocolError(f"The card has no canonical form: {exc}") from exc


def sign_card(
    card: JsonObject,
    key: CardKey,
    *,
    key_id: str,
    jku: str | None = None,
    form: CardForm = CardForm.SPEC,
) -> CardSignature:
    """A signature to append to the card's `signatures`; those it has already do not matter.

    `jku` is the URL of the key set that holds the public key. A card with empty members, such as a
    security requirement without scopes, needs a second signature in the form `NO_EMPTIES` if a2a-sdk 1.3.0 is to
    verify it.

    Raises:
        LocalProtocolError: the key cannot sign, or the card has no canonical form.
    """
    return make_signature(
        card, partial(sign_bytes, key), algorithm=algorithm_of(key), key_id=key_id, jku=jku, form=form
    )


def make_signature(
    card: JsonObject,
    sign: Callable[[bytes], bytes],
    *,
    algorithm: str,
    key_id: str,
    jku: str | None = None,
    form: CardForm = CardForm.SPEC,
) -> CardSignature:
    """A signature as `sign_card` makes it, by a key that is elsewhere: `sign` returns the raw JWS signature of bytes.

    Raises:
        LocalProtocolError: the card has no canonical form; and what `sign` raises.
    """
    protected = {"alg": algorithm, "kid": key_id, "typ": "JOSE"} | ({"jku": jku} if jku else {})
    protected_text = json_b64encode(protected).decode()
    signed = _signing_input(protected_text, signing_payload(card, form))
    return CardSignature(protected_text, urlsafe_b64encode(sign(signed)).decode())


def sign_bytes(key: CardKey, data: bytes) -> bytes:
    """The raw JWS signature of bytes: `r` and `s` for ES256, as RFC 7518 section 3.4 has it.

    Raises:
        LocalProtocolError: the key cannot sign.
    """
    from joserfc.jws import JWSRegistry

    model = JWSRegistry.algorithms[algorithm_of(key)]
    try:
        model.check_key(key)
        return model.sign(data, key)
    except JoseError as exc:
        raise LocalProtocolError(f"The key cannot sign: {exc}") from exc


def signature_headers(card: JsonObject | bytes) -> tuple[ProtectedHeader, ...]:
    """The headers of all signatures that can be read, so that a client can fetch the keys before it verifies.

    Raises:
        SignatureInvalidError: the card is not a JSON object, or has no signatures.
    """
    headers: list[ProtectedHeader] = []
    for signature in _signatures(_read_card(card)):
        with suppress(SignatureInvalidError):
            headers.append(_read_header(_text(signature, "protected")))
    return tuple(headers)


def verify_card(
    card: JsonObject | bytes,
    find_key: Callable[[ProtectedHeader], CardKey | None],
    *,
    forms: Iterable[CardForm] = tuple(CardForm),
) -> VerifiedSignature:
    """The first signature of the card that verifies with the key found for it, and the card that it covers.

    Trust `payload` of the answer alone, not the document given here. Give the bytes as received where you have them:
    only they show a member that occurs twice. A `ParleyError` raised by `find_key` counts as a reason against that
    signature alone.

    Raises:
        SignatureInvalidError: no signature verifies; the message gives the reason for each.
    """
    card = _read_card(card)
    signatures = _signatures(card)
    payloads = _payloads(card, forms)
    reasons: list[str] = []
    for index, signature in enumerate(signatures):
        try:
            header = _read_header(_text(signature, "protected"))
            payload = _verified_payload(signature, header, find_key(header), payloads)
            return VerifiedSignature(index, header, payloads[payload], payload)
        except ParleyError as exc:
            reasons.append(f"[{index}] {exc}")
    raise SignatureInvalidError(f"No signature of the card could be verified: {'; '.join(reasons)}")


def verify_detached(signature: str, payload: bytes, keys: Mapping[str, CardKey]) -> ProtectedHeader:
    """The header of a detached JWS in compact form (`protected..signature`) that one of these keys has made.

    Raises:
        SignatureInvalidError: no key of its id is known, or it is not a signature of this payload by that key.
    """
    protected, _, rest = signature.partition(".")
    middle, _, signed = rest.partition(".")
    if middle:
        raise SignatureInvalidError("the signature is not detached")
    header = _read_header(protected)
    _verified_payload({"protected": protected, "signature": signed}, header, keys.get(header.key_id), [payload])
    return header


def _payloads(card: JsonObject, forms: Iterable[CardForm]) -> dict[bytes, CardForm]:
    """What a signature may cover. Most cards have the same bytes in every form; a form may have none."""
    payloads: dict[bytes, CardForm] = {}
    reasons: list[str] = []
    for form in forms:
        try:
            payloads.setdefault(_payload(card, form), form)
        except (ValueError, RecursionError) as exc:
            reasons.append(str(exc))
    if not payloads:
        raise SignatureInvalidError(f"The card has no canonical form: {'; '.join(reasons)}")
    return payloads


def _verified_payload(
    signature: JsonValue, header: ProtectedHeader, key: CardKey | None, payloads: Iterable[bytes]
) -> bytes:
    if key is None:
        raise SignatureInvalidError(f"no key is known for kid {header.key_id!r}")
    fitting = algorithm_of(key)
    if header.algorithm != fitting:
        raise SignatureInvalidError(f"alg {header.algorithm!r} does not fit the key, which is for {fitting}")
    signature_bytes = _from_base64url(_text(signature, "signature"), "signature")
    from joserfc.jws import JWSRegistry

    model = JWSRegistry.algorithms[fitting]
    try:
        model.check_key(key)
        for payload in payloads:
            if model.verify(_signing_input(_text(signature, "protected"), payload), signature_bytes, key):
                return payload
    except JoseError as exc:
        raise SignatureInvalidError(f"the key cannot verify: {exc}") from exc
    raise SignatureInvalidError("it is not a signature of this card by this key")


def _signing_input(protected: str, payload: bytes) -> bytes:
    return protected.encode() + b"." + urlsafe_b64encode(payload)


def _read_card(card: JsonObject | bytes) -> JsonObject:
    return _read_object(card, "The card") if isinstance(card, bytes) else card


def _signatures(card: JsonObject) -> list[JsonValue]:
    signatures = card.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise SignatureInvalidError("The card has no signatures", path="$.signatures")
    return signatures[:MAX_SIGNATURES]


def _read_header(protected: str) -> ProtectedHeader:
    """The protected header, unless it requires what Parley does not support. The open `header` is never read."""
    header = _read_object(_from_base64url(protected, "protected"), "the protected header")
    # RFC 7515 section 4.1.11: a critical extension that is not understood makes the signature invalid. Parley
    # understands none, `b64` (RFC 7797) included.
    if "crit" in header or "b64" in header:
        raise SignatureInvalidError("the protected header has critical extensions, of which none is understood")
    algorithm, key_id, jku = _text(header, "alg"), _text(header, "kid"), header.get("jku")
    if algorithm not in ALGORITHMS:
        raise SignatureInvalidError(f"alg {algorithm!r} is refused; accepted algorithms: {', '.join(ALGORITHMS)}")
    if not isinstance(jku, str | None):
        raise SignatureInvalidError("jku is not a text")
    return ProtectedHeader(algorithm, key_id, jku)


def _text(container: JsonValue, name: str) -> str:
    value = container.get(name) if isinstance(container, dict) else None
    if not isinstance(value, str):
        raise SignatureInvalidError(f"{name} is missing or not a text")
    return value


def _from_base64url(text: str, name: str) -> bytes:
    try:
        return urlsafe_b64decode(text.encode())
    except ValueError as exc:
        raise SignatureInvalidError(f"{name} is not base64url") from exc


def _read_object(data: bytes, what: str) -> JsonObject:
    try:
        value: JsonValue = json.loads(data.decode(), object_pairs_hook=_unique_members)
    except (ValueError, RecursionError) as exc:
        raise SignatureInvalidError(f"{what} is not readable as JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise SignatureInvalidError(f"{what} is not a JSON object")
    return value


def _unique_members(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):  # it is unknown which of the two was signed and which one will be read
        raise ValueError("a member occurs twice")
    return members


# --- The canonical forms ---


class _Field(NamedTuple):
    """A member of a message: whether it stays when empty, and the message type of its value (or of each in it).

    `empty` is how a required member is written that has no value; others are not written then.
    """

    kept: bool
    type: str
    many: bool
    empty: JsonValue


def _message(*, required: str = "", optional: str = "", plain: str = "") -> dict[str, _Field]:
    """The members of a message: `name` is a scalar, `name:Type` a message, `name:Type*` a list and `name:Type{}` a map
    of messages, or of scalars where no type is named."""
    fields: dict[str, _Field] = {}
    for rows, kept in ((required, True), (optional, True), (plain, False)):
        for row in rows.split():
            name, _, type_name = row.partition(":")
            many = type_name.endswith(("*", "{}"))
            empty: JsonValue = [] if type_name.endswith("*") else {} if type_name else ""
            is_message = bool(type_name) and not many
            type_name = type_name.rstrip("*{}")
            fields[name] = _Field(kept or is_message, type_name, many, empty if rows is required else None)
    return fields


# The card in 1.0's a2a.proto. `required` is field_behavior REQUIRED, `optional` the keyword; a message has
# presence in any case. A type without a row of its own (Struct) is data: its content is never changed.
_SCHEMA = {
    "AgentCard": _message(
        required="name description supportedInterfaces:AgentInterface* version capabilities:AgentCapabilities "
        "defaultInputModes:* defaultOutputModes:* skills:AgentSkill*",
        optional="documentationUrl iconUrl",
        plain="provider:AgentProvider securitySchemes:SecurityScheme{} securityRequirements:SecurityRequirement*",
    ),
    "AgentInterface": _message(required="url protocolBinding protocolVersion", plain="tenant"),
    "AgentProvider": _message(required="url organization"),
    "AgentCapabilities": _message(
        optional="streaming pushNotifications extendedAgentCard", plain="extensions:AgentExtension*"
    ),
    "AgentExtension": _message(plain="uri description required params:Struct"),
    "AgentSkill": _message(
        required="id name description tags:*",
        plain="examples inputModes outputModes securityRequirements:SecurityRequirement*",
    ),
    "SecurityRequirement": _message(plain="schemes:StringList{}"),
    "StringList": _message(plain="list"),
    "SecurityScheme": _message(
        plain="apiKeySecurityScheme:APIKeySecurityScheme httpAuthSecurityScheme:HTTPAuthSecurityScheme "
        "oauth2SecurityScheme:OAuth2SecurityScheme openIdConnectSecurityScheme:OpenIdConnectSecurityScheme "
        "mtlsSecurityScheme:MutualTlsSecurityScheme"
    ),
    "APIKeySecurityScheme": _message(required="location name", plain="description"),
    "HTTPAuthSecurityScheme": _message(required="scheme", plain="description bearerFormat"),
    "OAuth2SecurityScheme": _message(required="flows:OAuthFlows", plain="description oauth2MetadataUrl"),
    "OpenIdConnectSecurityScheme": _message(required="openIdConnectUrl", plain="description"),
    "MutualTlsSecurityScheme": _message(plain="description"),
    "OAuthFlows": _message(
        plain="authorizationCode:AuthorizationCodeOAuthFlow clientCredentials:ClientCredentialsOAuthFlow "
        "implicit:ImplicitOAuthFlow password:PasswordOAuthFlow deviceCode:DeviceCodeOAuthFlow"
    ),
    "AuthorizationCodeOAuthFlow": _message(
        required="authorizationUrl tokenUrl scopes:{}", plain="refreshUrl pkceRequired"
    ),
    "ClientCredentialsOAuthFlow": _message(required="tokenUrl scopes:{}", plain="refreshUrl"),
    "ImplicitOAuthFlow": _message(plain="authorizationUrl refreshUrl scopes"),
    "PasswordOAuthFlow": _message(plain="tokenUrl refreshUrl scopes"),
    "DeviceCodeOAuthFlow": _message(required="deviceAuthorizationUrl tokenUrl scopes:{}", plain="refreshUrl"),
}

_DEFAULTS: tuple[JsonValue, ...] = ("", 0, [], {})  # False equals 0
_EMPTIES: tuple[JsonValue, ...] = (None, "", [], {})


def _payload(card: JsonObject, form: CardForm) -> bytes:
    unsigned: JsonValue = {name: member for name, member in card.items() if name != "signatures"}
    with_unknown = form in (CardForm.SPEC_UNKNOWN, CardForm.NO_EMPTIES_UNKNOWN)
    reading = _Reading(with_unknown, filled=form is CardForm.SPEC_FILLED)
    members = _with_presence(unsigned, "AgentCard", reading)
    if form in (CardForm.NO_EMPTIES, CardForm.NO_EMPTIES_UNKNOWN):
        members = _without_empties(members)
    return rfc8785.dumps(members)


class _Reading(NamedTuple):
    """Whether members that 1.0 does not have count, and whether required ones that are absent are filled in."""

    with_unknown: bool
    filled: bool


def _with_presence(value: JsonValue, type_name: str, reading: _Reading) -> JsonValue:
    """The value as its message type has it: nulls are absent, so are defaults of members that have no presence."""
    fields = _SCHEMA.get(type_name)
    if fields is None or not isinstance(value, dict):
        return value
    present: JsonObject = {}
    for name, member in value.items():
        field = fields.get(name)
        if member is None or (field is None and not reading.with_unknown):
            continue
        if field is None:
            present[name] = member
        elif field.kept or member not in _DEFAULTS:
            present[name] = _nested(member, field, reading)
    if reading.filled:
        absent = {name: field.empty for name, field in fields.items() if name not in present}
        present |= {name: empty for name, empty in absent.items() if empty is not None}
    return present


def _nested(member: JsonValue, field: _Field, reading: _Reading) -> JsonValue:
    if field.many and isinstance(member, list):
        return [_with_presence(item, field.type, reading) for item in member]
    if field.many and isinstance(member, dict):
        return {key: _with_presence(item, field.type, reading) for key, item in member.items()}
    return _with_presence(member, field.type, reading)


def _without_empties(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: kept for name, item in value.items() if (kept := _without_empties(item)) not in _EMPTIES}
    if isinstance(value, list):
        return [kept for item in value if (kept := _without_empties(item)) not in _EMPTIES]
    return value
