"""The table of all routes of the native API."""

from __future__ import annotations

from typing import Any

from parley.host.api import (
    access,
    admin,
    agent_drafts,
    agent_versions,
    agents,
    answers,
    approvals,
    artifacts,
    background,
    budgets,
    catalog,
    conversations,
    facts,
    health,
    kill_switch,
    mcp_servers,
    memory,
    models,
    orchestrate,
    queue,
    registry,
    requests,
    schedules,
    transfer,
    usage,
)
from parley.host.api.openapi import document
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth


async def show_document(call: ApiCall[None]) -> Answer:
    """The OpenAPI document of this table."""
    base_url = call.request.base_url
    return Answer(call.host.app.shared.pages.get(("host", base_url), lambda: document(ROUTES, base_url)))


ROUTES: tuple[ApiRoute[Any], ...] = (
    *orchestrate.ROUTES,
    *agents.ROUTES,
    *agent_versions.ROUTES,
    *agent_drafts.ROUTES,
    *kill_switch.ROUTES,
    *requests.ROUTES,
    *background.ROUTES,
    *queue.ROUTES,
    *answers.ROUTES,
    *approvals.ROUTES,
    *conversations.ROUTES,
    *artifacts.ROUTES,
    *catalog.ROUTES,
    *registry.ROUTES,
    *memory.ROUTES,
    *mcp_servers.ROUTES,
    *models.ROUTES,
    *budgets.ROUTES,
    *usage.ROUTES,
    *schedules.ROUTES,
    *access.ROUTES,
    *admin.ROUTES,
    *transfer.ROUTES,
    *facts.ROUTES,
    *health.ROUTES,
    ApiRoute(
        method="GET",
        path="/openapi.json",
        handler=show_document,
        auth=Auth.NONE,
        summary="Read this document",
        replies=[ApiReply(None, description="The document.", content_type="application/json")],
    ),
)
