"""`/fetch`: pages of real servers as text, and hosts that must not be called."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import Any

import pytest

from parley.host.commands.document_text import document_text
from parley.host.commands.html_text import html_text
from parley.host.commands.web_fetch import CUT_NOTE, MAX_READ_BYTES, MAX_TEXT_BYTES, FetchedPage, FetchError, WebFetcher
from tests.client.test_discovery import Site, gone
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

HERE = WebFetcher(("127.0.0.1",))
"""Fetches from this machine."""


async def fetched(page: Any, fetcher: WebFetcher = HERE, path: str = "/page") -> FetchedPage:
    async with serving(page if callable(page) else Site({"/page": page})) as http:
        return await fetcher.fetch(f"{http.base_url}{path}")


def plain(body: bytes, content_type: str = "text/plain") -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": content_type}, body


# --- text -------------------------------------------------------------------------------------------------------------

PAGE = """<!doctype html><html><head><title>Rome &amp; back</title><style>p {}</style></head><body>
<h1>Trips</h1><p>Go  by <b>train</b>, see <a href="/fares?to=rome">the
fares</a> or <a href="#top">above</a>.<script>if (a < b) alert("<p>no</p>")</script>
<ul><li>One<li>Two</ul><![broken]><table><tr><th>From<th>To<tr><td>Wien<td>Roma</table>
<pre>a  b
  c</pre>end<br>of it<svg><text>drawing</text></svg></body></html>"""

TEXT = """# Trips

Go by train, see the fares ({base}/fares?to=rome) or above.

- One
- Two

From | To
Wien | Roma

a  b
  c

