"""How a server says that it is ready: a title, rows of URLs and facts, who may call, and lines to paste."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from parley import __version__


def show_ready(
    to: Console,
    what: str,
    *,
    rows: Iterable[tuple[str, str]],
    access: str,
    lines: Iterable[tuple[str, str]],
    shutdown_note: str,
) -> None:
    """Print it. `what` follows the name of Parley; each of `lines` is a title and what can be pasted."""
    to.print(Text.assemble("\n", (f"Parley {__version__}", "bold"), f" {what}\n"), soft_wrap=True)
    for label, value in rows:
        to.print(Text.assemble("  ", (f"{label:<11}", "dim"), value), soft_wrap=True)
    to.print(Text(f"\n{access}\n"), soft_wrap=True)
    for title, line in lines:
        to.print(Text.assemble(f"{title}:\n\n  ", (line, "cyan"), "\n"), soft_wrap=True)
    to.print(Text(f"Press Ctrl+C to stop; {shutdown_note}.", "dim"), soft_wrap=True)
