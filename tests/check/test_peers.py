"""What a check finds at other people's servers: the faults that any caller can see, and no others in these versions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from anyio import fail_after

from parley.check.probe import Options
from parley.check.run import check
from parley.check.verdict import Report, Verdict
from parley.protocol.cards import Binding
from parley.protocol.versions import Version
from tests.peer_environments import ROOT

pytestmark = pytest.mark.anyio


@contextmanager
def served(environment: str, script: str) -> Generator[str]:
    """The URL of a peer's server, in a process of its own."""
    python = ROOT / ".peers" / environment / "bin" / "python"
    if not python.exists():
        pytest.fail(f"The environment of {environment} is missing: run `make peers`", pytrace=False)
    command = [python, ROOT / "tests" / "peers" / script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


async def checked(url: str, version: Version) -> Report:
    with fail_after(60):
        return await check(url, Options(timeout=10, text="echo hello"), versions=[version])


def failed(report: Report, binding: Binding) -> set[tuple[str, str]]:
    return {
        (finding.rule, finding.case)
        for finding in report.findings
        if finding.verdict is Verdict.FAILED and f" {binding} " in finding.place
    }


EXTENDED = ("G1.54", "The extended card is for those who authenticate")
VERSION = ("G1.43", "A version that is not offered is refused")
STATUS = ("G1.22", "An unknown status is invalid")


async def test_a2a_sdk_1_3_shows_its_extended_card_to_everybody_and_takes_unknown_enums_and_versions() -> None:
    with served("a2a-sdk-1.3.0", "server_sdk_1_3_0.py") as url:
        report = await checked(url, Version.V1_0)
    assert failed(report, Binding.JSONRPC) == {EXTENDED, VERSION, STATUS}
    assert failed(report, Binding.HTTP_JSON) == {EXTENDED, VERSION, STATUS}
    assert failed(report, Binding.GRPC) == {EXTENDED, VERSION}
    warned = {finding.rule for finding in report.findings if finding.verdict is Verdict.WARNED}
    assert warned == {"G1.36", "G1.55"}


async def test_fasta2a_ignores_task_ids_and_ends_requests_that_it_does_not_know_with_500() -> None:
    with served("fasta2a", "server_fasta2a.py") as url:
        report = await checked(url, Version.V1_0)
    found = failed(report, Binding.JSONRPC)
    assert {
        ("G1.59", "An unknown method is method not found"),
        ("G1.2", "A message to an unknown task is refused"),
        ("G1.1", "A message to a finished task is refused"),
        ("G1.44", "Tasks can be listed"),
        ("G1.46", "JSON is spelled as the specification says"),
        ("G1.29", "Nobody subscribes to a finished task"),
        VERSION,
    } <= found


async def test_a2a_sdk_0_3_is_checked_over_all_its_bindings() -> None:
    extended = ("G2.5", "The extended card is for those who authenticate")
    with served("a2a-sdk-0.3.26", "server_sdk_pydantic.py") as url:
        report = await checked(url, Version.V0_3)
    assert failed(report, Binding.JSONRPC) == {extended}
    assert extended in failed(report, Binding.HTTP_JSON)
    assert extended in failed(report, Binding.GRPC)
