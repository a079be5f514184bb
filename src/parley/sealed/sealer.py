"""Encrypts texts for a store and decrypts them: AES-256-GCM, with one key for writing and several for reading.

An encrypted text is `parley-sealed.1.KEY.DATA`: the version of the format, the id of the key, and base64url of a nonce
of 12 bytes and the ciphertext with its tag. It is bound to its place: the kind of row, its key and the
field. Decryption needs the same place, so a value that was moved to another row cannot be read there.

Plain texts are read as they are, since stores of earlier releases hold them. Without a key, texts stay plain.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from parley.sealed.errors import ChangedSecretError, MissingKeyError
from parley.sealed.keys import StoreKey, new_key
from parley.stores.interface.errors import StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "parley-sealed.1."

_PLAIN = "parley-plain.1."
"""Begins a plain text that would otherwise look like an encrypted one, or like one of these."""

_NONCE_BYTES = 12  # random: one key is good for some 2**32 values, and a store holds far fewer


class Sealer:
    """Encrypts with its current key, and decrypts with any of its keys."""

    def __init__(self, keys: Iterable[StoreKey] = ()) -> None:
        """A sealer that encrypts with the first key; without keys, texts stay plain."""
        self._ciphers: dict[str, AESGCM] = {}
        self._current: str | None = None
        keys = tuple(keys)
        self.add(keys)
        if keys:
            self.use(keys[0].id)

    @classmethod
    def for_this_process(cls) -> Sealer:
        """A sealer with a key that ends with the process, for what is not written anywhere."""
        return cls([new_key()])

    @property
    def current(self) -> str | None:
        """The id of the key that encrypts; None if texts stay plain."""
        return self._current

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all keys."""
        return tuple(self._ciphers)

    def add(self, keys: Iterable[StoreKey]) -> None:
        """Decrypt with these keys, too."""
        # Not above: an agent is imported without a store, and only stores have keys.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        for key in keys:
            self._ciphers.setdefault(key.id, AESGCM(key.raw))

    def use(self, key_id: str) -> None:
        """Encrypt with one of the keys from now on."""
        assert key_id in self._ciphers, f"there is no key {key_id}"
        self._current = key_id

    def seal(self, text: str, *place: str) -> str:
        """A text, encrypted and bound to a place; as it is if there is no key.

        Raises:
            StoreError: it is not valid Unicode.
        """
        if self._current is None:
            return _PLAIN + text if text.startswith((PREFIX, _PLAIN)) else text
        nonce = secrets.token_bytes(_NONCE_BYTES)
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            raise StoreError("A secret cannot be kept: it is not valid Unicode.") from error
        sealed = self._ciphers[self._current].encrypt(nonce, raw, _bound_to(place))
        return f"{PREFIX}{self._current}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, text: str, *place: str) -> str:
        """A text that was encrypted for this place, or a plain one.

        Raises:
            MissingKeyError: it was encrypted with a key that is not here.
            ChangedSecretError: it was changed, or encrypted for another place.
        """
        key_id = key_of(text)
        if key_id is None:
            return text.removeprefix(_PLAIN)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise MissingKeyError(key_id, f"the keys {', '.join(self._ciphers)}" if self._ciphers else "no key")
        from cryptography.exceptions import InvalidTag  # not above: see `add`

        try:
            raw = base64.urlsafe_b64decode(text[len(PREFIX) + len(key_id) + 1 :])
            return cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _bound_to(place)).decode()
        except (InvalidTag, ValueError):
            raise ChangedSecretError(key_id, place) from None

    def renew(self, text: str, *place: str) -> str:
        """A text, encrypted with the current key: itself if it is already. Raises as `open`."""
        if self._current is None or key_of(text) == self._current:
            return text
        return self.seal(self.open(text, *place), *place)


def key_of(text: str) -> str | None:
    """The id of the key that a text is encrypted with; None if it is plain."""
    return text[len(PREFIX) :].partition(".")[0] if text.startswith(PREFIX) else None


def _bound_to(place: tuple[str, ...]) -> bytes:
    """A place as bytes, so that no two places have the same."""
    import json  # not above: see `add`

    return json.dumps(place).encode()
