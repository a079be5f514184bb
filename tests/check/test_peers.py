"""What a check finds at other people's servers: all that any caller can see of their faults, and nothing else.

Each table has every failure, so that a wrong accusation fails the test as a missing one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from parley.check.findings import Report, Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.protocol.cards import Binding
from parley.protocol.versions import Version
from tests.client.test_peers import Peer, served
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

JSONRPC, REST, GRPC = Binding.JSONRPC, Binding.HTTP_JSON, Binding.GRPC
V1, V03, V02, V01 = Version.V1_0, Version.V0_3, Version.V0_2, Version.V0_1

Found = frozenset[tuple[str, str]]


def found(*faults: tuple[str, str]) -> Found:
    return frozenset(faults)


# --- faults -----------------------------------------------------------------------------------------------------------

EXTENDED = ("G1.54", "The extended card requires authentication")
VERSION = ("G1.43", "A version that is not offered is refused")
STATUS = ("G1.22", "An unknown status is invalid")
INCLUSIVE = ("G1.22", "Lists are filtered")  # it leaves out tasks of just that time
NEGATIVE = ("G1.15", "A negative history length is invalid")
NO_REQUEST = ("G1.59", "A request without a method is invalid")
NO_METHOD = ("G1.59", "An unknown method is method not found")

EXTENDED_0_3 = ("G2.5", "The extended card requires authentication")
HOOKS_0_3 = ("G2.5", "Webhooks are kept, listed and deleted")
NO_PARTS_0_3 = ("G2.20", "A message without its parts is invalid")
ROLE_0_3 = ("G2.20", "An unknown role is invalid")

SDK_1_3 = {
    (V1, JSONRPC): found(EXTENDED, VERSION, STATUS),
    (V1, REST): found(EXTENDED, VERSION, STATUS),
    (V1, GRPC): found(EXTENDED, VERSION),
    (V03, JSONRPC): found(EXTENDED_0_3),
    (V03, REST): found(EXTENDED_0_3, HOOKS_0_3, ROLE_0_3),
    (V03, GRPC): found(EXTENDED_0_3),
}
SDK_1_3_ASKS = {
    **SDK_1_3,
    # Its compatibility layer ends a stream where the agent asks, and says final: false.
    (V03, JSONRPC): found(EXTENDED_0_3, ("G2.10", "Frames are answers to the request, and final marks the last")),
}
SDK_1_3_SECURED = {
    endpoint: found(
        EXTENDED,
        VERSION,
        *([STATUS] if endpoint[1] is not GRPC else []),
        ("G1.40", "A required extension must be listed"),
        ("G1.48", "A caller without credentials is refused"),
        ("G1.48", "A caller with wrong credentials is refused"),
        ("G1.49", "Without credentials, nothing shows which tasks exist"),
    )
    for endpoint in ((V1, JSONRPC), (V1, REST), (V1, GRPC))
}
SDK_0_3 = {
    (V03, JSONRPC): found(EXTENDED_0_3),
    (V03, REST): found(EXTENDED_0_3, HOOKS_0_3, NO_PARTS_0_3, ROLE_0_3),
    (V03, GRPC): found(EXTENDED_0_3, HOOKS_0_3),
}
SDK_0_2 = {(V02, JSONRPC): found(("G2.18", "An unknown method is method not found"))}
FASTA2A = {
    (V1, JSONRPC): found(
        VERSION,
        NEGATIVE,
        NO_METHOD,
        NO_REQUEST,
        ("G1.1", "A message to a finished task is refused"),
        ("G1.2", "A message to an unknown task is refused"),
        ("G1.8", "A send waits for the end or for a question"),
        ("G1.15", "No more history than asked for"),
        ("G1.15", "A send returns no more history than asked for"),
        ("G1.23", "A finished task cannot be cancelled"),
        ("G1.29", "A subscription to a finished task is refused"),
        ("G1.32", "An agent without push notifications refuses them"),
        ("G1.44", "Tasks can be listed"),
        ("G1.46", "JSON is spelled as the specification says"),
        ("G1.46", "Streams are spelled as the specification says"),
        ("G1.54", "Without the capability there is no extended card"),
        ("G1.59", "Invalid JSON is a parse error"),
    )
}
JS_1 = {
    (V1, JSONRPC): found(EXTENDED, INCLUSIVE, NEGATIVE, NO_REQUEST),
    (V1, REST): found(EXTENDED, INCLUSIVE),
    (V1, GRPC): found(EXTENDED, INCLUSIVE, NEGATIVE),
}
JS_0_3 = {
    (V03, JSONRPC): found(EXTENDED_0_3, NO_PARTS_0_3, ROLE_0_3, ("G2.20", "Params of a wrong type are invalid")),
    (V03, REST): found(EXTENDED_0_3, NO_PARTS_0_3, ("G2.11", "A subscription to an unknown task is refused")),
    (V03, GRPC): found(EXTENDED_0_3),
}


@dataclass(frozen=True)
class Server:
    """A peer's server, and what is found there: the failures of each place, and the rules that are warned of."""

    environment: str
    script: str
    failed: Mapping[tuple[Version, Binding], Found]
    warned: frozenset[str]
    text: str = "echo hello"

    def __str__(self) -> str:
        return f"{self.script.partition('.')[0]}-{self.text.split()[0]}"

    @property
    def versions(self) -> list[Version]:
        return list(dict.fromkeys(version for version, _ in self.failed))


