"""Secrets at rest: what a store keeps of them is encrypted, with keys that are not in the store.

`keys` are the keys, `sources` where they come from, `sealer` encrypts and decrypts. Which values are secret, and in
which rows they are, is not known here.
"""
