"""Encryption of what the store keeps for a session: AES-GCM with a key that only the browser's cookie yields."""

from __future__ import annotations

import base64
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from parley.console.session_cookie import SessionSecret

_NONCE_BYTES = 12  # one key encrypts few values, so random nonces do not repeat


def seal(secret: SessionSecret, raw: bytes, *, name: str) -> str:
    """Encrypted bytes, bound to the name of the record that holds them."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(secret.key).encrypt(nonce, raw, name.encode())).decode()


def unseal(secret: SessionSecret, sealed: object, *, name: str) -> bytes | None:
    """The bytes that were sealed; None if they were changed, or sealed with another secret or name."""
    try:
        raw = base64.b64decode(str(sealed), validate=True)
        return AESGCM(secret.key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], name.encode())
    except (ValueError, InvalidTag):
        return None
