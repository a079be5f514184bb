"""`parley check`: whether any A2A server keeps the rules, as a caller sees it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley import __version__
from parley.cli.options import client as c
from parley.cli.output.exit_codes import DONE, REFUSED, UNREACHABLE, run
from parley.cli.output.terminal_text import harmless_line
from parley.protocol.cards import Binding
from parley.protocol.errors import ParleyError
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from rich.console import Console

    from parley.check.endpoint_check import Tell
    from parley.check.findings import Report
    from parley.client.discovery.signatures import SignaturePolicy

SPINNER = 3
"""Columns that the moving sign takes."""
TIMEOUT = 30.0
"""Seconds. A person waits for the end of a check; an agent that is slower leaves its rules undecided."""


_ADDRESS = re.compile(r"https?:/|[\w.-]+:\d+(/|$)")
STANDARD_OUTPUT = Path("-")


def _named(ids: list[str] | None) -> list[str] | None:
    for id in ids or ():
        c.named(id)
    return ids


def _file(path: Path | None) -> Path | None:
    """Where a report goes. Other commands have `--json` without a file, so a URL is easily given for one.

    Raises:
        BadParameter: it is an address, or in no directory.
    """
    if path is not None and _ADDRESS.match(path.as_posix()):
        raise typer.BadParameter("It takes a file, or - for standard output: parley check URL --json report.json")
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"There is no directory {path.parent}.")
    return path


def _report(help: str) -> Any:
    """An option for a report in a file."""
    return typer.Option(metavar="FILE", dir_okay=False, allow_dash=True, callback=_file, help=help)


def check(
    url: c.Url,
    json: Annotated[Path | None, _report("Write a JSON report; - writes it instead of the text.")] = None,
    junit: Annotated[Path | None, _report("Write a JUnit report.")] = None,
    html: Annotated[Path | None, _report("Write an HTML page.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show what passed and what is undecided, too.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Check this rule only, such as G1.16; repeatable.")
    ] = None,
    message: Annotated[str, typer.Option(metavar="TEXT", help="What to say to the agent.")] = "Hello",
    skill: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", callback=_named, help="Ask for this skill (metadata.skillId); repeatable: each is checked."
        ),
    ] = None,
    webhook: Annotated[
        str, typer.Option(metavar="URL", help="A webhook to register and delete, never to be called.")
    ] = "https://example.com/parley-check",
    card_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Verify the card's signatures with this JSON key set."
        ),
    ] = None,
    keys_from: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="Take such keys from this host, if the card says so; repeatable."),
    ] = None,
    binding: Annotated[
        list[Binding] | None, typer.Option(case_sensitive=False, help="Only this binding; repeatable.")
    ] = None,
    dialect: Annotated[list[Version] | None, typer.Option(help="Only this version of A2A; repeatable.")] = None,
    token: c.Token = None,
    header: c.Headers = None,
    trust: c.TrustedOrigins = None,
    ca: c.Authorities = None,
    cert: c.Certificate = None,
    key: c.CertificateKey = None,
    allow_private: c.AllowPrivate = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait for any answer.")
    ] = TIMEOUT,
) -> None:
    """Check whether an A2A server keeps the rules of the specification.

    Every version and binding of its card is tried, as any caller could. What cannot be decided from outside, or not
    with this agent, is reported as undecided and never as passed. The agent gets about twenty messages per binding;
    tasks that have not ended are cancelled. Credentials, and logins of parley login, are used and never reported.

    \b
    Exit codes:
      0    no rule is broken
      1    one is
      2    the command was asked wrongly
      3    no server, no card, or not to the end: it went away, is too slow,
           or kept most from being decided, for a reason that is told
      130  interrupted by Ctrl+C

    \b
    Examples:
      parley check https://agent.example
      parley check http://localhost:8080 --binding grpc --all
      parley check https://agent.example --token "$TOKEN" --html report.html
    """
    from parley.check.options import Options
    from parley.check.report.formats import as_html, as_json, as_junit
    from parley.check.rules import RULES
    from parley.check.run import check as run_check

    how = c.calling(url, token, header, trust, ca, cert, key, allow_private=allow_private)
    unknown = [rule for rule in only or () if rule not in RULES]
    if unknown:
        raise typer.BadParameter(f"There is no rule {', '.join(unknown)}.", param_hint="--only")
    wanted = ((json, as_json), (junit, as_junit), (html, as_html))
    reports = {path: encode for path, encode in wanted if path is not None}
    options = Options(
        timeout=timeout,
        credentials=how.credentials(),
        tls=how.tls,
        guard=how.guard(),
        signatures=_signatures(card_keys, keys_from or ()),
        text=message,
        made_by=f"Parley {__version__}",
        skills=tuple(dict.fromkeys(skill or ())),
        webhook=webhook,
    )
    checking = partial(run_check, how.url, options, only=only or (), bindings=binding or (), versions=dialect or ())
    run(_reported(checking, reports, everything=everything), as_json=False)


def _signatures(card_keys: Path | None, keys_from: Collection[str]) -> SignaturePolicy:
    from parley.client.discovery.signatures import SignaturePolicy, read_key_set

    try:
        keys = read_key_set(card_keys.read_bytes()) if card_keys is not None else {}
        return SignaturePolicy(keys=keys, jwks_hosts=tuple(keys_from))
    except (ParleyError, OSError) as error:
        raise typer.BadParameter(f"They cannot be used: {error}", param_hint="--card-keys") from error


@contextmanager
def progress(console: Console) -> Generator[Tell]:
    """Tells where the check is: on a terminal in one line that moves, else in a line per place."""
    places: dict[str, None] = {}
    if not console.is_terminal or console.is_dumb_terminal:

        def tell_place(place: str, case: str) -> None:
            if place not in places:
                places[place] = None
                console.print(f"Checking {harmless_line(place)} …", markup=False, highlight=False, soft_wrap=True)

        yield tell_place
        return
    with console.status("Looking for the card …") as status:

        def tell_case(place: str, case: str) -> None:
            from rich.text import Text

            text = Text(f"{harmless_line(place)}  {case}", style="dim")
            text.truncate(console.width - SPINNER, overflow="ellipsis")
            status.update(text)

        yield tell_case


async def _reported(
    checking: Callable[..., Awaitable[Report]], reports: Mapping[Path, Callable[[Report], bytes]], *, everything: bool
) -> int:
    """Check, tell of it wherever that is wanted, and give the exit code."""
    from rich.console import Console

    from parley.check.findings import Verdict
    from parley.check.report.formats import print_text

    with progress(Console(stderr=True)) as tell:
        report = await checking(tell=tell)
    for path, encode in reports.items():
        if path == STANDARD_OUTPUT:
            typer.echo(encode(report))
        else:
            path.write_bytes(encode(report))
    if STANDARD_OUTPUT not in reports:
        print_text(report, Console(), everything=everything)
    if report.count(Verdict.FAILED):
        return REFUSED
    return UNREACHABLE if report.left or report.blocked else DONE
