"""Which route of the console's API answers a request: by its path first, then by its method."""

from __future__ import annotations

from collections.abc import Iterable

from parley.console.api.errors import ConsoleError
from parley.console.api.route import ConsoleRoute
from parley.server.path_template import match_path


class ConsoleRouteTable:
    """The routes, by how many segments their paths have."""

    def __init__(self, routes: Iterable[ConsoleRoute]) -> None:
        self._by_length: dict[int, list[ConsoleRoute]] = {}
        for route in routes:
            self._by_length.setdefault(route.path.count("/") + 1, []).append(route)

    def find(self, method: str, path: str) -> tuple[ConsoleRoute, dict[str, str]]:
        """The route of a request, and the parameters in its path. HEAD finds GET, except for streams.

        Raises:
            ConsoleError: there is no such path, or it has other methods.
        """
        segments = path.split("/")
        found = [
            (route, parameters)
            for route in self._by_length.get(len(segments), ())
            if (parameters := match_path(route.path, segments)) is not None
        ]
        for route, parameters in found:
            if method == route.method or (method == "HEAD" and route.method == "GET" and not route.streams):
                return route, parameters
        if not found:
            raise ConsoleError("not_found", "The console's API has no such path")
        methods = ", ".join(dict.fromkeys(route.method for route, _ in found))
        allow = ((b"allow", methods.encode()),)
        raise ConsoleError("not_found", f"This path has other methods: {methods}", headers=allow)
