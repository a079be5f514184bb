"""What a page of the tutorial tells its reader to do, in order: files to write, and what terminals show.

A fenced block with a title is a file to write: ```python title="hello.py". A ```console block with the title of a
terminal is what that terminal shows. Its lines are

    $ command        typed at the prompt of the shell
    > text           typed at a prompt of `parley chat`; so is `answer> text`
    ^C               Ctrl+C
    anything else    output, where … stands for anything, and for any number of lines if it is alone on its line

A block that ends with … leaves its command running, and one that ends with an empty prompt leaves it waiting; the next
block of that terminal goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^```(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
PROMPTS = re.compile(r"(\$|>|answer>)(?: (.*))?")
SHELL = "$"


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, what it is in, and its text."""

    place: str
    language: str
    title: str | None
    body: str


@dataclass(frozen=True)
class Typed:
    """What is typed at a prompt; None if the block ends there."""

    prompt: str
    text: str | None


@dataclass(frozen=True)
class Pressed:
    """Ctrl+C."""


@dataclass(frozen=True)
class Shown:
    """Lines of output."""

    lines: tuple[str, ...]

    def pattern(self) -> str:
        """A regular expression for the output."""
        return "".join(_pattern(line) for line in self.lines)


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(f"{page.name}:{line}", found["language"], found["title"], found["body"])


def actions(body: str) -> Iterator[Typed | Pressed | Shown]:
    """What happens in a terminal, from the text of a block."""
    output: list[str] = []
    for line in body.splitlines():
        prompt = PROMPTS.fullmatch(line)
        if prompt is None and line != "^C":
            output.append(line)
            continue
        if output:
            yield Shown(tuple(output))
            output = []
        yield Typed(prompt[1], prompt[2]) if prompt else Pressed()
    if output:
        yield Shown(tuple(output))


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(words) for words in line.split("…")) + r"\n"
