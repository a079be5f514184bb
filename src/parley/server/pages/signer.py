"""The key with which a server signs its cards."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from parley.protocol.signing import CardKey

KEYS_PATH = "/.well-known/jwks.json"
"""The path of the public signing key, relative to the agent's URL."""


class Signer(Struct, frozen=True):
    """A key to sign cards with, its id, and the URL of the public key if that is not at `KEYS_PATH`."""

    key: CardKey
    key_id: str
    jku: str | None = None

    def public_keys(self) -> bytes:
        """The public key as a JSON Web Key Set."""
        return msgspec.json.encode({"keys": [{**self.key.as_dict(private=False), "kid": self.key_id, "use": "sig"}]})
