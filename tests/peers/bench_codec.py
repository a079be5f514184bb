"""Times how fast this environment's a2a-sdk reads a request and writes a reply.

Usage: bench_codec.py REQUEST.json REPLY.json, or both on stdin as
`{"request": {…}, "reply": {…}}`. The request is a whole JSON-RPC SendMessage request
(`message/send` before 1.0), the reply a whole JSON-RPC reply whose result is a task, both
in the dialect of this SDK. Prints `{"sdk": "…", "decode_us": x, "encode_us": y}`, the best
of several rounds in microseconds: from bytes to the SDK's own request object, and from
its own task to bytes, each by the calls that its JSON-RPC server makes.
"""

import importlib.metadata
import json
import pathlib
import sys
import timeit
from collections.abc import Callable

SDK = importlib.metadata.version("a2a-sdk")
ROUNDS = 7
SECONDS_PER_ROUND = 0.2


def make_codec_1(reply: dict) -> tuple[Callable, Callable]:
    from a2a.types.a2a_pb2 import SendMessageRequest, SendMessageResponse
    from a2a.utils.proto_utils import validate_proto_required_fields
    from google.protobuf.json_format import MessageToDict, ParseDict
    from jsonrpc.jsonrpc2 import JSONRPC20Request, JSONRPC20Response
    from starlette.responses import JSONResponse

    response = ParseDict(reply["result"], SendMessageResponse())

    def decode(content: bytes):
        body = json.loads(content)
        JSONRPC20Request.from_data(body)
        request = ParseDict(body.get("params", {}), SendMessageRequest(), ignore_unknown_fields=True)
        validate_proto_required_fields(request)
        return request

    def encode() -> bytes:
        result = MessageToDict(SendMessageResponse(task=response.task))
        return JSONResponse(JSONRPC20Response(result=result, _id=reply["id"]).data).body

    return decode, encode


def make_codec_0_3(reply: dict) -> tuple[Callable, Callable]:
    from a2a.types import A2ARequest, JSONRPCRequest, SendMessageRequest, Task

    encode = make_pydantic_encode(reply, Task)

    def decode(content: bytes):
        body = json.loads(content)
        JSONRPCRequest.model_validate(body)
        return A2ARequest(root=SendMessageRequest.model_validate(body))

    return decode, encode


def make_codec_0_2(reply: dict) -> tuple[Callable, Callable]:
    from a2a.types import A2ARequest, Task

    encode = make_pydantic_encode(reply, Task)

    def decode(content: bytes):
        return A2ARequest.model_validate(json.loads(content))

    return decode, encode


def make_pydantic_encode(reply: dict, task_type) -> Callable:
    from a2a.types import SendMessageResponse, SendMessageSuccessResponse
    from starlette.responses import JSONResponse

    task = task_type.model_validate(reply["result"])

    def encode() -> bytes:
        success = SendMessageSuccessResponse(id=reply["id"], result=task)
        response = SendMessageResponse(root=success)
        return JSONResponse(response.root.model_dump(mode="json", exclude_none=True)).body

    return encode


def best_microseconds(work: Callable) -> float:
    """Returns the time of one call in the fastest round."""
    timer = timeit.Timer(work)
    once = min(timer.repeat(repeat=5, number=1))
    number = max(1, int(SECONDS_PER_ROUND / max(once, 1e-7)))
    return round(min(timer.repeat(repeat=ROUNDS, number=number)) / number * 1e6, 2)


def read_payloads(arguments: list[str]) -> tuple[dict, dict]:
    if len(arguments) == 2:
        request, reply = (json.loads(pathlib.Path(path).read_text()) for path in arguments)
        return request, reply
    both = json.load(sys.stdin)
    return both["request"], both["reply"]


def main() -> None:
    request, reply = read_payloads(sys.argv[1:])
    makers = {"1": make_codec_1, "0.3": make_codec_0_3, "0.2": make_codec_0_2}
    make_codec = next(make for prefix, make in makers.items() if SDK.startswith(prefix + "."))
    decode, encode = make_codec(reply)
    content = json.dumps(request).encode()
    timings = {
        "decode_us": best_microseconds(lambda: decode(content)),
        "encode_us": best_microseconds(encode),
    }
    print(json.dumps({"sdk": f"a2a-sdk {SDK}", **timings}))


if __name__ == "__main__":
    main()
