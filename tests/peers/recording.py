"""Writes down what a peer SDK and its own server really say to each other.

Holds the recorder, an httpx transport and a gRPC channel that note both
directions of every exchange, and a few lines to serve an app on a local port.
It imports no A2A SDK, so every peer environment can load it.

Every exchange belongs to the scene that is playing; one made outside a scene is
passed on and not kept. tests/golden/README.md describes the files.
"""

import asyncio
import base64
import contextlib
import contextvars
import dataclasses
import json
import pathlib
import shutil

import httpx
import uvicorn

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
AGENT = "http://agent.example"
WEBHOOK = "http://webhook.example/a2a/events"
KEPT_HEADERS = {"accept", "authorization", "content-type"}
KEPT_PREFIXES = ("a2a-", "x-a2a-")
STREAM_END_SECONDS = 5


@dataclasses.dataclass
class Scene:
    """One named exchange of the script: which file it goes to and what it shows."""

    name: str
    binding: str
    operation: str | None
    client: str
    dialect: str = ""
    taken: int = 0


_playing: contextvars.ContextVar[Scene | None] = contextvars.ContextVar("scene", default=None)


class Recorder:
    """Keeps the exchanges of one SDK, dialect and binding as golden files."""

    def __init__(self, *, peer: str, dialect: str, folder: str, binding: str):
        self.peer, self.dialect, self.binding = peer, dialect, binding
        self._root = GOLDEN / folder
        self._pending: list[HttpExchange | GrpcExchange] = []

    @contextlib.asynccontextmanager
    async def scene(self, name: str, operation: str | None = None, *, client: str = "sdk", binding: str = ""):
        """Records the exchanges made inside the block under `name`."""
        scene = Scene(name, binding or self.binding, operation, client)
        token = _playing.set(scene)
        try:
            yield scene
        finally:
            _playing.reset(token)
            await self._finish()
            print(f"{self._root.name}/{scene.binding}/{name}: {scene.taken}")

    def keep(self, scene: Scene, request: dict, reply: dict) -> None:
        """Writes one exchange; a second one in the same scene gets a number."""
        scene.taken += 1
        suffix = f"-{scene.taken}" if scene.taken > 1 else ""
        path = self._root / scene.binding / f"{scene.name}{suffix}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        exchange = {
            "peer": self.peer,
            "dialect": scene.dialect or self.dialect,
            "binding": scene.binding,
            "operation": scene.operation,
            "client": scene.client,
            "request": request,
            "reply": reply,
        }
        text = json.dumps(exchange, indent=2, sort_keys=True, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")

    def expect(self, exchange: "HttpExchange | GrpcExchange") -> None:
        """Keeps an exchange that has started once its reply is complete."""
        self._pending.append(exchange)

    async def _finish(self) -> None:
        pending, self._pending = self._pending, []
        for exchange in pending:
            self.keep(exchange.scene, exchange.request(), await exchange.reply())


def start_afresh(folder: str) -> None:
    """Removes the golden files of an earlier recording."""
    shutil.rmtree(GOLDEN / folder, ignore_errors=True)


def selected_headers(headers: httpx.Headers) -> dict[str, str]:
    """Returns the headers that carry protocol meaning, with lower-case names."""
    return {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() in KEPT_HEADERS or name.lower().startswith(KEPT_PREFIXES)
    }


def describe_request(request: httpx.Request, content: bytes) -> dict:
    return {
        "method": request.method,
        "path": request.url.raw_path.decode("ascii"),
        "headers": selected_headers(request.headers),
        **describe_content(content),
    }


def describe_content(content: bytes) -> dict:
    """Returns `{"body": …}` for JSON, `{"text": …}` for anything else, `{}` for nothing."""
    if not content:
        return {}
    try:
        return {"body": json.loads(content)}
    except ValueError:
        return {"text": content.decode("utf-8", "replace")}


def describe_reply(response: httpx.Response, content: bytes) -> dict:
    reply = {"status": response.status_code, "headers": selected_headers(response.headers)}
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return reply | {"sse": content.decode("utf-8")}
    return reply | describe_content(content)


class RecordedBody(httpx.AsyncByteStream):
    """A response body that is read to its end even when its reader stops early.

    SDK clients leave a stream after the event they wanted; the golden file still
    shows what the server sent.
    """

    def __init__(self, stream: httpx.AsyncByteStream):
        self._stream, self._chunks = stream, asyncio.Queue()
        self.cut = False
        self.whole = asyncio.create_task(self._read())

    async def _read(self) -> bytes:
        content = b""
        try:
            async for chunk in self._stream:
                content += chunk
                self._chunks.put_nowait(chunk)
        except httpx.RemoteProtocolError as error:
            self.cut = True
            self._chunks.put_nowait(error)
        else:
            self._chunks.put_nowait(None)
        await self._stream.aclose()
        return content

    async def __aiter__(self):
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


@dataclasses.dataclass
class HttpExchange:
    """One HTTP request and its reply as they crossed the socket."""

    scene: Scene
    sent: httpx.Request
    content: bytes
    answer: httpx.Response
    body: RecordedBody

    def request(self) -> dict:
        return describe_request(self.sent, self.content)

    async def reply(self) -> dict:
        async with asyncio.timeout(STREAM_END_SECONDS):
            reply = describe_reply(self.answer, await self.body.whole)
        return reply | ({"cut": True} if self.body.cut else {})


class RecordingTransport(httpx.AsyncBaseTransport):
    """Sends generic host names to local ports and records every exchange."""

    def __init__(self, recorder: Recorder, ports: dict[str, int]):
        self._recorder, self._ports = recorder, ports
        self._wire = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        local = request.url.copy_with(host="127.0.0.1", port=self._ports[request.url.host])
        response = await self._wire.handle_async_request(
            httpx.Request(request.method, local, headers=request.headers, content=content)
        )
        scene = _playing.get()
        if scene is None:
            return response
        body = RecordedBody(response.stream)
        self._recorder.expect(HttpExchange(scene, request, content, response, body))
        return httpx.Response(response.status_code, headers=response.headers, stream=body)

    async def aclose(self) -> None:
        await self._wire.aclose()


class Webhook(httpx.AsyncBaseTransport):
    """Receives what a push sender posts, and answers 204."""

    def __init__(self):
        self._posts: list[tuple[dict, dict]] = []
        self._arrived = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        response = httpx.Response(204)
        self._posts.append((describe_request(request, content), describe_reply(response, b"")))
        self._arrived.set()
        return response

    async def keep(self, recorder: Recorder, name: str, *, at_least: int = 1, dialect: str = "") -> None:
        """Writes every post received so far as push exchanges called `name`."""
        async with asyncio.timeout(STREAM_END_SECONDS):
            while len(self._posts) < at_least:
                self._arrived.clear()
                await self._arrived.wait()
        # Senders post from background tasks; let the last ones arrive.
        await asyncio.sleep(0.2)
        scene = Scene(f"{recorder.binding}-{name}", "push", None, "sdk", dialect)
        for request, reply in self._posts:
            recorder.keep(scene, request, reply)
        self.forget()

    def forget(self) -> None:
        self._posts.clear()


@dataclasses.dataclass
class GrpcExchange:
    """One gRPC call as its client saw it."""

    scene: Scene
    rpc: str
    metadata: list[tuple[str, str]]
    proto: bytes
    protos: list[bytes] = dataclasses.field(default_factory=list)
    call: object = None

    def request(self) -> dict:
        return {"rpc": self.rpc, "metadata": as_map(self.metadata), "proto": as_text(self.proto)}

    async def reply(self) -> dict:
        try:
            async with asyncio.timeout(STREAM_END_SECONDS):
                code, details = await self.call.code(), await self.call.details()
                trailers = list(await self.call.trailing_metadata() or ())
        except TimeoutError:
            raise RuntimeError(f"{self.scene.name}: the call did not end") from None
        return {
            "protos": [as_text(proto) for proto in self.protos],
            "code": code.name,
            "details": details or "",
            "trailers": as_map(trailers),
        }


def as_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def as_map(metadata) -> dict:
    """Returns gRPC metadata as a map; a repeated key holds a list, bytes are base64."""
    kept: dict = {}
    for key, value in metadata:
        text = as_text(value) if isinstance(value, bytes) else value
        kept.setdefault(key, []).append(text)
    return {key: values[0] if len(values) == 1 else values for key, values in kept.items()}


class RecordingChannel:
    """A grpc.aio channel whose calls are recorded with their real bytes."""

    def __init__(self, channel, recorder: Recorder):
        self._channel, self._recorder = channel, recorder

    def unary_unary(self, method, request_serializer=None, response_deserializer=None, **options):
        make = self._channel.unary_unary
        return self._recorded(make, method, request_serializer, response_deserializer, options)

    def unary_stream(self, method, request_serializer=None, response_deserializer=None, **options):
        make = self._channel.unary_stream
        return self._recorded(make, method, request_serializer, response_deserializer, options)

    def _recorded(self, make, method, serialize, deserialize, options):
        def start(request, **call_options):
            exchange = GrpcExchange(
                scene=_playing.get() or Scene("none", "grpc", None, "sdk"),
                rpc=method,
                metadata=list(call_options.get("metadata") or ()),
                proto=serialize(request),
            )

            def note(proto: bytes):
                exchange.protos.append(proto)
                return deserialize(proto)

            exchange.call = make(method, request_serializer=bytes, response_deserializer=note, **options)(
                exchange.proto, **call_options
            )
            if exchange.scene.name != "none":
                self._recorder.expect(exchange)
            return exchange.call

        return start

    async def close(self, grace=None) -> None:
        await self._channel.close(grace)


@contextlib.asynccontextmanager
async def served(app):
    """Serves an ASGI app on a free local port for the length of the block."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running


@contextlib.asynccontextmanager
async def served_grpc(register):
    """Serves what `register(server)` adds on a free local port for the length of the block."""
    import grpc

    server = grpc.aio.server()
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
