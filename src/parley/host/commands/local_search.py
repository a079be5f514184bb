"""Full-text search over the files of a folder, for hosts without a network.

Markdown, text and HTML files are read into an index in memory at the first search: a number of files and of bytes, no
hidden ones, and none outside the folder. Hits are ranked by BM25; titles and file names count for more than text. The
URL of a hit is its path within the folder. Later changes of the files are not seen.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from parley.host.commands.document_text import document_text
from parley.host.commands.search_hits import SearchError, SearchHit
from parley.safe_text import printable_line

logger = logging.getLogger(__name__)

MOST_ENTRIES = 100_000
"""Files and folders that are looked at. A larger folder was hardly meant."""

MOST_FILES = 5_000
MAX_FILE_BYTES = 1024 * 1024
MAX_ALL_BYTES = 32 * 1024 * 1024
"""Of all files; the index takes a few times as much."""

SNIPPET_CHARACTERS = 200
TITLE_WEIGHT = 4
"""How many times a word of the title or of the file name counts."""

_TYPES = {".md": "text/plain", ".txt": "text/plain", ".html": "text/html", ".htm": "text/html"}
_WORD = re.compile(r"\w+")
_HEADING = re.compile(r"^#+\s+(.+)$", re.MULTILINE)

# The usual parameters of BM25: how soon more of the same word adds nothing, and how much length counts.
_K1, _B = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class LocalDocument:
    """A file of the folder."""

    url: str
    title: str
    text: str
    words: int


class LocalSearch:
    """Searches a folder."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet. Raises SearchError if there is no such folder."""
        if not folder.is_dir():
            raise SearchError(f"There is no folder {folder} to search")
        self._folder = folder
        self._index: SearchIndex | None = None
        self._lock = asyncio.Lock()

    async def search(self, query: str, top: int) -> list[SearchHit]:
        """The files that fit a query, the best first."""
        async with self._lock:
            if self._index is None:
                self._index = await asyncio.to_thread(lambda: SearchIndex(read_folder(self._folder)))
        return await asyncio.to_thread(self._index.search, query, top)


class SearchIndex:
    """The words of documents, and in which of them each is."""

    def __init__(self, documents: Iterable[LocalDocument]) -> None:
        self._documents: list[LocalDocument] = []
        self._postings: defaultdict[str, array[int]] = defaultdict(lambda: array("L"))
        """For each word: the number of a document and how often it holds the word, one after the other."""
        for number, document in enumerate(documents):
            self._documents.append(document)
            counts = Counter(_words(document.text))
            for word in _words(f"{document.title} {document.url}"):
                counts[word] += TITLE_WEIGHT
            for word, count in counts.items():
                self._postings[word].extend((number, count))
        self._average = sum(document.words for document in self._documents) / max(len(self._documents), 1)

    def search(self, query: str, top: int) -> list[SearchHit]:
        """The documents that hold words of a query, the best first."""
        words = frozenset(_words(query))
        scores: defaultdict[int, float] = defaultdict(float)
        for word in words & self._postings.keys():
            numbers, counts = self._postings[word][::2], self._postings[word][1::2]
            rarity = math.log(1 + (len(self._documents) - len(numbers) + 0.5) / (len(numbers) + 0.5))
            for number, count in zip(numbers, counts, strict=True):
                length = self._documents[number].words / max(self._average, 1)
                scores[number] += rarity * count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length))
        best = sorted(scores, key=lambda number: (-scores[number], self._documents[number].url))[:top]
        return [_hit(self._documents[number], words) for number in best]


def _hit(document: LocalDocument, words: frozenset[str]) -> SearchHit:
    """A document with the line that holds most words of the query."""
    lines = [
        line for line in map(str.strip, document.text.splitlines()) if line and line.lstrip("# ") != document.title
    ]
    best = max(lines, key=lambda line: len(words.intersection(_words(line))), default="")
    return SearchHit(document.title, document.url, _excerpt(printable_line(best), words))


def _excerpt(line: str, words: frozenset[str]) -> str:
    """The part of a line around the first word of the query."""
    if len(line) <= SNIPPET_CHARACTERS:
        return line
    first = next((found.start() for found in _WORD.finditer(line) if _stem(found[0]) in words), 0)
    start = max(0, min(first - SNIPPET_CHARACTERS // 4, len(line) - SNIPPET_CHARACTERS))
    part = line[start : start + SNIPPET_CHARACTERS]
    return f"{'…' if start else ''}{part.strip()}{'…' if start + SNIPPET_CHARACTERS < len(line) else ''}"


def _words(text: str) -> Iterator[str]:
    return map(_stem, _WORD.findall(text))


def _stem(word: str) -> str:
    """A word without its case and without the s of a plural."""
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


# --- reading ----------------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> Iterator[LocalDocument]:
    """The documents of a folder and the folders in it, by their paths, as far as the bounds allow."""
    root, left = folder.resolve(), MAX_ALL_BYTES
    entries = [path for path in islice(root.rglob("*"), MOST_ENTRIES) if path.suffix.lower() in _TYPES]
    visible = [
        path for path in sorted(entries) if not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    for path in visible[:MOST_FILES]:
        if not (path.is_file() and path.resolve().is_relative_to(root)):
            continue  # a link may lead out of the folder
        try:
            with path.open("rb") as file:
                body = file.read(min(MAX_FILE_BYTES, left))
        except OSError as error:
            logger.warning("A file of the search folder cannot be read: %s: %s", path, error.strerror)
            continue
        yield _document(path.relative_to(root), body)
        left -= len(body)
        if left <= 0:
            logger.warning("The search folder has more than %s bytes; the rest is not searched", MAX_ALL_BYTES)
            return


def _document(path: Path, body: bytes) -> LocalDocument:
    document = document_text(body, _TYPES[path.suffix.lower()], max_characters=MAX_FILE_BYTES)
    heading = _HEADING.search(document.text)
    title = document.title or (heading[1] if heading and path.suffix.lower() != ".txt" else path.stem)
    return LocalDocument(path.as_posix(), printable_line(title)[:200], document.text, len(_WORD.findall(document.text)))
