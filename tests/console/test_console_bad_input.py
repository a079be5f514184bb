"""Nonsense is answered with an error that names it, and never with 500."""

from __future__ import annotations

import pytest

from parley.console.api.table import ROUTES
from tests.console.consoles import console_of
from tests.console.test_task_lists import echo_agent, send

pytestmark = pytest.mark.anyio

TEXTS = (
    *("", "%00", "%ED%A0%80", "%FF", "..", "%2e%2e%2f", "-1", "1e400", "NaN", "9" * 400, "²", "[]", "A" * 3_000),
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59", "253402300800", "-1e18"),
    *("javascript:alert(1)", "http://[::1", "//x", "https://exa%20mple", "%E2%80%AE"),
)

PARAMETERS = ("agent", "state", "context", "since", "until", "text", "limit", "cursor", "tenant", "at", "after", "url")

BODIES = (
    *(b"[" * 5_000 + b"]" * 5_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b'{"url":"\\ud800"}', b"\xff\xfe{"),
    *(b'{"scheme":"x","values":{"token":"a\\r\\nb: c"}}', b'{"once":"\\u0000"}', b'{"tenant":"\\u0000"}', b'{"url":7}'),
    *(b'{"channel":"c","kind":"task_list","until":"0001-01-01T00:00:00Z"}', b'{"channel":"c","kind":"x"}', b"null"),
)


async def test_nonsense_in_the_query_is_no_failure_of_the_server() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        task = (await send(browser, "hello"))["id"]
        for route in ROUTES:
            if route.method != "GET" or route.path in ("/stream", "/agents", "/agents/{id}"):
                continue
            path = route.path.format(id=task, number="1", artifact="a", part="0")
            for name in PARAMETERS:
                for text in TEXTS:
                    url = f"/console/api{path}?{name}={text}"
                    reply = await browser.get(url)
                    assert reply.status_code in (200, 400, 403, 404, 501), f"{url} {reply.text}"


async def test_nonsense_in_bodies_is_no_failure_of_the_server() -> None:
    async with console_of(echo_agent()) as server:
        browser = await server.browser()
        page = await browser.page()
        for route in ROUTES:
            if route.method != "POST" or route.path == "/session/logout":
                continue
            path = f"/console/api{route.path.format(id='x', page=page.id, webhook='w')}"
            headers = {**browser.headers, "content-type": "application/json"}
            for body in BODIES:
                reply = await browser.client.post(path, content=body, headers=headers)
                assert reply.status_code in (200, 400, 401, 403, 404, 409, 413, 501), f"{path} {body[:80]} {reply.text}"
        assert (await page.frame("c"))["error"]["code"] == "bad_request"
