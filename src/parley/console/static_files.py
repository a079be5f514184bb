"""The files of the page: `index.html` and its assets, compressed beforehand.

Names of assets contain a hash of their contents, so browsers keep them for ever; the index is never kept. Every
path below `/console/` without a file is the index, because the page has routes of its own. The policy in the headers
lets the page load files of this server only, and run no script but its own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from parley.console.api.errors import ConsoleError
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest

FOLDER = Path(__file__).parent / "static"

CONTENT_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".json": b"application/json",
    ".map": b"application/json",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".ico": b"image/x-icon",
    ".woff2": b"font/woff2",
    ".txt": b"text/plain; charset=utf-8",
    ".webmanifest": b"application/manifest+json",
}

ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
"""The best first."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)

SECURITY_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # A window in which one logs in at an agent keeps its opener, which waits for it to close.
    (b"cross-origin-opener-policy", b"same-origin-allow-popups"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=()"),
)

NOT_BUILT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Parley console</title>"
    "<h1>The page of the console was not built</h1>"
    "<p>This copy of Parley runs from its sources. Build the page with <code>make console</code>, and load this page "
    "again. Copies from PyPI contain it."
)

# Nothing that begins with a dot, and no other characters than a build makes.
_NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*[A-Za-z0-9_-][A-Za-z0-9._-]*")
_HASHED = re.compile(r"assets/.+-[A-Za-z0-9_-]{8,}\.\w+")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file with its compressed forms."""

    name: str
    etag: str
    forms: dict[str, bytes]
    """The contents by encoding; that of the file itself is empty."""


class StaticFiles:
    """The files in a folder. They are read again when they have changed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, int], StaticFile]] = {}

    @property
    def build(self) -> str:
        """What changes when the page must be loaded again; empty if it was not built."""
        index = self._find("index.html")
        return "" if index is None else index.etag

    async def answer(self, request: AsgiRequest, name: str) -> None:
        """Answer a request for a file, by its name below `/console/`, or for a page with such a path.

        Raises:
            ConsoleError: there is no such file, or the method is neither GET nor HEAD.
        """
        if request.verb not in ("GET", "HEAD"):
            raise ConsoleError("not_found", "The console has no such path")
        file = self._find(name or "index.html")
        if file is None and (name.startswith("assets/") or not (request.accepts_html() or not name)):
            raise ConsoleError("not_found", "The console has no such file")
        file = file or self._find("index.html")
        if file is None:
            headers = [*SECURITY_HEADERS, (b"cache-control", b"no-store")]
            await request.reply(503, NOT_BUILT.encode(), CONTENT_TYPES[".html"], headers)
        else:
            await _reply(request, file)

    def _find(self, name: str) -> StaticFile | None:
        path = self._folder / name
        if not _NAME.fullmatch(name) or path.suffix not in CONTENT_TYPES:
            return None
        try:
            stat = path.stat()
        except OSError:
            return None
        version = (stat.st_mtime_ns, stat.st_size)
        known = self._known.get(name)
        if known is None or known[0] != version:
            known = self._known[name] = (version, _read(path, name))
        return known[1]


def _read(path: Path, name: str) -> StaticFile:
    forms = {"": path.read_bytes()}
    # Where the name follows from the content, no compressed form is out of date; nor does its time say so, because
    # installers write the files of a wheel in any order.
    oldest = 0 if _HASHED.fullmatch(name) else path.stat().st_mtime_ns
    for encoding, suffix in ENCODINGS:
        compressed = path.with_name(path.name + suffix)
        if compressed.is_file() and compressed.stat().st_mtime_ns >= oldest:
            forms[encoding] = compressed.read_bytes()
    return StaticFile(name, hashlib.sha256(forms[""]).hexdigest()[:20], forms)


async def _reply(request: AsgiRequest, file: StaticFile) -> None:
    accepted = _accepted_encodings(request.headers.get("accept-encoding", ""))
    encoding = next((one for one, _ in ENCODINGS if one in accepted and one in file.forms), "")
    etag = f'"{file.etag}{f"-{encoding}" if encoding else ""}"'
    is_hashed = _HASHED.fullmatch(file.name) is not None
    headers: list[Header] = [
        *SECURITY_HEADERS,
        (b"etag", etag.encode()),
        (b"vary", b"Accept-Encoding"),
        (b"cache-control", b"public, max-age=31536000, immutable" if is_hashed else b"no-cache"),
    ]
    if etag in request.headers.get("if-none-match", ""):
        await request.start_reply(304, headers)
        await request.send_chunk(b"", is_last=True)
        return
    if encoding:
        headers.append((b"content-encoding", encoding.encode()))
    await request.reply(200, file.forms[encoding], CONTENT_TYPES[Path(file.name).suffix], headers)


def _accepted_encodings(header: str) -> set[str]:
    """The encodings that a client accepts, as RFC 9110 section 12.5.3 writes them; without weights."""
    accepted = set[str]()
    for item in header.lower().split(","):
        name, _, weight = item.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            accepted.add(name.strip())
    return accepted
