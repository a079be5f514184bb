"""`parley check`: whether any A2A server keeps the rules, as a stranger sees it.

Exit codes: 0 no rule is broken, 1 one is, 2 it was asked wrongly, 3 there is no server or no card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.protocol.cards import Binding
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.check.verdict import Report

FAILURES, UNREACHABLE = 1, 3
_SHORT = {"rest": Binding.HTTP_JSON, "http+json": Binding.HTTP_JSON, "jsonrpc": Binding.JSONRPC, "grpc": Binding.GRPC}


def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="The agent's URL, or its card's.")],
    json: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write a JSON report.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write a JUnit report.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write an HTML page.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Check this rule only, such as G1.16; repeatable.")
    ] = None,
    binding: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only jsonrpc, rest or grpc; repeatable.")
    ] = None,
    dialect: Annotated[
        list[str] | None, typer.Option(metavar="VERSION", help="Only 0.1, 0.2, 0.3 or 1.0; repeatable.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:VALUE", help="Send a header, such as credentials; repeatable. Never in reports."),
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait for an answer.")] = 30.0,
    message: Annotated[str, typer.Option(metavar="TEXT", help="What to say to the agent.")] = "Hello",
    webhook: Annotated[
        str, typer.Option(metavar="URL", help="A webhook to register and delete, never to be called.")
    ] = "https://example.com/parley-check",
    everything: Annotated[bool, typer.Option("--all", help="Show what passed and what is undecided, too.")] = False,
) -> None:
    """Check whether an A2A server keeps the rules of the specification.

    Every version and binding of its card is tried, as any stranger could. What cannot be decided from outside, or not
    with this agent, is reported as undecided and never as passed. The agent gets about twenty messages per binding;
    tasks that have not ended are cancelled.

    \b
    Exit codes: 0 no rule is broken, 1 one is, 2 wrong usage, 3 no server or no card.

    \b
    Examples:
      parley check https://agent.example
      parley check http://localhost:8080 --binding grpc --all
      parley check https://agent.example --header "Authorization: Bearer $TOKEN" --html report.html
    """
    from rich.console import Console

    from parley.check.probe import Options
    from parley.check.report import as_html, as_json, as_junit, printable
    from parley.check.rules import RULES
    from parley.check.run import check as run_check

    if not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{printable(url)} is no http or https URL.", param_hint="URL")
    unknown = [rule for rule in only or () if rule not in RULES]
    if unknown:
        raise typer.BadParameter(f"There is no rule {', '.join(unknown)}.", param_hint="--only")
    for path in (json, junit, html):
        if path is not None and not path.parent.is_dir():
            raise typer.BadParameter(f"There is no directory {path.parent}.", param_hint="FILE")
    options = Options(timeout=timeout, headers=_headers(header or ()), text=message, webhook=webhook)
    errors = Console(stderr=True)
    work = run_check(
        url,
        options,
        only=only or (),
        bindings=_bindings(binding or ()),
        versions=_versions(dialect or ()),
        tell=lambda place: errors.print(f"Checking {printable(place)} …", style="dim", markup=False),
    )
    files = {json: as_json, junit: as_junit, html: as_html}
    code = asyncio.run(_reported(url, work, files=files, everything=everything))
    raise typer.Exit(code)


async def _reported(
    url: str,
    work: Awaitable[Report],
    *,
    files: dict[Path | None, Callable[[Report], bytes]],
    everything: bool,
) -> int:
    """Wait for the report, write it wherever it is wanted, and give the exit code."""
    from rich.console import Console

    from parley.check.report import print_text, printable
    from parley.check.verdict import Verdict
    from parley.client.errors import ClientError

    try:
        report = await work
    except ClientError as error:
        typer.echo(f"Cannot check {printable(url)}: {printable(str(error))}", err=True)
        return UNREACHABLE
    print_text(report, Console(), everything=everything)
    for path, encode in files.items():
        if path is not None:
            path.write_bytes(encode(report))
    return FAILURES if report.count(Verdict.FAILED) else 0


def _headers(texts: list[str] | tuple[()]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise typer.BadParameter("A header is NAME:VALUE.", param_hint="--header")  # it may be a secret: not shown
        headers[name.strip()] = value.strip()
    return headers


def _bindings(names: list[str] | tuple[()]) -> list[Binding]:
    unknown = [name for name in names if name.lower() not in _SHORT]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: it is jsonrpc, rest or grpc.", param_hint="--binding")
    return [_SHORT[name.lower()] for name in names]


def _versions(names: list[str] | tuple[()]) -> list[Version]:
    unknown = [name for name in names if name not in list(Version)]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: it is {', '.join(Version)}.", param_hint="--dialect")
    return [Version(name) for name in names]
