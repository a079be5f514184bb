"""Formats of a report: text for people, JSON and JUnit for programs, and a self-contained HTML page.

What a server sent is escaped everywhere, and its control characters are replaced.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from parley.check.findings import Finding, Report, Verdict
from parley.check.rules import RULES
from parley.safe_text import printable

PROBLEMS = (Verdict.FAILED, Verdict.WARNED)
_STYLES = {
    Verdict.PASSED: "green",
    Verdict.WARNED: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.UNDECIDED: "dim",
}
_MARKS = {Verdict.PASSED: "✓", Verdict.WARNED: "!", Verdict.FAILED: "✗", Verdict.UNDECIDED: "?"}


def summary(report: Report) -> str:
    """The counts, on one line."""
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return f"{counts}; {report.requests} requests in {report.seconds:.1f} s"


def _by_endpoint(report: Report) -> Iterator[tuple[str, list[Finding]]]:
    for endpoint in dict.fromkeys(finding.endpoint for finding in report.findings):
        yield endpoint, [finding for finding in report.findings if finding.endpoint == endpoint]


def _counted(findings: list[Finding]) -> dict[Verdict, int]:
    return {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}


def _counts(findings: list[Finding]) -> str:
    """The counts of an endpoint, and the reason if all its cases are undecided for the same one."""
    counts = ", ".join(f"{number} {verdict}" for verdict, number in _counted(findings).items() if number)
    reasons = {finding.detail for finding in findings}
    is_open = all(finding.verdict is Verdict.UNDECIDED for finding in findings)
    return f"{counts}: {reasons.pop()}" if is_open and len(reasons) == 1 else counts


def _said(finding: Finding) -> str:
    """What the rule says."""
    return finding.says or RULES[finding.rule].says


def _specification(finding: Finding) -> str:
    """The releases of A2A that have the rule."""
    return f"A2A {' and '.join(RULES[finding.rule].versions)}"


def _origin(report: Report) -> str:
    """When the check ran, by which program, and with which options."""
    options = "; ".join(f"{name}: {value}" for name, value in report.options.items())
    return f"{report.at or 'Checked'} by {report.made_by}{f' ({options})' if options else ''}"


def _limitations(report: Report) -> list[str]:
    """What limits the results: endpoints that were not checked to the end, and hints."""
    incomplete = [f"Not checked to the end: {', '.join(report.incomplete)}"] if report.incomplete else []
    blocked = [f"Hardly anything could be decided: {', '.join(report.blocked)}"] if report.blocked else []
    return [*incomplete, *blocked, *(f"{number} undecided: {hint}" for hint, number in report.hints.items())]


# --- text -------------------------------------------------------------------------------------------------------------

INDENT = 6
MAX_LINES, MAX_COLUMNS = 12, 300
"""How much of a message the text shows; the other formats show more."""


def print_text(report: Report, console: Console, *, everything: bool = False) -> None:
    """Print what is wrong, with the rule and the exchange; `everything` also prints the other findings."""
    _print(console, Text(f"{printable(report.agent)} at {printable(report.url)}", style="bold"))
    _print(console, Text(printable(_origin(report)), style="dim"))
    for endpoint, findings in _by_endpoint(report):
        console.print()
        _print(console, Text(printable(endpoint), style="bold"), Text(f"({printable(_counts(findings))})", style="dim"))
        for finding in findings:
            if everything or finding.verdict in PROBLEMS:
                _print_finding(finding, console)
    console.print()
    is_bad = report.count(Verdict.FAILED) or report.incomplete or report.blocked
    _print(console, Text(summary(report), style="bold red" if is_bad else "bold green"))
    for line in _limitations(report):
        _print(console, Text(f"  {printable(line)}", style="red" if report.incomplete or report.blocked else "dim"))


def _print(console: Console, *texts: Text) -> None:
    """Print a line, which wraps only on a terminal."""
    console.print(*texts, soft_wrap=not console.is_terminal)


def _print_finding(finding: Finding, console: Console) -> None:
    style = _STYLES[finding.verdict]
    head = f"  {_MARKS[finding.verdict]} {finding.rule} {finding.verdict}"
    _print(console, Text(head, style=style), Text(finding.case))
    if finding.detail:
        _print_below(Text(printable(finding.detail)), console)
    if finding.verdict not in PROBLEMS:
        return
    _print_below(Text(f"The rule ({_specification(finding)}): {_said(finding)}", style="italic"), console)
    earlier = len(finding.exchanges) - 1
    if earlier > 0:
        _print_below(Text(f"… {earlier} earlier exchange(s) are in the other reports", style="dim"), console)
    for sent, received in finding.exchanges[-1:]:
        for mark, text in (("→", sent), ("←", received)):
            lines = [line for line in printable(text).splitlines() if line.strip()]
            shown = [f"{line[:MAX_COLUMNS]}…" if len(line) > MAX_COLUMNS else line for line in lines[:MAX_LINES]]
            for line in (*shown, *(["…"] if len(lines) > MAX_LINES else [])):
                _print_below(Text(f"{mark} {line}", style="dim"), console)


def _print_below(text: Text, console: Console) -> None:
    """Print a detail below its finding, which wraps only on a terminal."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, INDENT), expand=False))
    else:
        console.print(Text(" " * INDENT).append_text(text), soft_wrap=True)


