"""Files of messages: read inline and by URL, from real servers that behave well, badly, and not at all."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from parley import Agent, Turn
from parley.agents.files import ReceivedFile
from parley.client.errors import FileError, FileForbiddenError, FileTooLargeError, FileUnavailableError
from parley.client.file_fetcher import FileFetcher
from parley.client.guard import Guard
from parley.engine.program import FileSource
from parley.protocol.messages import RawPart, UrlPart
from parley.server.app import App
from parley.server.webhooks.guard import PUBLIC_ONLY
from tests.bounded import bounded
from tests.deadlines import fail_after
from tests.network.scripted_server import ScriptedServer
from tests.server.serving import running

pytestmark = pytest.mark.anyio

HERE = FileFetcher(Guard(allow_private=True, use_proxy=False))
"""Fetches from this machine."""

LONG = b"0123456789" * 100_000


async def talk(peer: ScriptedServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Behave as the path of the request says."""
    path = (await peer.request(reader)).split()[1].decode()
    match path.split("/")[1:]:
        case ["hello.txt"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
        case ["long"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(LONG), LONG))
        case ["claims-to-be-long"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\nhello")
        case ["cut"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")
            writer.close()
        case ["zipped"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello")
        case ["stalls"]:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")
            await peer.is_over.wait()
        case ["silent"]:
            await peer.is_over.wait()
        case ["endless"]:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not peer.is_over.is_set():
                writer.write(LONG)
                await writer.drain()
        case ["to", "relative"]:
            writer.write(b"HTTP/1.1 302 Found\r\nlocation: ../hello.txt\r\ncontent-length: 0\r\n\r\n")
        case ["to", "itself"]:
            writer.write(b"HTTP/1.1 307 Again\r\nlocation: /to/itself\r\ncontent-length: 0\r\n\r\n")
        case ["to", *target]:
            writer.write(b"HTTP/1.1 301 Moved\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % "/".join(target).encode())
        case _:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno")
    await writer.drain()


@asynccontextmanager
async def file_server(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ScriptedServer]:
    peer = ScriptedServer(talk)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        with fail_after(10):
            yield peer
    finally:
        peer.is_over.set()
        server.close()
        await server.wait_closed()


def at(peer: ScriptedServer, path: str, source: FileSource = HERE) -> ReceivedFile:
    return ReceivedFile(UrlPart(f"http://127.0.0.1:{peer.port}{path}"), source)


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_a_handler_reads_files_of_its_message_and_of_an_answer_whether_inline_or_by_url() -> None:
    agent = Agent("Reader")

    @agent.on_message
    def read(turn: Turn) -> Any:
        answer = turn.wait(turn.ask("And?"))
        for file in (*turn.files, *answer.files):
            yield f"{file.name}, {file.media_type}: {turn.wait(file.text())}\n"
        yield turn.files[1]

    async with file_server() as peer, bounded(agent, files=HERE) as client:
        by_url = UrlPart(f"http://127.0.0.1:{peer.port}/hello.txt", None, "../a/hello.txt")
        task = await client.send(RawPart(b"hi", "text/plain", "hi.txt"), by_url)
        task = await client.send(by_url, task=task)
    hello = "hello.txt, text/plain: hello\n"
    assert client.text(task) == f"hi.txt, text/plain: hi\n{hello}{hello}"
    assert task.artifacts[0].parts[-1] == by_url


async def test_a_direct_reply_reads_files_and_the_app_decides_from_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    agent = Agent("Reader", replies_directly=True)

    @agent.on_message
    async def read(turn: Any) -> str:
        try:
            return await turn.files[0].text()
        except FileForbiddenError:
            return "forbidden"

    async def said(app: App) -> str:
        async with running(app) as http:
            part = {"url": f"http://127.0.0.1:{peer.port}/hello.txt"}
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
            reply = await http.post("/message:send", json={"message": message}, headers={"A2A-Version": "1.0"})
            return reply.json()["message"]["parts"][0]["text"]

    async with file_server() as peer:
        assert await said(App(agent, webhooks=PUBLIC_ONLY)) == "forbidden"
        assert await said(App(agent, file_guard=Guard(allowed_hosts=("127.0.0.1",)))) == "hello"


async def test_a_large_file_streams_and_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "long.bin"
    async with file_server() as peer:
        sizes = [len(chunk) async for chunk in at(peer, "/long").chunks()]
        assert (sum(sizes), len(sizes) > 1) == (len(LONG), True)
        assert await at(peer, "/long").save(path) == path
        assert path.read_bytes() == LONG
        with pytest.raises(FileUnavailableError):
            await at(peer, "/cut").save(path)
        assert await ReceivedFile(RawPart(b"raw")).save(tmp_path / "raw") == tmp_path / "raw"
    assert {file.name: file.stat().st_size for file in tmp_path.iterdir()} == {"long.bin": len(LONG), "raw": 3}


async def test_a_reader_that_stops_early_lets_go_of_the_connection() -> None:
    async with file_server() as peer:
        chunks = at(peer, "/endless").chunks()
        assert await anext(chunks)
        await chunks.aclose()
        await peer.gone.wait()


async def test_https_is_verified_and_a_redirect_is_followed() -> None:
    authority = trustme.CA()
    tls, trusting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("files.example").configure_cert(tls)
    authority.configure_trust(trusting)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    guard = Guard(allowed_hosts=("files.example",), use_proxy=False)
    async with file_server(tls) as peer:
        part = UrlPart(f"https://files.example:{peer.port}/to/relative")
        trusted = FileFetcher(guard, tls=trusting, resolve=resolve)
        assert await ReceivedFile(part, trusted).read() == b"hello"
        with pytest.raises(FileUnavailableError, match="its certificate cannot be trusted"):
            await ReceivedFile(part, FileFetcher(guard, resolve=resolve)).read()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "options", "error", "why"),
    [
        ("/long", {"max_bytes": 999_999}, FileTooLargeError, "The file has more than 999999 bytes"),
        ("/claims-to-be-long", {}, FileTooLargeError, "The file has more than 33554432 bytes"),
        ("/endless", {"max_bytes": 3_000_000}, FileTooLargeError, "The file has more than 3000000 bytes"),
        ("/cut", {}, FileUnavailableError, "The file cannot be fetched: it ended in the middle of the response"),
        ("/stalls", {"seconds": 0.1}, FileUnavailableError, "The file did not arrive in time"),
        ("/silent", {"seconds": 0.1}, FileUnavailableError, "The file did not arrive in time"),
        ("/endless", {"seconds": 0.1, "max_bytes": 10**12}, FileUnavailableError, "The file did not arrive in time"),
        ("/none?key=secret", {}, FileUnavailableError, "http://127.0.0.1:PORT answered with status 404"),
        ("/zipped", {}, FileUnavailableError, "http://127.0.0.1:PORT sent the file compressed"),
        ("/to/itself", {}, FileUnavailableError, "The file's server redirects more than 5 times"),
        ("/to/ftp://files.example/x", {}, FileForbiddenError, "Invalid URL"),
        ("/to/grpc://127.0.0.1/x", {}, FileForbiddenError, "A file is fetched over https:// or http:// only"),
    ],
)
async def test_a_file_that_cannot_be_read_is_an_error_that_says_why(
    path: str, options: dict[str, Any], error: type[FileError], why: str
) -> None:
    async with file_server() as peer:
        with pytest.raises(error) as refused:
            await at(peer, path).read(**options)
    assert str(refused.value).startswith(why.replace("PORT", str(peer.port)))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/hello.txt",
        "https://127.0.0.1:{port}/hello.txt",
        "https://localhost:{port}/hello.txt",
        "http://files.example:{port}/hello.txt",
        "https://169.254.169.254/latest/meta-data",
        "https://private.example:{port}/hello.txt",
        "http://allowed.example:{port}/to/http://127.0.0.1:{port}/hello.txt",
        "http://allowed.example:{port}/to/https://private.example:{port}/hello.txt",
        "file:///etc/passwd",
    ],
)
async def test_private_addresses_are_refused_by_default_also_behind_a_redirect(url: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    source = FileFetcher(Guard(allowed_hosts=("allowed.example",), use_proxy=False), resolve=resolve)
    async with file_server() as peer:
        with pytest.raises(FileForbiddenError):
            await ReceivedFile(UrlPart(url.format(port=peer.port)), source).read()
        assert peer.connections == ("allowed" in url)


@pytest.mark.parametrize("url", ["http://files.example/", "http://allowed.example:{port}/to/http://files.example/"])
async def test_a_public_host_is_called_over_https_only(url: str) -> None:
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    source = FileFetcher(Guard(allowed_hosts=("allowed.example",), use_proxy=False), resolve=resolve)
    async with file_server() as peer:
        with pytest.raises(
            FileForbiddenError,
            match=r"http://files\.example, which is not encrypted; `parley serve --file-host` allows",
        ):
            await ReceivedFile(UrlPart(url.format(port=peer.port)), source).read()
    assert "files.example" not in looked_up


async def test_without_a_source_only_public_hosts_are_called() -> None:
    with pytest.raises(FileForbiddenError):
        await ReceivedFile(UrlPart("http://127.0.0.1:1/")).read()
    with pytest.raises(FileTooLargeError):
        await ReceivedFile(RawPart(b"hello")).read(max_bytes=4)


# --- what the sender says about a file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a.txt", "a.txt"), ("../../etc/passwd", "passwd"), ("C:\\x\\y.png", "y.png"), ("a/..", None), (None, None)],
)
def test_a_name_leads_nowhere(name: str | None, shown: str | None) -> None:
    assert ReceivedFile(RawPart(b"", None, name)).name == shown


async def test_text_is_decoded_by_its_media_type() -> None:
    async def text_of(content: bytes, media_type: str | None) -> str:
        return await ReceivedFile(RawPart(content, media_type, "a.txt")).text()

    assert await text_of("é".encode(), None) == "é"
    assert await text_of(b"\xef\xbb\xbfhi", "text/plain") == "hi"
    assert await text_of(b"\xe9", 'text/plain; charset="latin-1"') == "é"
    for content, media_type in ((b"\xff", None), (b"hi", "text/plain; charset=klingon")):
        with pytest.raises(FileError, match="The file is not text in"):
            await text_of(content, media_type)


def test_a_file_shows_its_parts_and_no_secrets() -> None:
    part = UrlPart("https://files.example/a?key=secret", "text/csv", "a.csv", {"rows": 3})
    file = ReceivedFile(part)
    assert (file.part, file.url, file.raw, file.metadata) == (part, part.url, None, {"rows": 3})
    assert repr(file) == "ReceivedFile('a.csv', 'text/csv')"
    assert (ReceivedFile(RawPart(b"x")).raw, ReceivedFile(RawPart(b"x")).url) == (b"x", None)
    assert ReceivedFile(RawPart(b"x", None, "a.png")).media_type == "image/png"
