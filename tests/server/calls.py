"""Calls as the server's bindings make them, for tests of whoever watches."""

from typing import Any

from parley.protocol import operations as ops
from parley.protocol.cards import Binding
from parley.protocol.operations import Operation
from parley.protocol.versions import Version
from parley.server.security.credentials import Identity
from parley.server.telemetry.call import Call


def a_call(operation: Operation = ops.SEND_MESSAGE, version: Version = Version.V1_0, **members: Any) -> Call:
    members.setdefault("headers", {})
    members.setdefault("identity", Identity("alice"))
    return Call("echo", operation, version, Binding.JSONRPC, **members)