# --- for programs -----------------------------------------------------------------------------------------------------


def as_json(report: Report) -> bytes:
    """The report as JSON; each finding quotes its rule."""
    findings = [
        {
            "rule": finding.rule,
            "specification": _specification(finding),
            "says": _said(finding),
            "case": finding.case,
            "endpoint": finding.endpoint,
            "verdict": finding.verdict,
            "detail": finding.detail,
            "hint": finding.hint or None,
            "seconds": finding.seconds,
            "exchanges": [{"sent": sent, "received": received} for sent, received in finding.exchanges],
        }
        for finding in report.findings
    ]
    whole = {
        "url": report.url,
        "agent": report.agent,
        "at": report.at,
        "made_by": report.made_by,
        "options": report.options,
        "endpoints": report.endpoints,
        "incomplete": report.incomplete,
        "blocked": report.blocked,
        "hints": report.hints,
        "requests": report.requests,
        "seconds": report.seconds,
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "findings": findings,
    }
    return json.dumps(whole, indent=2).encode()  # ASCII, which can also hold a lone surrogate


def as_junit(report: Report) -> bytes:
    """The report for CI: a suite per endpoint, a test per case.

    Undecided is skipped, a warning is output, and an endpoint that was not checked to the end, or where hardly anything
    could be decided, is an error.
    """
    root = ElementTree.Element("testsuites", {"name": "parley check", "time": f"{report.seconds:.3f}"})
    facts = {"url": report.url, "agent": report.agent, "at": report.at, "made_by": report.made_by, **report.options}
    for endpoint, findings in _by_endpoint(report):
        counted = _counted(findings)
        gap = "the check ended early" if endpoint in report.incomplete else ""
        if endpoint in report.blocked:
            gap = next(finding.hint for finding in findings if finding.hint)
        attributes = {
            "name": printable(endpoint),
            "tests": str(len(findings) + bool(gap)),
            "failures": str(counted[Verdict.FAILED]),
            "errors": str(int(bool(gap))),
            "skipped": str(counted[Verdict.UNDECIDED]),
            "time": f"{sum(finding.seconds for finding in findings):.3f}",
        }
        if report.at:
            attributes["timestamp"] = report.at.removesuffix(" UTC").replace(" ", "T")
        suite = ElementTree.SubElement(root, "testsuite", attributes)
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in facts.items():
            ElementTree.SubElement(properties, "property", name=name, value=printable(value))
        for finding in findings:
            _add_test(suite, finding)
        if gap:
            test = ElementTree.SubElement(
                suite, "testcase", name="The endpoint is checked to the end", classname="endpoints"
            )
            ElementTree.SubElement(test, "error", message=printable(gap), type="incomplete")
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _add_test(suite: ElementTree.Element, finding: Finding) -> None:
    attributes = {
        "name": printable(f"{finding.rule} {finding.case}"),
        "classname": printable(finding.endpoint),
        "time": f"{finding.seconds:.3f}",
    }
    test = ElementTree.SubElement(suite, "testcase", attributes)
    detail, evidence = printable(finding.detail), printable(_evidence(finding))
    match finding.verdict:
        case Verdict.FAILED:
            ElementTree.SubElement(test, "failure", message=detail, type=finding.rule).text = evidence
        case Verdict.UNDECIDED:
            ElementTree.SubElement(test, "skipped", message=detail)
        case Verdict.WARNED:
            ElementTree.SubElement(test, "system-out").text = f"Warning: {detail}\n{evidence}"
        case Verdict.PASSED:
            pass


def _evidence(finding: Finding) -> str:
    said = "\n\n".join(f"→ {sent}\n\n← {received}" for sent, received in finding.exchanges)
    return f"The rule ({_specification(finding)}): {_said(finding)}\n\n{said}"


# --- one page ---------------------------------------------------------------------------------------------------------

