"""Serve both A2A packages from our descriptors to a2a-sdk's own stubs, in one process with a2a-sdk.

Runs in the environment of a2a-sdk 1.3.0 with our `src` on the path. The argument says who is imported first, `parley`
or `a2a`: protobuf's default pool would refuse the second if both used it. Prints `{"ok": true}` when every call came
back with what was sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

A2A_MODULES = [
    "a2a.types.a2a_pb2",
    "a2a.types.a2a_pb2_grpc",
    "a2a.compat.v0_3.a2a_v0_3_pb2",
    "a2a.compat.v0_3.a2a_v0_3_pb2_grpc",
    "google.rpc.status_pb2",
    "google.rpc.error_details_pb2",
]
PARLEY_MODULES = ["parley.dialects.protobuf_v0_3", "parley.dialects.protobuf_v1_0", "parley.dialects.protobuf_status"]


def load(names: list[str]) -> None:
    for name in names:
        import_module(name)
    if names is PARLEY_MODULES:
        pool = import_module("parley.dialects.protobuf_pool")  # nothing is in our pool before its first use
        for full_name in ("a2a.v1.Task", "lf.a2a.v1.Task", "google.rpc.Status"):
            pool.message_class(full_name)


def shape_of(file: Any) -> dict[str, object]:
    """All that matters on the wire: every field, enum value and rpc of a file."""
    messages = list(file.message_types_by_name.values())
    fields = {
        f"{message.name}.{field.name}": (
            field.number,
            field.type,
            field.is_repeated,
            field.has_presence,
            field.json_name,
            field.containing_oneof and field.containing_oneof.name,
            (field.message_type or field.enum_type) and (field.message_type or field.enum_type).full_name,
        )
        for message in messages
        for field in message.fields
    }
    enums = {name: dict(enum.values_by_name.items()) for name, enum in file.enum_types_by_name.items()}
    values = {f"{name}.{key}": value.number for name, enum in enums.items() for key, value in enum.items()}
    rpcs = {
        f"{service.name}.{rpc.name}": (rpc.input_type.full_name, rpc.output_type.full_name, rpc.server_streaming)
        for service in file.services_by_name.values()
        for rpc in service.methods
    }
    return {**dict.fromkeys(message.name for message in messages), **fields, **values, **rpcs}


def handlers_of(dialect: Any) -> Any:
    """A generic gRPC service that answers every send with the message it got, and streams it twice."""
    import grpc

    from parley.dialects.protobuf_pool import parse_request
    from parley.dialects.protobuf_status import encode_status, encode_status_text
    from parley.protocol import operations as ops
    from parley.protocol.errors import TaskNotFoundError

    def received(operation: Any, data: bytes) -> Any:
        return dialect.decode_request(operation, parse_request(dialect.rpc(operation).request, data))

    async def send(data: bytes, context: Any) -> bytes:
        request = received(ops.SEND_MESSAGE, data)
        return dialect.encode_result(ops.SEND_MESSAGE, request.message).SerializeToString()

    async def stream(data: bytes, context: Any) -> Any:
        request = received(ops.SEND_STREAMING_MESSAGE, data)
        for _ in range(2):
            yield dialect.encode_event(request.message).SerializeToString()

    async def get(data: bytes, context: Any) -> bytes:
        error = TaskNotFoundError.for_task(received(ops.GET_TASK, data).task_id)
        if dialect.version == "0.3":
            code, text = encode_status_text(error)
            await context.abort(grpc.StatusCode[code], text)
        status = encode_status(error)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(grpc.StatusCode[error.row.grpc], status.message)
        raise AssertionError("abort returned")

    # No (de)serializers: bytes come and go, so that bytes which spell nothing get our error and not gRPC's.
    return grpc.method_handlers_generic_handler(
        dialect.service,
        {
            dialect.rpc(ops.SEND_MESSAGE).name: grpc.unary_unary_rpc_method_handler(send),
            dialect.rpc(ops.SEND_STREAMING_MESSAGE).name: grpc.unary_stream_rpc_method_handler(stream),
            dialect.rpc(ops.GET_TASK).name: grpc.unary_unary_rpc_method_handler(get),
        },
    )


async def error_of(call: Any) -> tuple[str, str, bytes | None]:
    """How a failing call failed: code, text and details trailer."""
    import grpc

    try:
        await call
    except grpc.aio.AioRpcError as error:
        trailers = dict(error.trailing_metadata() or ())
        return error.code().name, error.details() or "", trailers.get("grpc-status-details-bin")
    raise AssertionError("the call succeeded")


async def converse() -> None:
    """Call both services with a2a-sdk's stubs, and compare what comes back with what went out."""
    import grpc
    from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
    from a2a.types import a2a_pb2, a2a_pb2_grpc

    from parley.dialects import protobuf_v0_3, protobuf_v1_0
    from parley.dialects.protobuf_status import decode_status
    from parley.protocol.errors import TaskNotFoundError

    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    server.add_generic_rpc_handlers(tuple(handlers_of(d.DIALECT) for d in (protobuf_v0_3, protobuf_v1_0)))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        new = a2a_pb2_grpc.A2AServiceStub(channel)
        part = a2a_pb2.Part(text="hi", media_type="text/plain")
        message = a2a_pb2.Message(message_id="m1", role=a2a_pb2.ROLE_USER, parts=[part], metadata={"n": 1})
        request = a2a_pb2.SendMessageRequest(message=message)
        assert (await new.SendMessage(request)).message == message
        assert [event.message async for event in new.SendStreamingMessage(request)] == [message, message]
        error = decode_status(*await error_of(new.GetTask(a2a_pb2.GetTaskRequest(id="t1"))))
        assert isinstance(error, TaskNotFoundError), error
        assert error.details == {"taskId": "t1"}, error.details

        old = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)
        file = a2a_v0_3_pb2.FilePart(file_with_bytes=b"aGVsbG8=", mime_type="text/plain", name="a.txt")
        message = a2a_v0_3_pb2.Message(message_id="m1", role=1, content=[a2a_v0_3_pb2.Part(file=file)])
        request = a2a_v0_3_pb2.SendMessageRequest(request=message)
        assert (await old.SendMessage(request)).msg == message
        assert [event.msg async for event in old.SendStreamingMessage(request)] == [message, message]
        error = decode_status(*await error_of(old.GetTask(a2a_v0_3_pb2.GetTaskRequest(name="tasks/t1"))))
        assert isinstance(error, TaskNotFoundError), error
    await server.stop(None)


def compare_schemas() -> None:
    """Our .proto files and a2a-sdk's describe the same messages."""
    from a2a.compat.v0_3 import a2a_v0_3_pb2
    from a2a.types import a2a_pb2

    from parley.dialects.protobuf_pool import message_class

    for package, theirs in (("a2a.v1", a2a_v0_3_pb2), ("lf.a2a.v1", a2a_pb2)):
        ours = message_class(f"{package}.Task").DESCRIPTOR.file
        assert shape_of(ours) == shape_of(theirs.DESCRIPTOR), package


def main(first: str) -> None:
    """Import in this order, compare, converse."""
    order = [PARLEY_MODULES, A2A_MODULES]
    for names in order if first == "parley" else reversed(order):
        load(names)
    compare_schemas()
    asyncio.run(converse())
    print(json.dumps({"ok": True}))


if __name__ == "__main__":
    main(sys.argv[1])
