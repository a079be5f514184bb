"""Which route of the table answers a request: by its path first, then by its method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from parley.host.api.route import ApiRoute
from parley.host.errors import MethodNotAllowed, PathNotFound

AnyRoute: TypeAlias = ApiRoute[Any]


class RouteTable:
    """The routes, by how many segments their paths have."""

    def __init__(self, routes: Iterable[AnyRoute]) -> None:
        self._by_length: dict[int, list[AnyRoute]] = {}
        for route in routes:
            self._by_length.setdefault(route.path.count("/") + 1, []).append(route)

    def find(self, method: str, path: str) -> tuple[AnyRoute, dict[str, str]]:
        """The route of a request, and the parameters in its path. HEAD finds GET, except for streams.

        Raises:
            PathNotFound: there is no such path.
            MethodNotAllowed: the path has other methods.
        """
        segments = path.split("/")
        found = [
            (route, parameters)
            for route in self._by_length.get(len(segments), ())
            if (parameters := route.match(segments)) is not None
        ]
        for route, parameters in found:
            if method in methods_of(route):
                return route, parameters
        if not found:
            raise PathNotFound
        raise MethodNotAllowed(*(name for route, _ in found for name in methods_of(route)))


def methods_of(route: AnyRoute) -> Sequence[str]:
    """The methods that a route answers."""
    return ("GET", "HEAD") if route.method == "GET" and not route.streams else (route.method,)
