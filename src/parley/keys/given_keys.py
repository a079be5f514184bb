"""Keys that a program gives to a server, such as keys in a KMS; and the key in a single file.

They rotate by being replaced: `replace` signs with another key from now on and keeps publishing the ones before it.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from parley.keys.signing_key import CountedKey, LocalKey, SigningKey, encode_key_set, encode_token, parse_key
from parley.protocol.errors import LocalProtocolError
from parley.protocol.jsonvalue import JsonValue

logger = logging.getLogger(__name__)


class GivenKeys:
    """The keys of a server: `GivenKeys(key)`, or `GivenKeys(key, also_published)`. `jku` is where they are published,
    if that is not the server itself.
    """

    def __init__(self, current: SigningKey, *others: SigningKey, jku: str | None = None) -> None:
        self._keys = [CountedKey(key) for key in (current, *others)]
        self._jku = jku
        self._since: datetime | None = None

    @property
    def current(self) -> SigningKey:
        """See `SigningKeys`."""
        return self._keys[0]

    @property
    def current_since(self) -> datetime | None:
        """See `SigningKeys`."""
        return self._since

    @property
    def jku(self) -> str | None:
        """See `SigningKeys`."""
        return self._jku

    @property
    def signatures(self) -> Mapping[str, int]:
        """See `SigningKeys`."""
        return {key.key_id: key.count for key in self._keys}

    def published(self) -> bytes:
        """See `SigningKeys`."""
        return encode_key_set(self._keys)

    def sign_token(self, claims: Mapping[str, JsonValue]) -> str:
        """See `SigningKeys`."""
        return encode_token(self.current, claims)

    def replace(self, current: SigningKey) -> None:
        """Sign with another key from now on. The keys before it stay published."""
        others = [key for key in self._keys if key.key_id != current.key_id]
        self._keys = [CountedKey(current), *others]
        self._since = datetime.now(UTC)

    def reload(self) -> None:
        """Nothing: the program that gave the keys replaces them."""


class FileKey(GivenKeys):
    """The key in one file, PEM or JWK. `reload` reads it again, and keeps publishing the keys that it held before."""

    def __init__(self, path: Path) -> None:
        """Raises LocalProtocolError if the file has no valid private key, OSError if it cannot be read."""
        self._path = path
        super().__init__(read_key_file(path))
        if os.name == "posix" and path.stat().st_mode & stat.S_IROTH:
            logger.warning("Every user of this machine can read the signing key in %s: chmod 600 %s", path, path)

    def reload(self) -> None:
        """See `SigningKeys`."""
        try:
            key = read_key_file(self._path)
        except OSError as error:
            raise LocalProtocolError(f"{self._path} cannot be read: {error.strerror}") from error
        for known in self._keys:
            if known.key_id == key.key_id and known.public_jwk != key.public_jwk:
                raise LocalProtocolError(
                    f"{self._path} holds another key with the id {key.key_id}, by which receivers know the one that it "
                    "held before. Give it an id of its own"
                )
        if key.key_id != self.current.key_id:
            self.replace(key)


def read_key_file(path: Path) -> LocalKey:
    """The private key in a file, PEM or JWK; its id is its `kid`, or else its thumbprint (RFC 7638).

    Raises:
        LocalProtocolError: the file has no valid private key.
        OSError: it cannot be read.
    """
    try:
        key = parse_key(path.read_text())
    except UnicodeDecodeError as error:
        raise LocalProtocolError(f"{path} is not a valid signing key: it is not text") from error
    except LocalProtocolError as error:
        raise LocalProtocolError(f"{path} is not a valid signing key: {error}") from error
    if not key.is_private:
        raise LocalProtocolError(f"{path} holds a public key; signing needs the private one.")
    return LocalKey(key, key.kid or key.thumbprint())
