"""Which dialects, bindings and stores a test runs on. A place that the protocol lacks is left out, and only that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from parley.protocol.cards import Binding
from parley.protocol.versions import Version
from tests.services.fixtures import ON_POSTGRES

V0_1, V0_2, V0_3, V1_0 = Version
JSONRPC, REST, GRPC = Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC

PLACES = (
    (V0_1, JSONRPC),
    (V0_2, JSONRPC),
    (V0_3, JSONRPC),
    (V0_3, REST),
    (V0_3, GRPC),
    (V1_0, JSONRPC),
    (V1_0, REST),
    (V1_0, GRPC),
)
STORES = ("postgres",) if ON_POSTGRES else ("memory", "sqlite")


def matrix(
    *versions: Version,
    bindings: Sequence[Binding] = (JSONRPC, REST, GRPC),
    stores: Sequence[str] = STORES,
    app: str = "open",
) -> Any:
    """Run a test in each of these versions (all, if none is named), bindings and stores."""
    params = [
        pytest.param((version, binding, store, app), id=f"{version}-{binding.lower()}-{store}")
        for version, binding in PLACES
        for store in stores
        if (not versions or version in versions) and binding in bindings
    ]
    return pytest.mark.parametrize("peer", params, indirect=True)


def rule(*ids: str) -> Any:
    """Say which rules a test tries."""
    return pytest.mark.rule(*ids)
