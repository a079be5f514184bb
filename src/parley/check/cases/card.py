"""Cases about a card, which need no call to the agent."""

from __future__ import annotations

import base64
import binascii
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from parley.check.card_faults import missing_members, repeated_skills, undeclared_schemes
from parley.check.endpoints.discovery import FoundCard
from parley.check.findings import Broken, Undecided
from parley.network.addresses import is_public_host
from parley.network.urls import AGENT, InvalidUrlError, parse_url
from parley.protocol.signing import CardForm
from parley.protocol.versions import Version

V0_1, V0_2, V0_3, V1_0 = Version

PUBLISHED = {V1_0: "G1.53a", V0_3: "G2.2a", V0_2: "G3.4", V0_1: "A1.1a"}
"""By version, the clause that requires a card."""

SPECIFIED = (CardForm.SPEC, CardForm.SPEC_FILLED, CardForm.SPEC_UNKNOWN)


def complete(found: FoundCard) -> str:
    """The card has all required members."""
    missing = missing_members(found.members, found.version)
    if missing:
        raise Broken(f"the card lacks {', '.join(missing)}")
    if not found.card.interfaces:
        raise Broken("the card declares no interface")
    if not found.card.skills:
        clause = "G1.45b" if found.version is V1_0 else ""
        raise Broken("the card has no skill", must=False, clause=clause)
    return "The card has all required members"


def unambiguous(found: FoundCard) -> str:
    """Ids of skills are unique, and required schemes are declared."""
    if repeated := repeated_skills(found.card):
        raise Broken(f"more than one skill has the id {', '.join(repeated)}", must=False)
    if undeclared := undeclared_schemes(found.card):
        raise Broken(f"the card requires {', '.join(undeclared)}, and declares no such scheme", must=False)
    return "The ids of skills are unique, and all required schemes are declared"


def cached(found: FoundCard) -> str:
    """The card can be cached."""
    missing = [name for name in ("cache-control", "etag") if name not in found.exchange.headers]
    if missing:
        raise Broken(f"the card comes without {' and '.join(missing)}", must=False)
    return "The card has Cache-Control and ETag"


def signed(found: FoundCard) -> str:
    """The signatures have the form of JWS, and one verifies, if there is a key to try it with."""
    if not found.card.signatures:
        raise Undecided("the card is not signed")
    for signature in found.card.signatures:
        try:
            padded = signature.protected + "=" * (-len(signature.protected) % 4)
            header: Any = msgspec.json.decode(base64.urlsafe_b64decode(padded))
        except (binascii.Error, ValueError, msgspec.DecodeError) as error:
            raise Broken("the protected header of a signature is not JSON in base64url") from error
        if not isinstance(header, dict) or header.get("alg") in (None, "none") or "kid" not in header:  # pyright: ignore[reportUnknownMemberType]
            raise Broken("the protected header of a signature has no alg, or no kid")
    verified, reason = found.verification.signature, found.verification.reason
    if verified is None and not found.verification.is_certain:
        raise Undecided(f"the signatures are JWS; to verify them takes the signer's key: {reason}")
    if verified is None:
        raise Broken(f"no signature verifies: {reason}")
    if verified.form not in SPECIFIED:
        raise Broken(f"a signature verifies only for another serialization of the card: {verified.form}", must=False)
    return f"The signature by {verified.header.key_id} verifies"


def encrypted(found: FoundCard) -> str:
    """All interfaces use TLS."""
    if _is_private(found.url):
        raise Undecided("the server is on a private address, where TLS is the operator's choice")
    plain = [face.url for face in found.card.interfaces if face.url.startswith("http://")]
    if plain or found.url.startswith("http://"):
        raise Broken(f"not encrypted: {', '.join(plain) or found.url}")
    return "All interfaces with a scheme are https"


def public(found: FoundCard) -> str:
    """The card of a public server names no internal addresses."""
    if _is_private(found.url):
        raise Undecided("the server is on a private address itself")
    internal = [face.url for face in found.card.interfaces if _is_private(face.url)]
    if internal:
        raise Broken(f"the card names internal addresses: {', '.join(internal)}")
    raise Undecided("only the owner knows what is secret; no interface has an internal address")


def consistent(found: FoundCard) -> str:
    """A URL has one transport, and the main one is among the interfaces."""
    by_url: defaultdict[str, set[str]] = defaultdict(set)
    listed: list[dict[str, Any]] = found.members.get("additionalInterfaces") or []
    for face in listed:
        by_url[str(face.get("url"))].add(str(face.get("transport")))
    by_url[str(found.members.get("url"))].add(str(found.members.get("preferredTransport") or "JSONRPC"))
    conflicts = [url for url, transports in by_url.items() if len(transports) > 1]
    if conflicts:
        raise Broken(f"{', '.join(conflicts)} is declared with more than one transport")
    if listed and found.members.get("url") not in [face.get("url") for face in listed]:
        raise Broken("additionalInterfaces does not list the main url", must=False, clause="G2.2b")
    return "Every URL has one transport"


def versioned(found: FoundCard) -> str:
    """Versions are Major.Minor."""
    faces: list[dict[str, Any]] = found.members.get("supportedInterfaces") or []
    stated = [face.get("protocolVersion") for face in faces]  # as written: the decoder drops patch numbers
    versions = [str(version) for version in stated if version]
    patched = [version for version in versions if version.count(".") != 1]
    if patched:
        raise Broken(f"interfaces declare versions that are not Major.Minor: {', '.join(patched)}", must=False)
    return "All interfaces declare Major.Minor"


def _is_private(url: str) -> bool:
    try:
        return not is_public_host(parse_url(url, AGENT).host)
    except InvalidUrlError:
        return True


def card_cases(version: Version) -> Iterator[tuple[str, str, Callable[[FoundCard], str]]]:
    """The clause, the name and the function of every case about a card of this version."""
    yield PUBLISHED[version], "The card is complete", complete
    if version is V1_0:
        yield "G1.53c", "Ids of skills are unique, and schemes are declared", unambiguous
        yield "G1.55", "The card can be cached", cached
        yield "G1.56", "The card's signatures are good", signed
        yield "G1.52", "Connections are encrypted", encrypted
        yield "G1.57", "The card names nothing internal", public
        yield "G1.43a", "Versions are Major.Minor", versioned
    elif version is V0_3:
        yield "G2.2d", "Ids of skills are unique, and schemes are declared", unambiguous
        yield "G2.1b", "Connections are encrypted", encrypted
        yield "G2.2c", "Every URL has one transport", consistent
