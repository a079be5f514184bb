"""The text of a document, whatever its type: pages as readable text, other text as it is.

Bytes become text by the charset that the server names, else by the one that the document names, else as UTF-8; what
does not fit is replaced. A document that is not text is an error that names its type.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from email.message import Message

from parley.host.commands.html_text import html_text
from parley.protocol.errors import ParleyError
from parley.safe_text import printable_line

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})

_TEXT_TYPE = re.compile(
    r"text/.*|application/(json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-ndjson|sql|graphql|rtf|.*\+(json|xml|yaml))"
)
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""What servers say that do not know. The bytes decide."""

_CHARSET = re.compile(
    r"utf-(8|16|16-[bl]e|32)|ascii|iso8859-\d+|cp(125\d|866|874|932|949)|koi8-[ru]|gb(18030|k|2312)|big5(hkscs)?"
    r"|shift_jis|euc_(jp|kr)|iso2022_jp|mac-roman"
)
"""The charsets of web pages, as Python calls them. It has others, which are slow or not made for pages."""

_DECLARED = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BEGINS_AS_PAGE = re.compile(rb"\s*<(!doctype html|html|head|body)\b", re.IGNORECASE)


class UnreadableTypeError(ParleyError):
    """This type of document cannot be read as text. `media_type` is the type."""

    def __init__(self, media_type: str) -> None:
        super().__init__(f"The document is {media_type}, which cannot be read as text")
        self.media_type = media_type


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document, its title if it has one, and its type."""

    text: str
    media_type: str
    title: str | None = None
    is_cut: bool = False
    """Whether there is more text."""


def document_text(body: bytes, content_type: str, *, url: str = "", max_characters: int) -> DocumentText:
    """The text of a document. `content_type` is as in HTTP; `url` is where relative links begin.

    Raises:
        UnreadableTypeError: it is not text.
    """
    media_type, charset = _read_type(content_type)
    if media_type in _UNKNOWN_TYPES:
        media_type = _guessed_type(body)
    if media_type in HTML_TYPES:
        page = html_text(_decoded(body, charset, is_page=True), base_url=url, max_characters=max_characters)
        return DocumentText(page.text, media_type, page.title or None, page.is_cut)
    if not _TEXT_TYPE.fullmatch(media_type):
        raise UnreadableTypeError(media_type)
    text = _decoded(body, charset, is_page=False)
    return DocumentText(text[:max_characters], media_type, is_cut=len(text) > max_characters)


def _read_type(content_type: str) -> tuple[str, str | None]:
    """The media type in lower case, and the charset."""
    header = Message()
    header["content-type"] = printable_line(content_type)[:200]
    named = content_type.partition(";")[0].strip()
    charset = header.get_param("charset")
    return printable_line(named)[:100].lower(), charset if isinstance(charset, str) else None


def _guessed_type(body: bytes) -> str:
    if _BEGINS_AS_PAGE.match(body):
        return "text/html"
    is_text = b"\0" not in body[:4096] or body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "text/plain" if is_text else "application/octet-stream"


def _decoded(body: bytes, charset: str | None, *, is_page: bool) -> str:
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    if charset is None and is_page and (declared := _DECLARED.search(body[:4096])):
        charset = declared[1].decode("ascii")
    return body.decode(_known_charset(charset), "replace")


def _known_charset(charset: str | None) -> str:
    try:
        name = codecs.lookup(charset).name if charset else "utf-8"
    except (LookupError, ValueError):  # ValueError: it holds a null character
        return "utf-8"
    if name in ("iso8859-1", "ascii"):
        return "cp1252"  # as browsers read both: pages that name them hold quotation marks of Windows
    return name if _CHARSET.fullmatch(name) else "utf-8"
