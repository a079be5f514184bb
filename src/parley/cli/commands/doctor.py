"""`parley doctor`: checks a running host, and says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from parley.cli.admin.host_connection import WithHostConnection
from parley.cli.doctor.examined_host import ExaminedHost
from parley.cli.doctor.finding import HostFinding, Severity
from parley.cli.doctor.host_checks import check_answers, check_facts, check_token
from parley.cli.doctor.tenant_checks import check_tenants
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE, FAILED, UNREACHABLE
from parley.cli.output.transcript import console, print_json
from parley.safe_text import printable_line

EXIT_CODES = """\b
Exit codes:
  0    nothing is wrong, or there are warnings only
  1    a problem was found
  2    invalid arguments
  3    the host does not answer
  130  interrupted by Ctrl+C
"""

AsJson = Annotated[bool, typer.Option("--json", help="Print each finding as a line of JSON.")]

MARKS = {Severity.FINE: ("✓", "green"), Severity.WARNING: ("!", "yellow"), Severity.PROBLEM: ("✗", "red")}


@with_option_groups
async def doctor(options: WithHostConnection, as_json: AsJson = False) -> int:
    """Check a running host: what is wrong, and what to do about it.

    It looks at the host's health, address, token, clock, store, models and load, and at every tenant: its agents, MCP
    servers, registered agents, schedules, budgets and approvals. It changes nothing and calls no agent.

    \b
    Examples:
      parley doctor --token-file parley.db.admin-token
      parley doctor --host https://agents.example.com --json
    """
    findings = await _examine(ExaminedHost(options))
    for finding in findings:
        if as_json:
            print_json(msgspec.json.encode(finding))
        else:
            _show(finding)
    if findings[0].severity is Severity.PROBLEM:
        return UNREACHABLE
    return FAILED if any(finding.severity is Severity.PROBLEM for finding in findings) else DONE


async def _examine(host: ExaminedHost) -> Sequence[HostFinding]:
    findings = await check_answers(host)
    if findings[0].severity is Severity.PROBLEM:
        return findings
    about_token, facts = await check_token(host)
    findings += about_token
    if facts is not None:
        findings += check_facts(facts, host.connection.url)
        findings += await check_tenants(host)
    return findings


def _show(finding: HostFinding) -> None:
    mark, color = MARKS[finding.severity]
    out = console()
    out.print(f"{mark} {printable_line(finding.about)}: {printable_line(finding.text)}", style=color)
    if finding.advice:
        out.print(f"  → {printable_line(finding.advice)}")
