"""Reports of a check: text for people, JSON and JUnit for programs, and one HTML page that needs nothing else.

What a server sent is foreign text: it is escaped everywhere, and control characters are shown, not obeyed.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from parley.check.rules import RULES
from parley.check.verdict import Finding, Report, Verdict

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_STYLES = {
    Verdict.PASSED: "green",
    Verdict.WARNED: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.UNDECIDED: "dim",
}
_MARKS = {Verdict.PASSED: "✓", Verdict.WARNED: "!", Verdict.FAILED: "✗", Verdict.UNDECIDED: "?"}


def printable(text: str) -> str:
    """The text with every control character replaced, except newlines and tabs."""
    return _CONTROL.sub("\ufffd", text)


def summary(report: Report) -> str:
    """The numbers, in a line."""
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return f"{counts}; {report.requests} requests in {report.seconds:.1f} s"


def _by_place(report: Report) -> Iterator[tuple[str, list[Finding]]]:
    for place in dict.fromkeys(finding.place for finding in report.findings):
        yield place, [finding for finding in report.findings if finding.place == place]


def print_text(report: Report, console: Console, *, everything: bool = False) -> None:
    """Write a report for people: what is wrong, with its rule and what was said; all else only if wanted."""
    console.print(Text(f"{printable(report.agent)} at {printable(report.url)}", style="bold"))
    for place, findings in _by_place(report):
        counts = ", ".join(
            f"{number} {verdict}" for verdict in Verdict if (number := sum(f.verdict is verdict for f in findings))
        )
        console.print()
        console.print(Text(printable(place), style="bold"), Text(f"({counts})", style="dim"))
        for finding in findings:
            if everything or finding.verdict in (Verdict.FAILED, Verdict.WARNED):
                _print_finding(finding, console)
    console.print()
    console.print(Text(summary(report), style="bold red" if report.count(Verdict.FAILED) else "bold green"))


def _print_finding(finding: Finding, console: Console) -> None:
    style = _STYLES[finding.verdict]
    head = f"  {_MARKS[finding.verdict]} {finding.rule} {finding.verdict}"
    console.print(Text(head, style=style), Text(finding.case))
    console.print(Text(f"      {printable(finding.detail)}"))
    if finding.verdict not in (Verdict.FAILED, Verdict.WARNED):
        return
    console.print(Text(f"      The rule: {RULES[finding.rule].says}", style="italic"))
    if finding.exchanges:
        sent, received = finding.exchanges[-1]
        for mark, text in (("→", sent), ("←", received)):
            lines = [line for line in printable(text).splitlines() if line.strip()]
            for line in lines[:8]:
                console.print(Text(f"      {mark} {line[:200]}", style="dim"))


def as_json(report: Report) -> bytes:
    """The report as JSON; each finding has what its rule says."""
    findings = [
        {
            "rule": finding.rule,
            "says": RULES[finding.rule].says,
            "case": finding.case,
            "place": finding.place,
            "verdict": finding.verdict,
            "detail": finding.detail,
            "exchanges": [{"sent": sent, "received": received} for sent, received in finding.exchanges],
        }
        for finding in report.findings
    ]
    whole = {
        "url": report.url,
        "agent": report.agent,
        "places": report.places,
        "requests": report.requests,
        "seconds": report.seconds,
        "counts": {verdict.value: report.count(verdict) for verdict in Verdict},
        "findings": findings,
    }
    return json.dumps(whole, indent=2).encode()  # ASCII, so that half a surrogate pair does no harm


def as_junit(report: Report) -> bytes:
    """The report for CI: a suite per place, a test per case; undecided is skipped, a warning is output."""
    root = ElementTree.Element("testsuites", name="parley check", time=f"{report.seconds:.3f}")
    for place, findings in _by_place(report):
        numbers = {
            "tests": len(findings),
            "failures": sum(finding.verdict is Verdict.FAILED for finding in findings),
            "skipped": sum(finding.verdict is Verdict.UNDECIDED for finding in findings),
        }
        attributes = {name: str(number) for name, number in numbers.items()}
        suite = ElementTree.SubElement(root, "testsuite", {"name": printable(place), **attributes})
        for finding in findings:
            name = f"{finding.rule} {finding.case}"
            test = ElementTree.SubElement(suite, "testcase", name=printable(name), classname=printable(place))
            detail = printable(finding.detail)
            match finding.verdict:
                case Verdict.FAILED:
                    failure = ElementTree.SubElement(test, "failure", message=detail)
                    failure.text = printable(_evidence(finding))
                case Verdict.UNDECIDED:
                    ElementTree.SubElement(test, "skipped", message=detail)
                case Verdict.WARNED:
                    ElementTree.SubElement(test, "system-out").text = printable(
                        f"Warning: {detail}\n{_evidence(finding)}"
                    )
                case Verdict.PASSED:
                    pass
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _evidence(finding: Finding) -> str:
    said = "\n\n".join(f"→ {sent}\n\n← {received}" for sent, received in finding.exchanges)
    return f"The rule: {RULES[finding.rule].says}\n\n{said}"


_STYLE = """
:root{color-scheme:light dark;--ok:#1a7f37;--bad:#c5221f;--warn:#9a6700;--dim:#6e7781}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem;overflow-wrap:anywhere}
details{border-left:4px solid var(--dim);padding:.2rem .8rem;margin:.25rem 0}
.passed{border-color:var(--ok)}.failed{border-color:var(--bad)}.warned{border-color:var(--warn)}
summary{cursor:pointer}summary b{display:inline-block;min-width:9.5rem}
blockquote{margin:.4rem 0;padding-left:.8rem;border-left:2px solid var(--dim);font-style:italic}
pre{background:#8881;padding:.6rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;max-height:24rem}
"""


def as_html(report: Report) -> bytes:
    """The report as one page, without scripts and without anything from elsewhere."""
    body = "".join(
        f"<h2>{_safe(place)}</h2>{''.join(_html_finding(finding) for finding in findings)}"
        for place, findings in _by_place(report)
    )
    title = f"A2A check of {_safe(report.agent)}"
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{_safe(report.url)}</p><p><strong>{_safe(summary(report))}</strong></p>{body}</body></html>"
    )
    return page.encode()


def _html_finding(finding: Finding) -> str:
    exchanges = "".join(
        f"<p>Sent</p><pre>{_safe(sent)}</pre><p>Came back</p><pre>{_safe(received)}</pre>"
        for sent, received in finding.exchanges
    )
    is_open = " open" if finding.verdict is Verdict.FAILED else ""
    return (
        f'<details class="{finding.verdict}"{is_open}>'
        f"<summary><b>{_safe(finding.rule)} {finding.verdict}</b> {_safe(finding.case)}</summary>"
        f"<p>{_safe(finding.detail)}</p><blockquote>{_safe(RULES[finding.rule].says)}</blockquote>{exchanges}</details>"
    )


def _safe(text: str) -> str:
    return html.escape(printable(text))
