"""JSON-RPC 2.0 envelopes: requests, results and errors, for the server and the client.

It does not know which methods exist nor what params, results and error objects mean: they are JSON text to it. The id
is JSON text too, so that a peer gets back exactly what it sent (`1.50`, `1e3`, `"\\u00e9"`).
For any bytes, `decode_request` raises only `RejectedRequest`, and `decode_response` only `PeerProtocolError`.
`id` and `jsonrpc` may be absent, as 0.1 allows; `states_version` tells whether `jsonrpc` was there.
Spec: JSON-RPC 2.0 section 4 and 5, A2A 1.0 section 9, 0.1 schema.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    LocalProtocolError,
    ParleyError,
    ParseError,
    PeerProtocolError,
)
from parley.protocol.json_names import DUPLICATE_NAME, find_repeated_name

NULL = b"null"
"""The id of a request without one, and of the answer to a request whose id cannot be read."""


class Request(Struct, frozen=True):
    """A call: the id's JSON text, the method, and the JSON text of the params object (`{}` where there is none)."""

    id: bytes
    method: str
    params: bytes
    states_version: bool = True
    """Whether it has `jsonrpc`, which only callers of 0.1 may leave out."""


class Response(Struct, frozen=True):
    """An answer: the id's JSON text, and the JSON text of either the result or the error object."""

    id: bytes
    result: bytes | None = None
    error: bytes | None = None


class RejectedRequest(ParleyError):
    """The bytes are not a valid request: `error` is the reason, `request_id` the id to answer with."""

    def __init__(self, error: A2AError, *, request_id: bytes = NULL) -> None:
        super().__init__(str(error))
        self.error = error
        self.request_id = request_id


# Every member is Raw, so decoding fails only if the bytes are not a JSON object. Members are checked afterwards, when
# the id is known.
class _Envelope(Struct):
    jsonrpc: Raw = Raw()
    id: Raw = Raw(NULL)


class _RequestEnvelope(_Envelope):
    method: Raw = Raw(NULL)
    params: Raw = Raw(NULL)


class _ResponseEnvelope(_Envelope):
    result: Raw = Raw()
    error: Raw = Raw(NULL)


_T = TypeVar("_T")

_request_decoder = msgspec.json.Decoder(_RequestEnvelope)
_response_decoder = msgspec.json.Decoder(_ResponseEnvelope)
_text_decoder = msgspec.json.Decoder(str)
_raw_decoder = msgspec.json.Decoder(Raw)
_json_encoder = msgspec.json.Encoder()


def encode_request(id: bytes, method: str, params: bytes) -> bytes:
    """The bytes of a call; `id` and `params` are JSON text.

    Raises:
        LocalProtocolError: the method is not Unicode.
    """
    try:
        encoded_method = _json_encoder.encode(method)
    except UnicodeEncodeError as exc:
        raise LocalProtocolError("The method is not Unicode") from exc
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"method":', encoded_method, b',"params":', params, b"}"))


def encode_result(id: bytes, result: bytes) -> bytes:
    """The bytes of a successful answer; `id` and `result` are JSON text."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', result, b"}"))


def encode_error(id: bytes, error_object: bytes) -> bytes:
    """The bytes of a failed answer; `id` and `error_object` are JSON text."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"error":', error_object, b"}"))


def decode_request(body: bytes) -> Request:
    """The call in a request body.

    Raises:
        RejectedRequest: with a ParseError, InvalidRequestError or InvalidParamsError, and the id where it is readable.
    """
    request_id = NULL
    try:
        envelope = _decode_envelope(_request_decoder, body)
        request_id = _read_id(envelope)
        _check_version(envelope)
        method, params = _read_method(envelope), _read_params(envelope)
        _check_names(body)
        return Request(request_id, method, params, bool(bytes(envelope.jsonrpc)))
    except A2AError as error:
        raise RejectedRequest(error, request_id=request_id) from error


def decode_response(body: bytes) -> Response:
    """The answer in a response body or in the data of a stream's frame.

    A null `result` is a result, as of a deletion, and so is an absent one: a2a-sdk 0.2 and 0.3 answer deletions so.
    Null beside the other member counts as absent.

    Raises:
        PeerProtocolError: the bytes are not a valid response.
    """
    try:
        envelope = _decode_envelope(_response_decoder, body)
        request_id = _read_id(envelope)
        _check_version(envelope)
    except A2AError as error:
        raise PeerProtocolError(error.message, path=error.path) from error
    result, error_object = bytes(envelope.result), bytes(envelope.error)
    if error_object == NULL:
        return Response(request_id, result=result or NULL)
    if result not in (b"", NULL):
        raise PeerProtocolError("A response has either a result or an error, not both")
    if not error_object.startswith(b"{"):
        raise PeerProtocolError("The error must be an object", path="$.error")
    return Response(request_id, error=error_object)


def _decode_envelope(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    try:
        return _decode_json(decoder, body)
    except msgspec.ValidationError:
        # Not an object. msgspec stops at the first byte that shows it; what follows may not even be JSON.
        value = bytes(_decode_json(_raw_decoder, body))
    if value.startswith(b"["):
        raise InvalidRequestError("Batches are not part of A2A; send one object at a time", path="$")
    raise InvalidRequestError("A JSON-RPC message must be an object", path="$")


def _decode_json(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the characters of a Raw
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise  # a DecodeError too, but it means that the JSON has another shape
    except UnicodeDecodeError as exc:
        raise ParseError(f"The JSON text is not UTF-8 (byte {exc.start})") from exc
    except msgspec.DecodeError as exc:
        raise ParseError(str(exc)) from exc
    except RecursionError as exc:
        raise ParseError("The JSON text is nested too deeply") from exc


def _read_id(envelope: _Envelope) -> bytes:
    # JSON-RPC: "An identifier ... MUST contain a String, Number, or NULL value". The first byte of a JSON value
    # shows its type.
    request_id = bytes(envelope.id)
    if request_id[0] in b'"-0123456789' or request_id == NULL:
        return request_id
    raise InvalidRequestError("The id must be a string, a number or null", path="$.id")


def _check_names(body: bytes) -> None:
    try:
        path = find_repeated_name(body)
    except RecursionError as exc:
        raise ParseError("The JSON text is nested too deeply") from exc
    if path is None:
        return
    if path.startswith("$.params."):  # paths begin at the params, as those of the dialects do
        raise InvalidParamsError(DUPLICATE_NAME, path=f"${path.removeprefix('$.params')}")
    if path == "$.id":
        raise RejectedRequest(InvalidRequestError(DUPLICATE_NAME, path=path))
    raise InvalidRequestError(DUPLICATE_NAME, path=path)


def _check_version(envelope: _Envelope) -> None:
    stated = bytes(envelope.jsonrpc)
    if stated not in (b"", b'"2.0"') and _read_text(envelope.jsonrpc) != "2.0":
        raise InvalidRequestError('jsonrpc must be "2.0"', path="$.jsonrpc")


def _read_method(envelope: _RequestEnvelope) -> str:
    method = _read_text(envelope.method)
    if method is None:
        raise InvalidRequestError("The method must be a string", path="$.method")
    return method


def _read_params(envelope: _RequestEnvelope) -> bytes:
    params = bytes(envelope.params)
    if params == NULL:
        return b"{}"
    if not params.startswith(b"{"):
        raise InvalidParamsError("The params must be an object", path="$.params")
    return params


def _read_text(raw: Raw) -> str | None:
    try:
        return _text_decoder.decode(raw)
    except msgspec.ValidationError:
        return None
