"""The protobuf messages and services of both A2A packages, in a descriptor pool of our own.

protobuf's default pool holds each name once per process; a2a-sdk puts the same names there. Nothing here touches it, so
that both can live in one process. Loaded at the first use. It does not depend on gRPC. The sources
are in `protos/`, compiled by `scripts/compile_protos.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from parley.protocol.errors import InvalidRequestError, PeerProtocolError

ProtoMessage: TypeAlias = Any  # the classes are made at run time: no type checker can know their fields
MessageClass: TypeAlias = type[Any]  # for the same reason


@dataclass(frozen=True, slots=True)
class Rpc:
    """One rpc of a service: its name, the path it is called by, what it takes and what it answers (with)."""

    name: str
    path: str
    request: MessageClass
    response: MessageClass
    streams: bool


_pool = DescriptorPool()


@cache
def loaded_pool() -> DescriptorPool:
    """The pool with our descriptors in it, which a server's reflection shows.

    Two threads here at once add the same files twice, which is allowed.
    """
    descriptors = files("parley.dialects").joinpath("protos", "descriptors.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(descriptors).file:
        _pool.AddSerializedFile(file.SerializeToString())
    return _pool


@cache
def message_class(full_name: str) -> MessageClass:
    """The class of a message, such as `lf.a2a.v1.Task`."""
    return GetMessageClass(loaded_pool().FindMessageTypeByName(full_name))


@cache
def rpcs_of_service(full_name: str) -> dict[str, Rpc]:
    """The rpcs of a service by name; what a gRPC server or client needs to build its handlers or stubs."""
    methods = loaded_pool().FindServiceByName(full_name).methods
    return {
        method.name: Rpc(
            method.name,
            f"/{full_name}/{method.name}",
            message_class(method.input_type.full_name),
            message_class(method.output_type.full_name),
            method.server_streaming,
        )
        for method in methods
    }


def parse_request(request: MessageClass, data: bytes) -> ProtoMessage:
    """The message in a caller's bytes.

    Raises:
        InvalidRequestError: they are not valid, or nested deeper than protobuf allows.
    """
    try:
        return request.FromString(data)
    except DecodeError:
        raise InvalidRequestError(f"Invalid {request.DESCRIPTOR.full_name}") from None


def parse_reply(response: MessageClass, data: bytes) -> ProtoMessage:
    """The message in an agent's bytes.

    Raises:
        PeerProtocolError: they are not valid, or nested deeper than protobuf allows.
    """
    try:
        return response.FromString(data)
    except DecodeError:
        raise PeerProtocolError(f"Invalid {response.DESCRIPTOR.full_name}") from None
