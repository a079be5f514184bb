"""Whether the host is well, and its metrics, for machines in the operator's network."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from parley.host.api.metrics import CONTENT_TYPE
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth
from parley.host.errors import PathNotFound
from parley.server.health import Reason

_NO_STORE = ((b"cache-control", b"no-store"),)


class HealthReply(Struct, frozen=True):
    """Whether the host can take requests, and why not."""

    ok: bool
    reasons: Sequence[Reason] | UnsetType = UNSET


async def show_health(call: ApiCall[None]) -> Answer:
    """Whether the host can take requests."""
    reasons = await call.host.app.health.reasons()
    if reasons:
        return Answer(HealthReply(False, reasons), 503, headers=_NO_STORE)
    return Answer(HealthReply(True), headers=_NO_STORE)


async def show_metrics(call: ApiCall[None]) -> Answer:
    """The metrics as text."""
    if not call.host.settings.has_metrics:
        raise PathNotFound
    return Answer(call.metrics.render(), content_type=CONTENT_TYPE, headers=_NO_STORE)


async def show_server_metrics(call: ApiCall[None]) -> Answer:
    """What every server of Parley counts: calls, runs, deliveries. They are of all tenants, so the operator's."""
    metrics = call.host.app.metrics
    if metrics is None:
        raise PathNotFound
    content_type, text = metrics.render(call.request.headers.get("accept", ""))
    return Answer(text, content_type=content_type, headers=_NO_STORE)


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/health",
        handler=show_health,
        auth=Auth.NONE,
        summary="Whether the host can take requests",
        replies=[ApiReply(HealthReply), ApiReply(HealthReply, 503, "The host cannot take requests now.")],
    ),
    ApiRoute(
        method="GET",
        path="/v1/metrics",
        handler=show_metrics,
        auth=Auth.NONE,
        summary="Metrics for Prometheus",
        replies=[ApiReply(None, description="The metrics.", content_type="text/plain")],
    ),
    ApiRoute(
        method="GET",
        path="/metrics",
        handler=show_server_metrics,
        auth=Auth.ADMIN,
        summary="Metrics of the server, for Prometheus with the admin token",
        replies=[ApiReply(None, description="The metrics.", content_type="text/plain")],
    ),
)
