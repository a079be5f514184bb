"""The descriptors are those of the sources, and stay out of protobuf's default pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from parley.dialects.protobuf_pool import message_class, parse_reply, parse_request, rpcs_of_service
from parley.protocol.errors import InvalidRequestError, PeerProtocolError
from parley.protocol.operations import rpcs_of
from parley.protocol.versions import Version

ROOT = Path(__file__).parents[2]


def test_the_checked_in_descriptors_are_what_the_sources_compile_to() -> None:
    compile_protos = ROOT / "scripts" / "compile_protos.py"
    done = subprocess.run([sys.executable, compile_protos, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("service", "version"), [("a2a.v1.A2AService", Version.V0_3), ("lf.a2a.v1.A2AService", Version.V1_0)]
)
def test_a_service_has_an_rpc_for_each_operation_of_its_version(service: str, version: Version) -> None:
    rpcs = rpcs_of_service(service)
    operations = rpcs_of(version)
    assert {name: (rpc.path, rpc.streams) for name, rpc in rpcs.items()} == {
        name: (f"/{service}/{name}", operation.streams) for name, operation in operations.items()
    }


def test_a_message_has_one_class_wherever_it_is_looked_up() -> None:
    task = message_class("lf.a2a.v1.Task")
    assert rpcs_of_service("lf.a2a.v1.A2AService")["GetTask"].response is task
    assert (
        message_class("lf.a2a.v1.SendMessageResponse").DESCRIPTOR.fields_by_name["task"].message_type is task.DESCRIPTOR
    )


def test_our_names_stay_out_of_the_default_pool() -> None:
    script = """
from google.protobuf import descriptor_pool
from parley.dialects.protobuf_pool import message_class
message_class("lf.a2a.v1.Task"), message_class("a2a.v1.Task"), message_class("google.rpc.Status")
for name in ("lf.a2a.v1.Task", "a2a.v1.Task", "google.rpc.Status", "google.protobuf.Struct"):
    try:
        descriptor_pool.Default().FindMessageTypeByName(name)
    except KeyError:
        print(name)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["lf.a2a.v1.Task", "a2a.v1.Task", "google.rpc.Status", "google.protobuf.Struct"]


NO_MESSAGE = b"\x0a\xff"


def test_bytes_that_spell_no_request_are_the_callers_fault() -> None:
    with pytest.raises(InvalidRequestError, match=r"Invalid lf\.a2a\.v1\.Task"):
        parse_request(message_class("lf.a2a.v1.Task"), NO_MESSAGE)


def test_bytes_that_spell_no_reply_are_the_peers_fault() -> None:
    with pytest.raises(PeerProtocolError, match=r"Invalid lf\.a2a\.v1\.Task"):
        parse_reply(message_class("lf.a2a.v1.Task"), NO_MESSAGE)


def test_nesting_without_end_is_refused_at_parsing() -> None:
    value = message_class("google.protobuf.Value")(bool_value=True).SerializeToString()
    for _ in range(5000):
        value = b"\x32" + _length_delimited(b"\x0a" + _length_delimited(value))  # list_value, values
    with pytest.raises(InvalidRequestError):
        parse_request(message_class("google.protobuf.Value"), value)


def _length_delimited(data: bytes) -> bytes:
    length, prefix = len(data), bytearray()
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*prefix, length]) + data