_STYLE = """
:root{color-scheme:light dark;--ok:#1a7f37;--bad:#c5221f;--warn:#9a6700;--dim:#6e7781;--back:#8881}
@media(prefers-color-scheme:dark){:root{--ok:#4ac26b;--bad:#ff7b72;--warn:#e3b341;--dim:#8b949e}}
body{font:1rem/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}h1,h2,td,th,p,summary{overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;border-bottom:1px solid var(--back);text-align:left}
td.n,thead th+th{text-align:right;font-variant-numeric:tabular-nums}
details{border-left:4px solid var(--dim);padding:.2rem .8rem;margin:.3rem 0}
details.passed{border-color:var(--ok)}details.failed{border-color:var(--bad)}details.warned{border-color:var(--warn)}
b.passed{color:var(--ok)}b.failed{color:var(--bad)}b.warned{color:var(--warn)}b.undecided{color:var(--dim)}
summary{cursor:pointer}:focus-visible{outline:3px solid var(--warn);outline-offset:2px}
blockquote{margin:.4rem 0;padding-left:.8rem;border-left:2px solid var(--dim);font-style:italic}
pre{background:var(--back);padding:.6rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;max-height:24rem}
"""

_COLLAPSED = (Verdict.UNDECIDED, Verdict.PASSED)
"""Verdicts that few readers look at: each is collapsed as a group."""


def as_html(report: Report) -> bytes:
    """The report as one page, without scripts and without external resources."""
    endpoints = list(_by_endpoint(report))
    anchors = {id(finding): f"failure-{number}" for number, finding in enumerate(_failures(report))}
    title = f"A2A check of {_escaped(report.agent)}"
    tone = "failed" if report.incomplete or report.blocked else "undecided"
    page = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head>",
        f"<body><header><h1>{title}</h1>",
        f"<p>{_escaped(report.url)}</p>",
        f"<p>{_escaped(_origin(report))}</p>",
        f"<p><strong>{_escaped(summary(report))}</strong></p>",
        *(f'<p><b class="{tone}">{_escaped(gap)}</b></p>' for gap in _limitations(report)),
        "</header><main>",
        _html_failures(report, anchors),
        _html_overview(endpoints),
        *(_html_endpoint(index, endpoint, findings, anchors) for index, (endpoint, findings) in enumerate(endpoints)),
        "</main></body></html>",
    ]
    return "\n".join(part for part in page if part).encode()


def _html_failures(report: Report, anchors: Mapping[int, str]) -> str:
    """A link to every failure."""
    rows = [
        f'<li><a href="#{anchors[id(finding)]}">{_escaped(f"{finding.rule} {finding.case}")}</a>: '
        + _escaped(finding.endpoint)
        for finding in _failures(report)
    ]
    return "\n".join(["<section><h2>Failures</h2><ul>", *rows, "</ul></section>"]) if rows else ""


def _failures(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.verdict is Verdict.FAILED]


def _html_overview(endpoints: list[tuple[str, list[Finding]]]) -> str:
    heads = "".join(f'<th scope="col">{verdict}</th>' for verdict in Verdict)
    rows = "\n".join(
        f'<tr><th scope="row"><a href="#endpoint-{index}">{_escaped(endpoint)}</a></th>'
        + "".join(f'<td class="n">{number}</td>' for number in _counted(findings).values())
        + "</tr>"
        for index, (endpoint, findings) in enumerate(endpoints)
    )
    return f'<table><thead><tr><th scope="col">endpoint</th>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>'


def _html_endpoint(index: int, endpoint: str, findings: list[Finding], anchors: Mapping[int, str]) -> str:
    """The findings of one endpoint: failures first and open, the rest collapsed."""
    parts = [f'<section id="endpoint-{index}"><h2>{_escaped(endpoint)}</h2>']
    for verdict in (Verdict.FAILED, Verdict.WARNED, *_COLLAPSED):
        same = "\n".join(_html_finding(finding, anchors) for finding in findings if finding.verdict is verdict)
        if same and verdict in _COLLAPSED:
            number = _counted(findings)[verdict]
            same = f'<details><summary><b class="{verdict}">{number} {verdict}</b></summary>{same}</details>'
        parts.append(same)
    return "\n".join([*(part for part in parts if part), "</section>"])


def _html_finding(finding: Finding, anchors: Mapping[int, str]) -> str:
    exchanges = "".join(
        f"\n<p>Sent</p><pre tabindex=0>{_escaped(sent)}</pre><p>Received</p><pre tabindex=0>{_escaped(received)}</pre>"
        for sent, received in finding.exchanges
    )
    is_open = f' open id="{anchors[id(finding)]}"' if finding.verdict is Verdict.FAILED else ""
    verdict = finding.verdict
    return (
        f'<details class="{verdict}"{is_open}>'
        f'<summary><b class="{verdict}">{_escaped(finding.rule)} {verdict}</b> {_escaped(finding.case)}</summary>'
        f"<p>{_escaped(finding.detail)}</p><blockquote>{_escaped(_said(finding))} "
        f"({_escaped(_specification(finding))})</blockquote>{exchanges}</details>"
    )


def _escaped(text: str) -> str:
    return html.escape(printable(text))