OLD = frozenset({"G2.20"})
SDK = frozenset({"G1.36", "G1.55"})
NEW_JS = frozenset({"G1.36", "G1.43", "G1.45"})

SERVERS = (
    Server("a2a-sdk-1.3.0", "server_sdk_1_3_0.py", SDK_1_3, SDK | OLD),
    Server("a2a-sdk-1.3.0", "server_sdk_1_3_0.py", SDK_1_3_ASKS, SDK | OLD, text="ask"),
    Server("a2a-sdk-1.3.0", "server_sdk_1_3_0_secured.py", SDK_1_3_SECURED, SDK | {"G1.39"}),
    Server("a2a-sdk-0.3.26", "server_sdk_pydantic.py", SDK_0_3, OLD),
    Server("a2a-sdk-0.2.16", "server_sdk_pydantic.py", SDK_0_2, OLD),
    Server("fasta2a", "server_fasta2a.py", FASTA2A, frozenset({"G1.10", "G1.45", "G1.55", "G1.58"})),
    Server("a2a-js", "server_js_1_3_0.mjs", JS_1, NEW_JS),
    Server("a2a-js", "server_js_0_3_14.mjs", JS_0_3, OLD),
    Server("document", "server_raw_0_1.py", {(V01, JSONRPC): found()}, frozenset({"A1.7"})),
)


@pytest.fixture(scope="module")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server], str]]:
    """Where a peer's server is; each is started when it is asked for first."""
    urls: dict[str, str] = {}
    with ExitStack() as stack:

        def find(server: Server) -> str:
            name = f"{server.environment} {server.script}"
            if name not in urls:
                peer = Peer(server.environment, server.script, server.versions[0], JSONRPC)
                urls[name] = stack.enter_context(served(peer, tmp_path_factory.mktemp("peer")))
            return urls[name]

        yield find


def failures(report: Report) -> dict[tuple[str, str], Found]:
    """The failures by the version and the binding of their place."""
    endpoints = {tuple(endpoint.split(" ")[:2]): endpoint for endpoint in report.endpoints}
    return {
        (version, binding): frozenset(
            (finding.rule, finding.case)
            for finding in report.findings
            if finding.endpoint == endpoint and finding.verdict is Verdict.FAILED
        )
        for (version, binding), endpoint in endpoints.items()
    }


@pytest.mark.parametrize("server", SERVERS, ids=str)
async def test_a_check_finds_the_faults_of_a_peer_and_no_others(
    server: Server, url_of: Callable[[Server], str]
) -> None:
    with fail_after(60):
        report = await check(url_of(server), CheckOptions(timeout=10, text=server.text), versions=server.versions)
    wanted = {(str(version), str(binding)): faults for (version, binding), faults in server.failed.items()}
    assert failures(report) == wanted
    warned = [finding for finding in report.findings if finding.verdict is Verdict.WARNED]
    assert {finding.rule for finding in warned} == server.warned
    assert [(finding.case, finding.says) for finding in warned if "MUST" in finding.says] == []
    failed = [finding for finding in report.findings if finding.verdict is Verdict.FAILED]
    assert [(finding.case, finding.says) for finding in failed if "SHOULD" in finding.says] == []
    assert report.incomplete == ()


async def test_a_second_reader_of_a2a_sdk_1_3_is_told_chunks_twice(url_of: Callable[[Server], str]) -> None:
    """It reads the task while it queues its events. How often that is seen depends on the moment."""
    for _ in range(10):
        with fail_after(60):
            options = CheckOptions(timeout=10, text="count 20")
            report = await check(url_of(SERVERS[0]), options, versions=[V1], bindings=[JSONRPC, REST], only=["G1.28"])
        told = [finding for finding in report.findings if finding.verdict is Verdict.FAILED]
        if told:
            break
    assert {(finding.case, finding.detail) for finding in told} == {
        (
            "Two readers of a task get the same events",
            "what the second of two readers got is not what the task holds",
        )
    }


async def test_every_failure_has_its_rule_and_its_evidence(url_of: Callable[[Server], str]) -> None:
    """Over gRPC too, where the bytes say nothing to people."""
    (server,) = [one for one in SERVERS if one.script == "server_fasta2a.py"]
    with fail_after(60):
        report = await check(url_of(server), CheckOptions(timeout=10, text="echo hello"), versions=server.versions)
    failed = [finding for finding in report.findings if finding.verdict is Verdict.FAILED]
    assert failed
    for finding in failed:
        sent, received = finding.exchanges[-1]
        assert sent.startswith(("POST http", "GET http", "gRPC "))
        assert received not in ("", "(nothing)")
