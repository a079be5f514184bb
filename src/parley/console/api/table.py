"""All routes of the console's API. A module that serves some names them `ROUTES`, and is listed here."""

from __future__ import annotations

from collections.abc import Sequence

from parley.console.api import agents, checks, cluster, fetch, session, stream, tasks
from parley.console.api.route import ConsoleMount, ConsoleRoute

ROUTES: Sequence[ConsoleRoute] = (
    *session.ROUTES,
    *stream.ROUTES,
    *cluster.ROUTES,
    *agents.ROUTES,
    *checks.ROUTES,
    *fetch.ROUTES,
    *tasks.ROUTES,
)

MOUNTS: Sequence[ConsoleMount] = agents.MOUNTS
"""What is below `/console` beside the page and the API, such as `/console/remote/`."""
