"""Servers that do not answer, do not end, break off, or say anything: a check ends, with a report that is true."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from parley.check import options as check_options
from parley.check.endpoints.time_budget import TimeBudget
from parley.check.findings import Report, Undecided, Verdict
from parley.check.options import CheckOptions
from parley.check.run import check
from parley.client.errors import UnreachableError
from tests.check.scripted import Scripted
from tests.client.faulty_proxy import Fault, Kind, faulty_proxy
from tests.deadlines import fail_after
from tests.server.serving import serving

pytestmark = pytest.mark.anyio

SECONDS = 60.0


class Closing(Scripted):
    """A server that takes one request per connection."""

    async def reply(self, send: Any, value: Any, kind: bytes = b"application/json") -> None:
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        headers = [(b"content-type", kind), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Odd(Scripted):
    """A server that answers calls in a way of its own."""

    def __init__(self, behave: Callable[[Any, Any], Any]) -> None:
        super().__init__({})
        self.behave = behave

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            return await super().__call__(scope, receive, send)
        body = b""
        while (event := await receive()).get("more_body"):
            body += event["body"]
        return await self.behave(body + event.get("body", b""), send)


async def checked(app: Any, **options: Any) -> Report:
    with fail_after(SECONDS):
        async with serving(app, seconds=SECONDS) as client:
            return await check(str(client.base_url), CheckOptions(**options))


@asynccontextmanager
async def proxied(app: Any, *faults: Fault | None, always: Fault | None = None) -> AsyncGenerator[str]:
    """The URL of a proxy with these faults before an app."""
    async with serving(app, seconds=SECONDS) as client, faulty_proxy(client.base_url.port or 0) as proxy:
        proxy.plan(*faults, always=always)
        yield proxy.url


def details(report: Report) -> set[str]:
    return {finding.detail for finding in report.findings}


def verdicts(report: Report) -> set[Verdict]:
    """What was said about the endpoint; the card has been read."""
    return {finding.verdict for finding in report.findings if finding.endpoint in report.endpoints}


async def test_a_server_that_never_answers_is_left_after_two_questions() -> None:
    async def silence(body: bytes, send: Any) -> None:
        await asyncio.Event().wait()

    report = await checked(Odd(silence), timeout=0.3)
    assert report.incomplete == report.endpoints
    assert verdicts(report) == {Verdict.UNDECIDED}
    assert "the server does not answer" in details(report)
    assert report.requests == 4  # two for cards, a question, and whether anybody is there


async def test_a_server_that_answers_a_byte_at_a_time_is_left() -> None:
    async def drip(body: bytes, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        while True:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            await asyncio.sleep(0.01)

    report = await checked(Odd(drip), timeout=0.3)
    assert report.incomplete == report.endpoints
    assert verdicts(report) == {Verdict.UNDECIDED}


async def test_huge_replies_are_read_to_a_bound_and_are_no_a2a() -> None:
    async def flood(body: bytes, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for _ in range(40):
            await send({"type": "http.response.body", "body": b"[" * 1_000_000, "more_body": True})

    with fail_after(SECONDS):
        async with serving(Odd(flood), seconds=SECONDS) as client:
            report = await check(str(client.base_url), CheckOptions(timeout=20), only=["G1.7", "G1.16"])
    failed = [finding for finding in report.findings if finding.verdict is Verdict.FAILED]
    assert {finding.rule for finding in failed} == {"G1.7", "G1.16"}
    assert all("more than 16777216 bytes" in finding.detail for finding in failed)
    assert all(len(received) < 5000 for finding in failed for _, received in finding.exchanges)


async def test_a_stream_without_end_is_read_to_a_bound() -> None:
    def chatter(server: Scripted, params: Any) -> Any:
        task = server.new_task(params, "WORKING")
        where = {"taskId": task["id"], "contextId": task["contextId"]}
        return [{"task": task}, *([{"statusUpdate": {**where, "status": task["status"]}}] * 3000)]

    with fail_after(SECONDS):
        async with serving(Scripted({"SendStreamingMessage": chatter}), seconds=SECONDS) as client:
            report = await check(str(client.base_url), CheckOptions(timeout=20), only=["G1.25", "G1.26"])
    assert details(report) == {"the stream has more than 2000 events"}


async def test_a_server_that_drops_every_other_connection_is_accused_of_nothing() -> None:
    cut = Fault(Kind.CLOSE)
    with fail_after(SECONDS):
        async with proxied(Closing({}), *[None, cut] * 300) as url:
            report = await check(url, CheckOptions(timeout=5))
        async with serving(Closing({}), seconds=SECONDS) as client:
            calm = await check(str(client.base_url), CheckOptions(timeout=5))
    known = {(finding.rule, finding.case) for finding in calm.findings if finding.verdict is Verdict.FAILED}
    failed = {(finding.rule, finding.case) for finding in report.findings if finding.verdict is Verdict.FAILED}
    assert failed <= known
    assert report.count(Verdict.PASSED) > 5
    assert report.count(Verdict.UNDECIDED) > calm.count(Verdict.UNDECIDED)


async def test_a_server_that_dies_in_the_middle_is_left_with_what_was_found_before() -> None:
    with fail_after(SECONDS):
        async with proxied(Closing({}), *[None] * 30, always=Fault(Kind.RESET)) as url:
            report = await check(url, CheckOptions(timeout=5))
    assert report.incomplete == report.endpoints
    assert report.count(Verdict.PASSED) > 5
    assert "the server has stopped answering" in details(report)
    assert report.requests < 45


async def test_an_endpoint_is_given_up_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_options, "ANSWERS_PER_ENDPOINT", 0)
    report = await checked(Scripted({}), timeout=5)
    assert report.incomplete == report.endpoints
    assert verdicts(report) == {Verdict.UNDECIDED}
    assert "the 0 seconds for this endpoint are over" in details(report)


async def test_waiting_ends_with_the_time_for_the_answer_or_for_the_endpoint() -> None:
    with pytest.raises(Undecided, match=r"no answer within 0\.01 seconds"):
        await TimeBudget(per_answer=0.01, total=10).wait(asyncio.Event().wait())
    budget = TimeBudget(per_answer=10, total=0.01)
    with pytest.raises(Undecided, match=r"the 0\.01 seconds for this endpoint are over"):
        await budget.wait(asyncio.Event().wait())
    assert budget.is_over
    budget.extend(5)
    assert not budget.is_over


async def test_a_server_that_asks_for_a_slower_pace_is_given_it() -> None:
    """Each question is refused once and answered when it is asked again."""

    class Throttled(Scripted):
        refused: ClassVar[set[str]] = set()

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            asked = f"{scope['method']} {len(self.tasks)}"
            if scope["method"] == "POST" and asked not in self.refused:
                self.refused.add(asked)
                head = [(b"retry-after", b"0"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 429, "headers": head})
                return await send({"type": "http.response.body", "body": b"slower"})
            return await super().__call__(scope, receive, send)

    with fail_after(SECONDS):
        async with serving(Throttled({}), seconds=SECONDS) as client:
            report = await check(str(client.base_url), CheckOptions(timeout=5), only=["G1.16"])
    assert [finding.verdict for finding in report.findings] == [Verdict.PASSED]


async def test_a_server_that_is_always_too_busy_is_accused_of_nothing() -> None:
    async def busy(body: bytes, send: Any) -> None:
        await send({"type": "http.response.start", "status": 503, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<h1>Later</h1>"})

    report = await checked(Odd(busy), timeout=5)
    assert verdicts(report) == {Verdict.UNDECIDED}


def junk(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON, with names that mean something."""
    names = "id task message status state role parts text history artifacts contextId tasks code result error data"
    if depth < 4 and dice.random() < 0.6:
        return {dice.choice(names.split()): junk(dice, depth + 1) for _ in range(dice.randrange(5))}
    if depth < 4 and dice.random() < 0.3:
        return [junk(dice, depth + 1) for _ in range(dice.randrange(3))]
    return dice.choice([None, True, 0, -1, 10**30, "", "x", "TASK_STATE_WORKING", "ROLE_AGENT", "\x00\u202e", 1e308])


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_a_server_says_no_case_stumbles(seed: int) -> None:
    dice = random.Random(seed)
    honest = Scripted({})

    async def babble(body: bytes, send: Any) -> None:
        try:
            asked: Any = json.loads(body)
            id = asked["id"]
        except (ValueError, TypeError, KeyError):
            asked, id = None, None
        if isinstance(asked, dict) and dice.random() < 0.6:
            await honest(*_request(body), send)
            return
        member = dice.choice(["result", "error"])
        frame = json.dumps({"jsonrpc": "2.0", "id": id, member: junk(dice)}).encode()
        said = dice.choice(
            [frame, json.dumps(junk(dice)).encode(), b"[" * 100_000, b"data: %b\n\n" % frame * 3, b"\xff"]
        )
        kind = dice.choice([b"application/json", b"text/event-stream", b"text/html"])
        status = dice.choice([200, 200, 200, 400, 404, 500, 503, 301])
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": said})

    report = await checked(Odd(babble), timeout=5)
    assert [detail for detail in details(report) if "stumbled" in detail] == []


def _request(body: bytes) -> tuple[Any, Any]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    return {"method": "POST", "headers": []}, receive


async def test_a_broken_case_does_not_cost_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from parley.check.endpoints.samples import Samples

    async def stumble(samples: Samples) -> Any:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(Samples, "interrupted", stumble)
    report = await checked(Scripted({}), timeout=5)
    assert "the check itself failed: RuntimeError: nobody has thought of this" in details(report)
    assert report.count(Verdict.PASSED) > 0


async def test_a_server_that_hangs_up_before_its_card_is_no_server() -> None:
    with fail_after(SECONDS):
        async with proxied(Closing({}), always=Fault(Kind.RESET)) as url:
            with pytest.raises(UnreachableError):
                await check(url, CheckOptions(timeout=5))
