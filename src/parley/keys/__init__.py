"""The keys that a server signs with: cards, and tokens for webhooks.

`KeyRing` uses the keys in a folder, `GivenKeys` those that a program holds, or a KMS for it. Both are `SigningKeys`,
which is what a server needs; one key is a `SigningKey`. `KeyFolder` creates, rotates and retires the keys of a folder.
See docs/keys.md and docs/decisions/0050.
"""

from parley.keys.given_keys import GivenKeys as GivenKeys
from parley.keys.key_folder import KeyFolder as KeyFolder
from parley.keys.key_ring import KeyRing as KeyRing
from parley.keys.signing_key import LocalKey as LocalKey
from parley.keys.signing_key import SigningKey as SigningKey
from parley.keys.signing_key import SigningKeys as SigningKeys
from parley.keys.stored_keys import KeyFolderError as KeyFolderError

__all__ = ["GivenKeys", "KeyFolder", "KeyFolderError", "KeyRing", "LocalKey", "SigningKey", "SigningKeys"]
