"""`parley check`: checks whether an A2A server follows the specification."""

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
from parley.cli.output.exit_codes import DONE, FAILED, UNREACHABLE, run
from parley.protocol.cards import Binding
from parley.protocol.errors import ParleyError
from parley.protocol.versions import Version
from parley.safe_text import printable_line

if TYPE_CHECKING:
    from rich.console import Console

    from parley.check.endpoint_check import OnProgress
    from parley.check.findings import Report
    from parley.client.discovery.signatures import SignaturePolicy

SPINNER = 3
"""Columns of the spinner."""
TIMEOUT = 30.0
"""Seconds. A person waits for the check to end; the rules of a slower agent stay undecided."""

_ADDRESS = re.compile(r"https?:/|[\w.-]+:\d+(/|$)")
STANDARD_OUTPUT = Path("-")


def _named(ids: list[str] | None) -> list[str] | None:
    for id in ids or ():
        c.non_empty_id(id)
    return ids


def _file(path: Path | None) -> Path | None:
    """The file of a report. Other commands have `--json` without a file, so users may put the URL there.

    Raises:
        BadParameter: it is a URL, or its directory does not exist.
    """
    if path is not None and _ADDRESS.match(path.as_posix()):
        raise typer.BadParameter("Expected a file, or - for standard output: parley check URL --json report.json")
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"There is no directory {path.parent}.")
    return path


def _report(help: str) -> Any:
    """An option that names the file of a report."""
    return typer.Option(metavar="FILE", dir_okay=False, allow_dash=True, callback=_file, help=help)


def check(
    url: c.Url,
    json: Annotated[Path | None, _report("Write a JSON report; - writes it instead of the text.")] = None,
    junit: Annotated[Path | None, _report("Write a JUnit report.")] = None,
    html: Annotated[Path | None, _report("Write an HTML page.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show what passed and what is undecided.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Check this rule only, such as G1.16; repeatable.")
    ] = None,
    message: Annotated[str, typer.Option(metavar="TEXT", help="The message to send to the agent.")] = "Hello",
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
        typer.Option(metavar="HOST", help="Fetch keys from this host, if the card refers to it; repeatable."),
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
    """Check whether an A2A server follows the specification.

    The check calls every version and binding that the card declares. What no caller can observe, or not with this
    agent, is reported as undecided and never as passed. The agent gets about twenty messages per binding; tasks that
    have not ended are cancelled. Credentials, also those of parley login, are used and never reported.

    \b
    Exit codes:
      0    no rule is broken
      1    a rule is broken
      2    invalid arguments
      3    no server, no card, or an incomplete check: the server stopped
           answering, was too slow, or the report has hints for most cases
      130  interrupted by Ctrl+C

    \b
    Examples:
      parley check https://agent.example
      parley check http://localhost:8080 --binding grpc --all
      parley check https://agent.example --token "$TOKEN" --html report.html
    """
    from parley.check.options import CheckOptions
    from parley.check.report.formats import as_html, as_json, as_junit
    from parley.check.rules import RULES
    from parley.check.run import check as run_check

    options = c.client_options(url, token, header, trust, ca, cert, key, allow_private=allow_private)
    unknown = [rule for rule in only or () if rule not in RULES]
    if unknown:
        raise typer.BadParameter(f"There is no rule {', '.join(unknown)}.", param_hint="--only")
    wanted = ((json, as_json), (junit, as_junit), (html, as_html))
    reports = {path: encode for path, encode in wanted if path is not None}
    check_options = CheckOptions(
        timeout=timeout,
        credentials=options.credentials(),
        tls=options.tls,
        guard=options.guard(),
        signatures=_signatures(card_keys, keys_from or ()),
        text=message,
        made_by=f"Parley {__version__}",
        skills=tuple(dict.fromkeys(skill or ())),
        webhook=webhook,
    )
    checking = partial(
        run_check, options.url, check_options, only=only or (), bindings=binding or (), versions=dialect or ()
    )
    run(_reported(checking, reports, everything=everything), as_json=False)


def _signatures(card_keys: Path | None, keys_from: Collection[str]) -> SignaturePolicy:
    from parley.client.discovery.signatures import SignaturePolicy, read_key_set

    try:
        keys = read_key_set(card_keys.read_bytes()) if card_keys is not None else {}
        return SignaturePolicy(keys=keys, jwks_hosts=tuple(keys_from))
    except (ParleyError, OSError) as error:
        raise typer.BadParameter(f"The keys cannot be used: {error}", param_hint="--card-keys") from error


@contextmanager
def progress(console: Console) -> Generator[OnProgress]:
    """Shows the progress: on a terminal with a spinner, otherwise with a line per endpoint."""
    endpoints: dict[str, None] = {}
    if not console.is_terminal or console.is_dumb_terminal:

        def print_endpoint(endpoint: str, case: str) -> None:
            if endpoint not in endpoints:
                endpoints[endpoint] = None
                console.print(f"Checking {printable_line(endpoint)} …", markup=False, highlight=False, soft_wrap=True)

        yield print_endpoint
        return
    with console.status("Looking for the card …") as status:

        def show_case(endpoint: str, case: str) -> None:
            from rich.text import Text

            text = Text(f"{printable_line(endpoint)}  {case}", style="dim")
            text.truncate(console.width - SPINNER, overflow="ellipsis")
            status.update(text)

        yield show_case


async def _reported(
    checking: Callable[..., Awaitable[Report]], reports: Mapping[Path, Callable[[Report], bytes]], *, everything: bool
) -> int:
    """Run the check, write the reports, and return the exit code."""
    from rich.console import Console

    from parley.check.findings import Verdict
    from parley.check.report.formats import print_text

    with progress(Console(stderr=True)) as on_progress:
        report = await checking(on_progress=on_progress)
    for path, encode in reports.items():
        if path == STANDARD_OUTPUT:
            typer.echo(encode(report))
        else:
            path.write_bytes(encode(report))
    if STANDARD_OUTPUT not in reports:
        print_text(report, Console(), everything=everything)
    if report.count(Verdict.FAILED):
        return FAILED
    return UNREACHABLE if report.incomplete or report.blocked else DONE
