"""The key with which a server signs its cards, if it has a single one; `parley.keys` has keys that rotate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from parley.keys.signing_key import LocalKey, SigningKey, encode_key_set, encode_token
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.signing import CardKey

KEYS_PATH = "/.well-known/jwks.json"
"""The path of the public signing keys, relative to the agent's URL."""

KEYS_SECONDS = 300
"""How long receivers may cache them. A rotation publishes a key for longer before it signs: `parley.keys.rotation`."""


class Signer(Struct, frozen=True):
    """A key to sign cards with, its id, and the URL of the public key if that is not at `KEYS_PATH`."""

    key: CardKey
    key_id: str
    jku: str | None = None

    @property
    def current(self) -> SigningKey:
        """See `SigningKeys`, as for all others."""
        return LocalKey(self.key, self.key_id)

    @property
    def current_since(self) -> datetime | None:
        """It never changes."""
        return None

    @property
    def signatures(self) -> Mapping[str, int]:
        """They are not counted."""
        return {}

    def published(self) -> bytes:
        """The public key as a JSON Web Key Set."""
        return encode_key_set([self.current])

    def sign_token(self, claims: Mapping[str, JsonValue]) -> str:
        """A JWT with these claims."""
        return encode_token(self.current, claims)

    def reload(self) -> None:
        """Nothing."""

    def public_keys(self) -> bytes:
        """The public key as a JSON Web Key Set."""
        return self.published()
