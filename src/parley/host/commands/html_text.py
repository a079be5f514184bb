"""The readable text of an HTML page.

Scripts, styles and drawings are left out. Headings, list items and paragraphs are lines of their own; a link is
followed by its URL in parentheses. Pages are not trusted, as one may be built to keep a parser busy: parsing ends after
a number of characters of text, after some seconds, and at a tag that is longer than any real one.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin

MOST_SECONDS = 2.0
"""For a page of 8 MiB this is enough; only pages that were built to be slow need longer."""

MAX_TAG = 256 * 1024
"""Characters of one tag, which may hold a small picture as a data URL."""

MAX_LINK = 500
"""A longer link is of use to no reader."""

_CHUNK = 16 * 1024
_CAN_BE_CLOSED = 4 * 1024
"""Characters of an unfinished tag at the end of a page that are shown as text; of more, the parser makes slow work."""

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "select"})
_PARAGRAPHS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "details",
            "dl",
            "fieldset",
            "figure",
            "footer",
            "form",
            "header",
        ),
        *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul"),
    }
)
_LINES = frozenset({"caption", "dd", "div", "dt", "figcaption", "li", "summary", "tr"})
_BEFORE_NEWLINE = re.compile(r"(?<![ \t])[ \t]+(?=\n)")  # from the first blank only: otherwise its time is quadratic


@dataclass(frozen=True, slots=True)
class HtmlText:
    """The title and the text of a page."""

    title: str
    text: str
    is_cut: bool = False
    """Whether the page goes on after the text."""


def html_text(html: str, *, base_url: str = "", max_characters: int, seconds: float = MOST_SECONDS) -> HtmlText:
    """The text of a page, of which relative links begin at `base_url`."""
    # Python's parser raises errors for broken marked sections. With the space they are comments, as in browsers.
    html = html.replace("<![", "<! [")
    parser = _TextParser(base_url)
    deadline = time.monotonic() + seconds
    is_cut = False
    for start in range(0, len(html), _CHUNK):
        parser.feed(html[start : start + _CHUNK])
        is_stuck = parser.cdata_elem is None and len(parser.rawdata) > MAX_TAG
        if parser.size > max_characters or is_stuck or time.monotonic() > deadline:
            is_cut = True
            break
    else:
        if len(parser.rawdata) <= _CAN_BE_CLOSED:
            parser.close()
    text = _BEFORE_NEWLINE.sub("", "".join(parser.pieces)).strip()
    return HtmlText(
        " ".join("".join(parser.title).split()), text[:max_characters], is_cut or len(text) > max_characters
    )


class _TextParser(HTMLParser):
    """Collects the text of a page in pieces."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.size = 0
        self.title: list[str] = []
        self._base_url = base_url
        self._end = "\n\n"
        """The last two characters of the text."""
        self._skipped = ""
        """The element whose text is left out."""
        self._skipped_depth = 0
        self._is_title = False
        self._preformatted_depth = 0
        self._link = ""
        self._link_start = 0

    # --- for the parser -----------------------------------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if self._skipped or tag in _SKIPPED:
            self._skipped = self._skipped or tag
            self._skipped_depth += tag == self._skipped
            return
        self._break_around(tag)
        match tag:
            case "title":
                self._is_title = not self.title
            case "pre":
                self._preformatted_depth += 1
            case "br":
                self._add("\n" if self._end != "\n\n" else "")
            case "li":
                self._add("- ")
            case "td" | "th":
                self._add(" | " if not self._end.endswith("\n") else "")
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._add("#" * int(tag[1]) + " ")
            case "a":
                self._end_link()
                self._link, self._link_start = self._absolute(dict(attrs).get("href") or ""), len(self.pieces)
            case _:
                pass

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element like `<br/>`. HTML ignores the slash in others, but for `<svg/>` and its like."""
        if tag not in _SKIPPED:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if self._skipped:
            self._skipped_depth -= tag == self._skipped
            self._skipped = self._skipped if self._skipped_depth else ""
            return
        match tag:
            case "title":
                self._is_title = False
            case "pre":
                self._preformatted_depth = max(self._preformatted_depth - 1, 0)
            case "a":
                self._end_link()
            case _:
                pass
        self._break_around(tag)

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        if self._skipped:
            return
        if self._is_title:
            self.title.append(data)
        elif self._preformatted_depth:
            self._add(data)
        else:
            words = " ".join(data.split())
            before = " " if data[:1].isspace() and not self._end[-1].isspace() else ""
            after = " " if words and data[-1:].isspace() else ""
            self._add(f"{before}{words}{after}")

    # --- the text -----------------------------------------------------------------------------------------------------

    def _add(self, text: str) -> None:
        if text:
            self.pieces.append(text)
            self.size += len(text)
            self._end = (self._end + text)[-2:]

    def _break_around(self, tag: str) -> None:
        """End the line where an element begins or ends that has lines of its own; paragraphs have blank ones around."""
        wanted = 2 if tag in _PARAGRAPHS else 1 if tag in _LINES else 0
        present = len(self._end) - len(self._end.rstrip("\n"))
        self._add("\n" * (wanted - present))

    def _end_link(self) -> None:
        text = "".join(self.pieces[self._link_start :]).strip() if self._link else ""
        if text and text != self._link:
            self._add(f"({self._link}) " if self._end[-1].isspace() else f" ({self._link})")
        self._link = ""

    def _absolute(self, href: str) -> str:
        """The URL of a link; empty if it leads nowhere else."""
        try:
            url = urljoin(self._base_url, href.strip()) if not href.startswith("#") else ""
        except ValueError:
            return ""
        return url if url.startswith(("http://", "https://")) and len(url) <= MAX_LINK else ""
