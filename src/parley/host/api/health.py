"""Whether the host is well, and its metrics. Both are for machines in the operator's network and need no token."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from parley.host.api.metrics import CONTENT_TYPE
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth
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
    return Answer(call.metrics.render(), content_type=CONTENT_TYPE, headers=_NO_STORE)


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
)
