"""Reports: what a server sent is shown in every form and obeyed in none."""

from __future__ import annotations

import io
import json
import re
from xml.etree import ElementTree

from rich.console import Console

from parley.check.findings import MAX_SHOWN, Finding, RecordedExchange, Report, Verdict
from parley.check.report.formats import as_html, as_json, as_junit, print_text
from parley.check.rules import CLAUSES, RULES
from parley.check.run import CASES, DISRUPTIVE
from parley.protocol.versions import Version
from parley.safe_text import printable

EVIL = "<script>alert(1)</script>\x1b[31m\x00 [bold]&amp;\ud800"


def report(*incomplete: str, hint: str = "") -> Report:
    endpoint = "1.0 JSONRPC http://agent.example/"
    return Report(
        "http://agent.example",
        EVIL,
        (endpoint,),
        (
            Finding("G1.16", "A good case", endpoint, Verdict.PASSED, "as it should be"),
            Finding("G1.1", "A bad case", endpoint, Verdict.FAILED, f"it said {EVIL}", (("POST /", EVIL),)),
            Finding(
                "G1.36", "A warned case", endpoint, Verdict.WARNED, "it should not", (("POST /", "HTTP 200"),), 0.5
            ),
            Finding("G1.6", "An undecided case", endpoint, Verdict.UNDECIDED, "nobody knows", hint=hint),
        ),
        requests=4,
        seconds=1.25,
        incomplete=incomplete,
        at="2026-01-02 03:04:05 UTC",
        made_by="Parley 7.1",
        options={"message": EVIL},
    )


def blocked(reason: str = "nobody knows") -> Report:
    """A report of a place where nothing could be decided, of a name that is longer than a terminal is wide."""
    endpoint = f"1.0 JSONRPC http://agent.example/{'long/' * 20}"
    open_case = Finding("G1.6", "An undecided case", endpoint, Verdict.UNDECIDED, reason, hint="give --token")
    return Report("http://agent.example", "Agent", (endpoint,), (open_case, open_case), requests=1)


def text_of(shown: Report) -> str:
    out = io.StringIO()
    print_text(shown, Console(file=out, width=80))
    return out.getvalue()


def test_a_place_without_a_verdict_says_why_in_its_line() -> None:
    assert "long/ (2 undecided: nobody knows)\n" in text_of(blocked())


def test_what_stood_in_the_way_is_told_in_every_report() -> None:
    gaps = ("Hardly anything could be decided: 1.0 JSONRPC http://agent.example/", "2 undecided: give --token")
    text, page = text_of(blocked()), as_html(blocked()).decode()
    assert [gap for gap in gaps if gap not in text or gap not in page] == []
    found = json.loads(as_json(blocked()))
    assert (found["blocked"], found["hints"]) == (list(blocked().endpoints), {"give --token": 2})
    (error,) = ElementTree.fromstring(as_junit(blocked())).iter("error")
    assert error.get("message") == "give --token"


def test_more_that_was_decided_than_not_is_not_a_blocked_endpoint() -> None:
    assert (report(hint="give --token").blocked, report(hint="give --token").hints) == ((), {"give --token": 1})


def test_every_report_says_when_by_what_and_how_it_was_made() -> None:
    made = "2026-01-02 03:04:05 UTC by Parley 7.1 (message: "
    assert made in text_of(report())
    assert made in as_html(report()).decode()
    found = json.loads(as_json(report()))
    assert (found["at"], found["made_by"], found["options"]) == (
        "2026-01-02 03:04:05 UTC",
        "Parley 7.1",
        {"message": EVIL},
    )
    (suite,) = ElementTree.fromstring(as_junit(report()))
    assert suite.get("timestamp") == "2026-01-02T03:04:05"
    assert {"at", "made_by", "message"} <= {item.get("name") for item in suite.iter("property")}


def test_the_page_has_its_failures_first_and_lines_that_a_reader_can_take() -> None:
    page = as_html(report()).decode()
    assert page.index("<h2>Failures</h2>") < page.index("G1.1 A bad case</a>") < page.index("<table>")
    assert max(map(len, page.splitlines())) < 1_000
    assert "Failures" not in as_html(blocked()).decode()


def test_the_sentence_is_quoted_that_a_case_is_about() -> None:
    quoted = {(case.name, CLAUSES[clause][1]) for case in CASES for clause in case.clauses.values()}
    assert ("Webhooks are kept, listed and deleted", CLAUSES["G2.5b"][1]) in quoted
    assert CLAUSES["G2.5b"] == (
        "G2.5",
        "Push notifications follow the card: an agent that declares them keeps, lists and deletes webhooks.",
    )
    assert {says for name, says in quoted if name == "A negative history length is invalid"} == {
        "A negative history length is invalid, and MUST be refused.",
        "A negative history length is invalid, and SHOULD be refused.",
        "0.1: a negative history length is invalid, and SHOULD be refused.",
    }


def test_text_shows_what_is_wrong_with_its_rule_and_what_was_said() -> None:
    out = io.StringIO()
    print_text(report(), Console(file=out, width=200))
    text = out.getvalue()
    assert "✗ G1.1 failed A bad case" in text
    assert f"The rule (A2A 1.0): {RULES['G1.1'].says}" in text
    assert "→ POST /" in text
    assert "← <script>alert(1)</script>␛[31m␀ [bold]&amp;�" in text
    assert "! G1.36 warned" in text
    assert "A good case" not in text
    assert "1 passed, 1 warned, 1 failed, 1 undecided; 4 requests in 1.2 s" in text
    assert "\x1b" not in text


