"""The bytes of a file in the protobuf of 0.3, and in JSON made from it.

The schema means the bytes themselves; a2a-sdk 0.3 for Python, by far the commonest peer, writes and expects their
base64 text there. We write what it expects and read both.
"""

from __future__ import annotations

import base64
import binascii


def encode_file_bytes(content: bytes) -> bytes:
    """A file's content as base64 text."""
    return base64.b64encode(content)


def decode_file_bytes(data: bytes) -> bytes:
    """A file's content: flawless base64 is decoded, anything else taken as it is.

    A peer that writes plain bytes is misread only if they happen to be base64 text.
    """
    if len(data) % 4:
        return data
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        return data
