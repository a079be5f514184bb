"""How a built-in model replies: a function makes the whole text, which is then streamed in small pieces.

The host runs the command lines of every reply. Text that comes from callers or from other agents must therefore never
reach a reply as it is: `without_commands` keeps its lines from being commands, and `single_line` makes it one line that
may follow a command.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from parley.engine.reading.large import run_beside_loop
from parley.host.models.model import ModelRequest, Piece, TokenUsage

_LINE_BREAK = "[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"  # everything that `str.splitlines` breaks at
_COMMAND_START = re.compile(f"(^|{_LINE_BREAK})/")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_WORD = re.compile(r"\s*\S{1,64}\s*|\s+")
MAX_QUESTION = 64 * 1024
"""Characters of a message: some twenty pages. What takes milliseconds for a page takes seconds for a thousand."""

SHORT = 8 * 1024
"""Characters that are read within a few milliseconds, on the event loop; more are read in a thread."""

_MOST_PIECES = 128  # a piece costs an event; long texts need no more of them to be seen coming


@dataclass(frozen=True, slots=True)
class BuiltinModel:
    """A model whose reply is computed from the request alone."""

    reply: Callable[[ModelRequest], str]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Piece]:
        """The reply, two words at a time, and the number of words as tokens."""
        if len(request.query) > MAX_QUESTION:
            text = f"That is more than I can read: I read up to {MAX_QUESTION} characters."
        elif len(request.query) + sum(len(result.body) for result in request.results) > SHORT:
            text = await run_beside_loop(self.reply, request)
        else:
            text = self.reply(request)
        for piece in pieces(text):
            yield piece
        read = count_words(request.system) + sum(count_words(message.text) for message in request.messages)
        yield TokenUsage(input_tokens=read, output_tokens=count_words(text))


def pieces(text: str) -> Iterator[str]:
    """The text in pieces of two words, or of more if the text is long."""
    words = _WORD.findall(text)
    size = max(2, -(-len(words) // _MOST_PIECES))
    for start in range(0, len(words), size):
        yield "".join(words[start : start + size])


def count_words(text: str) -> int:
    """How many words the text has."""
    return len(text.split())


def without_commands(text: str) -> str:
    """The text with a space before each slash that begins a line, so that no line is a command."""
    return _COMMAND_START.sub(r"\1 /", text)


def without_end_marker(text: str, marker: str) -> str:
    """The text with a space before each line that would end the block of a command."""
    return re.sub(f"(^|{_LINE_BREAK}){re.escape(marker)}", rf"\1 {marker}", text)


def single_line(text: str) -> str:
    """The text as one line: every control character and line break becomes a space."""
    return _CONTROL.sub(" ", text).strip()


def failure_reason(body: str) -> str:
    """Why a command failed, as the end of a sentence: the first line of its result, without a full stop."""
    first = next((line for line in body.splitlines() if line.strip(" .")), "no reason was given")
    return first.strip().rstrip(".")
