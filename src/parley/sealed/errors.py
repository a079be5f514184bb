"""Why a secret cannot be read.

SecretError (a StoreUnavailableError)
├── MissingKeyError       it was encrypted with a key that this process does not have
└── ChangedSecretError    it was changed, or belongs to another row
"""

from __future__ import annotations

from parley.stores.interface.errors import StoreUnavailableError


class SecretError(StoreUnavailableError):
    """A secret in the store cannot be read, or its key cannot be used."""


class MissingKeyError(SecretError):
    """A secret was encrypted with a key that this process does not have."""

    def __init__(self, key_id: str, known: str) -> None:
        super().__init__(
            f"A secret in the store is encrypted with key {key_id}, and this process has {known}. Add that key to the "
            "file that --store-key names."
        )
        self.key_id = key_id


class ChangedSecretError(SecretError):
    """A secret in the store was changed, or moved to where it does not belong. Set it again."""

    def __init__(self, key_id: str, place: tuple[str, ...]) -> None:
        super().__init__(
            f"A secret in the store ({'/'.join(place)}, key {key_id}) was changed, or moved to where it does not "
            "belong. Set it again."
        )
        self.key_id = key_id