def test_text_shows_everything_if_wanted() -> None:
    out = io.StringIO()
    print_text(report(), Console(file=out, width=200), everything=True)
    assert "✓ G1.16 passed A good case" in out.getvalue()
    assert "? G1.6 undecided An undecided case" in out.getvalue()


def test_json_has_every_finding_with_its_rule_and_evidence() -> None:
    found = json.loads(as_json(report()))
    assert found["counts"] == {"passed": 1, "warned": 1, "failed": 1, "undecided": 1}
    assert found["findings"][2] == {
        "rule": "G1.36",
        "specification": "A2A 1.0",
        "says": RULES["G1.36"].says,
        "case": "A warned case",
        "endpoint": "1.0 JSONRPC http://agent.example/",
        "verdict": "warned",
        "detail": "it should not",
        "hint": None,
        "seconds": 0.5,
        "exchanges": [{"sent": "POST /", "received": "HTTP 200"}],
    }


def test_junit_is_xml_with_a_failure_per_failure() -> None:
    root = ElementTree.fromstring(as_junit(report()))
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")} == {
        "tests": "4",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
        "time": "0.500",
    }
    assert [test.get("name") for test in suite.iter("testcase")] == [
        "G1.16 A good case",
        "G1.1 A bad case",
        "G1.36 A warned case",
        "G1.6 An undecided case",
    ]
    (failure,) = suite.iter("failure")
    assert failure.text is not None
    assert failure.text.startswith(f"The rule (A2A 1.0): {RULES['G1.1'].says}")
    assert "<script>alert(1)</script>" in failure.text
    assert [skipped.get("message") for skipped in suite.iter("skipped")] == ["nobody knows"]
    assert len(list(suite.iter("system-out"))) == 1


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    page = as_html(report()).decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;␛[31m␀ [bold]&amp;amp;�" in page
    assert "default-src 'none'" in page
    assert "src=" not in page
    assert re.findall('href="([^"]*)"', page) == ["#failure-0", "#endpoint-0"]
    assert 'open id="failure-0">' in page
    assert 'id="endpoint-0"' in page
    assert RULES["G1.1"].says in page


def test_an_endpoint_that_was_not_checked_to_the_end_is_in_every_report() -> None:
    left = report("1.0 JSONRPC http://agent.example/")
    out = io.StringIO()
    print_text(left, Console(file=out, width=200))
    assert "Not checked to the end: 1.0 JSONRPC http://agent.example/" in out.getvalue()
    assert json.loads(as_json(left))["incomplete"] == ["1.0 JSONRPC http://agent.example/"]
    (suite,) = ElementTree.fromstring(as_junit(left))
    assert (suite.get("tests"), suite.get("errors"), len(list(suite.iter("error")))) == ("5", "1", 1)
    assert "Not checked to the end: 1.0 JSONRPC http://agent.example/" in as_html(left).decode()


def test_what_is_wrong_is_open_on_the_page_and_the_rest_is_folded() -> None:
    page = as_html(report()).decode()
    assert '<details class="failed" open id="failure-0">' in page
    assert page.index("A bad case") < page.index("A warned case") < page.index("1 undecided</b>")
    assert page.index("1 undecided</b>") < page.index("An undecided case")
    assert page.count("<details") == page.count("</details>") == page.count("<summary>")
    assert "prefers-color-scheme:dark" in page


def test_a_text_that_turns_its_direction_is_not_obeyed() -> None:
    assert printable("a\u202eb\u2066c\td\n") == "a\ufffdb\ufffdc\td\n"
    assert printable("a\u061cb\u2028c") == "a\ufffdb\ufffdc"


def test_long_bodies_are_cut_and_silence_is_told() -> None:
    assert RecordedExchange("POST /", status=200, body=b"x" * 10_000).shown.endswith(f"{'x' * 10}… (10000 characters)")
    assert len(RecordedExchange("POST /", status=200, body=b"x" * 10_000).shown) < MAX_SHOWN + 100
    assert RecordedExchange("POST /").shown == "(nothing)"
    challenged = RecordedExchange("POST /", status=401, headers={"www-authenticate": "Bearer"})
    assert challenged.shown == "HTTP 401\nwww-authenticate: Bearer\n\n"


def test_every_rule_has_a_case_or_a_reason_why_not() -> None:
    about_cards = {"G1.52", "G1.53", "G1.55", "G1.56", "G1.57", "G2.1", "G2.2", "G3.4"}
    between_endpoints = {"G1.44", "G2.19"}
    tried = {rule for case in (*CASES, *DISRUPTIVE) for rule in case.rules.values()} | about_cards | between_endpoints
    assert {id for id, rule in RULES.items() if not rule.unobservable} == tried
    assert not {id for id, rule in RULES.items() if rule.unobservable} & tried


def test_a_case_tries_a_rule_of_the_version_it_runs_in() -> None:
    wrong = [
        (case.name, version, rule)
        for case in (*CASES, *DISRUPTIVE)
        for version, rule in case.rules.items()
        if version not in RULES[rule].versions
    ]
    assert wrong == []
    assert set(Version) == {version for rule in RULES.values() for version in rule.versions}
