"""Every dialect by its version: the one place to add the next release."""

from __future__ import annotations

from parley.dialects import v0_1, v0_2, v0_3, v1_0
from parley.dialects.dialect import JsonDialect
from parley.protocol.versions import Version

DIALECTS: dict[Version, JsonDialect] = {
    dialect.version: dialect for dialect in (v0_1.DIALECT, v0_2.DIALECT, v0_3.DIALECT, v1_0.DIALECT)
}
"""The JSON dialects, as JSON-RPC speaks them; `rest` chooses among the shapes of REST."""