end
of it"""


async def test_a_page_becomes_readable_text_with_its_links_and_its_title() -> None:
    page = await fetched(plain(PAGE.encode(), "text/html; charset=utf-8"))
    base = page.final_url.removesuffix("/page")
    assert page == FetchedPage(TEXT.format(base=base), "text/html", f"{base}/page", "Rome & back")


@pytest.mark.parametrize(
    ("body", "content_type", "text", "media_type"),
    [
        (b'{"a": [1]}', "application/json", '{"a": [1]}', "application/json"),
        (b"<a>1</a>", "application/atom+xml", "<a>1</a>", "application/atom+xml"),
        ("Zürich".encode("latin-1"), "text/plain; charset=ISO-8859-1", "Zürich", "text/plain"),
        ("Zürich".encode(), "text/csv", "Zürich", "text/csv"),
        ("Zürich".encode("utf-16"), "text/plain", "Zürich", "text/plain"),
        ("Москва".encode("koi8-r"), 'text/plain; charset="koi8-r"', "Москва", "text/plain"),
        (b'<meta charset="windows-1251"><p>' + "Да".encode("cp1251"), "text/html", "Да", "text/html"),
        (b"abc", "text/plain; charset=unicode_escape", "abc", "text/plain"),
        (b"a\xffb", "text/plain; charset=nonsense", "a�b", "text/plain"),
        (b" <HTML><p>Hi", "", "Hi", "text/html"),
        (b"notes", "application/octet-stream", "notes", "text/plain"),
    ],
)
def test_text_is_read_by_its_type_and_its_charset(body: bytes, content_type: str, text: str, media_type: str) -> None:
    document = document_text(body, content_type, max_characters=100)
    assert (document.text, document.media_type) == (text, media_type)


@pytest.mark.parametrize(
    ("body", "content_type", "named"),
    [
        (b"%PDF", "Application/PDF", "application/pdf"),
        (b"\x89PNG", "image/png", "image/png"),
        (b"\0\1", "", "application/octet-stream"),
    ],
)
async def test_a_document_of_another_type_is_an_error_that_names_the_type(
    body: bytes, content_type: str, named: str
) -> None:
    with pytest.raises(FetchError, match=f"^The document is {named}, which cannot be read as text$"):
        await fetched(plain(body, content_type))


async def test_a_compressed_page_is_read_and_bounded_as_any_other() -> None:
    def zipped(body: bytes, coding: str = "gzip") -> tuple[int, dict[str, str], bytes]:
        return 200, {"content-type": "text/plain", "content-encoding": coding}, body

    assert (await fetched(zipped(gzip.compress(b"hello")))).text == "hello"
    assert (await fetched(zipped(gzip.compress(bytes(2 * MAX_READ_BYTES))))).text.endswith(CUT_NOTE)
    for page, reason in ((zipped(b"hello"), "damaged"), (zipped(b"hello", "br"), "in an unknown way: br")):
        with pytest.raises(FetchError, match=reason):
            await fetched(page)


async def test_other_statuses_are_errors() -> None:
    with pytest.raises(FetchError, match=r"^The server answered with status 404$"):
        await fetched(plain(b""), path="/other")


# --- bounds -----------------------------------------------------------------------------------------------------------


async def test_long_text_is_cut_between_two_characters_and_says_so() -> None:
    text = (await fetched(plain("ü".encode() * MAX_TEXT_BYTES))).text
    assert text.endswith(f"ü{CUT_NOTE}")
    assert MAX_TEXT_BYTES - 1 <= len(text.encode()) <= MAX_TEXT_BYTES
    assert (await fetched(plain(b"x" * MAX_TEXT_BYTES))).text == "x" * MAX_TEXT_BYTES


async def test_of_an_endless_document_only_the_beginning_is_read() -> None:
    sent = 0

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        leaving = asyncio.create_task(gone(receive))
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"0123456789abcdef" * 4096, "more_body": True})
            sent += 65536
            await asyncio.sleep(0)  # after the client has gone, `send` returns at once
        await leaving

    page = await fetched(endless)
    assert page.text.startswith("0123456789abcdef0123")
    assert page.text.endswith(CUT_NOTE)
    assert sent < 3 * MAX_READ_BYTES


@pytest.mark.parametrize("begins", [False, True])
async def test_a_server_that_does_not_answer_is_given_up(begins: bool) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await receive()  # until the client has gone

    with pytest.raises(FetchError, match=r"^There was no answer within 0.2 seconds$"):
        await fetched(slow, WebFetcher(("127.0.0.1",), seconds=0.2))


@pytest.mark.parametrize("unit", ["<a ", "<![", "<!--", "&"])
def test_a_page_that_is_built_to_be_slow_is_given_up(unit: str) -> None:
    assert html_text(unit * 300_000, max_characters=100, seconds=60).is_cut


def test_blanks_are_not_searched_from_each_of_them() -> None:
    blanks = " " * 1_000_000  # the square of that takes more than the deadline of a test
    page = html_text(f"<pre>a{blanks}b{blanks}\nc</pre>", max_characters=3_000_000)
    assert page.text == f"a{blanks}b\nc"


def test_a_page_whose_text_comes_too_late_is_given_up() -> None:
    assert html_text("<svg>" * 10_000, max_characters=100, seconds=0).is_cut


# --- hosts ------------------------------------------------------------------------------------------------------------


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/", "127.0.0.1 is not a public host"),
        ("https://[::1]/", "::1 is not a public host"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254 is not a public host"),
        ("http://localhost/", "localhost is not a public host"),
        ("http://rebinding.example/", "rebinding.example has an address that is not public"),
        ("http://ada:pw@public.example/", "it must not contain a user name"),
        ("file:///etc/passwd", "It must start with http:// or https://"),
        ("http://0x7f.1/", "address must be four decimal numbers"),
    ],
)
async def test_private_hosts_and_other_urls_are_refused(url: str, reason: str) -> None:
    with pytest.raises(FetchError, match=reason.replace(".", r"\.")):
        await WebFetcher(resolve=at_home).fetch(url)


async def test_a_host_that_the_operator_lists_may_be_private() -> None:
    site = Site({"/page": plain(b"hello")})
    async with serving(site) as http:
        url = f"http://wiki.corp.example:{http.base_url.port}/page"
        page = await WebFetcher((".corp.example",), resolve=at_home).fetch(url)
        assert (page.text, page.final_url) == ("hello", url)
        with pytest.raises(FetchError, match="not public"):
            await WebFetcher((".other.example",), resolve=at_home).fetch(url)
    assert len(site.asked) == 1


def moved(location: str) -> tuple[int, dict[str, str], bytes]:
    return 302, {"location": location}, b""


async def test_redirects_are_followed_to_hosts_that_may_be_called_only() -> None:
    pages = {
        "/page": moved("next?a=b c"),
        "/Zürich": plain(b"there"),
        "/inside": moved("http://10.0.0.1/admin"),
        "/local": moved("http://localhost:1/"),
        "/file": moved("file:///etc/passwd"),
        "/broken": moved("http://[::1/"),
        "/loop": moved("/loop"),
    }
    async with serving(site := Site(pages)) as http:
        site.pages["/next"] = moved(f"//127.0.0.1:{http.base_url.port}/Z%C3%BCrich")
        page = await HERE.fetch(f"{http.base_url}/page")
        assert (page.text, page.final_url) == ("there", f"{http.base_url}/Z%C3%BCrich")
        for path, reason in {
            "/inside": "^10.0.0.1 is not a public host$",
            "/local": "^localhost is not a public host$",
            "/file": "It must start with http:// or https://",
            "/broken": "redirects to an invalid URL$",
            "/loop": "^The server redirects more than 10 times$",
        }.items():
            with pytest.raises(FetchError, match=reason):
                await HERE.fetch(f"{http.base_url}{path}")
