"""The JSON Schema of an AI Catalog 1.0, written from the specification of 2026-04-30."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from jsonschema import Draft202012Validator

_VALIDATOR = Draft202012Validator(msgspec.json.decode((Path(__file__).parent / "schema.json").read_bytes()))


def check_catalog(document: Any) -> None:
    """Fail if a document is not an AI Catalog."""
    assert [f"{error.json_path}: {error.message}" for error in _VALIDATOR.iter_errors(document)] == []
    keys = [(entry["identifier"], entry.get("version")) for entry in document["entries"]]
    assert len(keys) == len(set(keys))
