"""The keys that a server signs with: cards, and tokens for webhooks.

`KeyRing` uses the keys in a folder, `GivenKeys` those that a program holds, or a KMS for it. Both are `SigningKeys`,
which is what a server needs; one key is a `SigningKey`. `KeyFolder` creates, rotates and retires the keys of a folder.
A module is imported when one of its names is first used, so that commands start fast. See docs/keys.md and
docs/decisions/0050.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `as` exports a name
    from parley.keys.given_keys import GivenKeys as GivenKeys
    from parley.keys.key_folder import KeyFolder as KeyFolder
    from parley.keys.key_ring import KeyRing as KeyRing
    from parley.keys.signing_key import LocalKey as LocalKey
    from parley.keys.signing_key import SigningKey as SigningKey
    from parley.keys.signing_key import SigningKeys as SigningKeys
    from parley.keys.stored_keys import KeyFolderError as KeyFolderError

_MODULE_OF = {
    "GivenKeys": "parley.keys.given_keys",
    "KeyFolder": "parley.keys.key_folder",
    "KeyFolderError": "parley.keys.stored_keys",
    "KeyRing": "parley.keys.key_ring",
    "LocalKey": "parley.keys.signing_key",
    "SigningKey": "parley.keys.signing_key",
    "SigningKeys": "parley.keys.signing_key",
}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = sorted(_MODULE_OF)

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
