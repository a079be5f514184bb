"""The keys that encrypt secrets: 32 random bytes each, written as base64, with an id that follows from the bytes.

Because the id is a hash of the key, two different keys never have the same one, and a value that names its key says
which one is missing. The id does not reveal the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

from msgspec import Struct

from parley.sealed.errors import SecretError

KEY_BYTES = 32
"""AES-256."""

ID_CHARACTERS = 16


class StoreKey(Struct, frozen=True):
    """A key. Its `repr` shows the id alone."""

    raw: bytes

    @property
    def id(self) -> str:
        """What values that it encrypted name it by: 16 hexadecimal digits."""
        return hashlib.sha256(b"parley store key\0" + self.raw).hexdigest()[:ID_CHARACTERS]

    def __repr__(self) -> str:
        return f"StoreKey({self.id})"


def new_key() -> StoreKey:
    """A key that does not exist yet."""
    return StoreKey(secrets.token_bytes(KEY_BYTES))


def encode_key(key: StoreKey) -> str:
    """A key as text, such as `openssl rand -base64 32` prints."""
    return base64.b64encode(key.raw).decode()


def decode_keys(text: str, *, source: str) -> tuple[StoreKey, ...]:
    """The keys in a text, separated by white space or commas; `#` begins a comment. The first one encrypts.

    Raises:
        SecretError: there is none, or one is not valid. The message names the source and never shows a key.
    """
    lines = [line.partition("#")[0] for line in text.splitlines()]
    words = " ".join(lines).replace(",", " ").split()
    if not words:
        raise SecretError(f"{source} holds no key. Make one with: openssl rand -base64 32")
    return tuple(dict.fromkeys(_decode_key(word, number, source) for number, word in enumerate(words, start=1)))


def _decode_key(word: str, number: int, source: str) -> StoreKey:
    try:
        raw = base64.b64decode(word.replace("-", "+").replace("_", "/") + "=" * (-len(word) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise SecretError(f"{source}: key {number} is not base64. Make one with: openssl rand -base64 32") from None
    if len(raw) != KEY_BYTES:
        raise SecretError(f"{source}: key {number} has {len(raw)} bytes, and must have {KEY_BYTES}.")
    return StoreKey(raw)
