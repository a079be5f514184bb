"""Signatures of trust manifests: a detached JWS over the manifest in canonical JSON, without its `signature`.

A signature counts only with a key that the reader has from elsewhere: a catalogue that brings its own key proves
nothing. RFC 7515, RFC 8785.
"""

from __future__ import annotations

from collections.abc import Mapping

import rfc8785

from parley.ai_catalog.model import AiCatalogEntry
from parley.protocol.errors import SignatureInvalidError
from parley.protocol.signing import CardKey, verify_detached

SIGNATURE = "signature"


def is_vouched_for(entry: AiCatalogEntry, keys: Mapping[str, CardKey]) -> bool:
    """Whether the entry's trust manifest is signed with one of these keys, by their ids.

    Raises:
        SignatureInvalidError: it has a signature that a key of this id has not made, or that no key is known for.
    """
    manifest = entry.trust_manifest
    signature = None if manifest is None else manifest.get(SIGNATURE)
    if manifest is None or signature is None or not keys:
        return False
    if not isinstance(signature, str):
        raise SignatureInvalidError("The signature of the trust manifest is not a text")
    signed = {name: value for name, value in manifest.items() if name != SIGNATURE}
    try:
        payload = rfc8785.dumps(signed)
    except (ValueError, RecursionError) as error:
        raise SignatureInvalidError(f"The trust manifest has no canonical form: {error}") from None
    verify_detached(signature, payload, keys)
    return True
