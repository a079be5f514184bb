"""What tests do at a host: log in with the form, and call the native API as the operator or a tenant."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from playwright.sync_api import Page, expect

from tests_browser.conftest import ADMIN_TOKEN
from tests_browser.servers import Server


def log_in(page: Page, token: str) -> None:
    """Log in with the form."""
    try_token(page, token)
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def try_token(page: Page, token: str) -> None:
    """Type a token into the login form."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in", exact=True).click()


def native(host: Server, method: str, path: str, body: object = None, *, token: str = ADMIN_TOKEN) -> Any:
    """What the native API replies."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{host.url}/v1{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read() or b"{}")


def new_tenant(host: Server, name: str) -> dict[str, Any]:
    """A tenant with the starter agents, and its token."""
    return native(host, "POST", "/admin/tenants", {"name": name})
