"""Ids of artifacts that stay the same when an executor begins again and makes new random ones."""

from __future__ import annotations

import re
from itertools import count

from parley.protocol.tasks import Artifact

_UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class StableIds:
    """The artifacts of one task, told apart by their order. Ids made from one of `lasting` are not random."""

    def __init__(self, *lasting: str) -> None:
        self._lasting = lasting
        self._of_given: dict[str, str] = {}
        """Our ids, by those of the executor."""
        self._used: set[str] = set()

    def of(self, artifact: Artifact) -> str:
        """The id of an artifact: its own, or instead of a random one its name. A number is added to an id in use."""
        given = artifact.artifact_id
        if given not in self._of_given:
            self.remember(given, self._unused(artifact.name or "artifact" if self._is_random(given) else given))
        return self._of_given[given]

    def remember(self, given: str, stable: str) -> None:
        """Use an id of ours for one of the executor's."""
        self._of_given[given] = stable
        self._used.add(stable)

    def show_used(self) -> None:
        """From now on the executor knows our ids, too, because it is given a task with them."""
        for stable in self._used:
            self._of_given.setdefault(stable, stable)

    def _is_random(self, given: str) -> bool:
        return _UUID.search(given) is not None and not any(id in given for id in self._lasting)

    def _unused(self, name: str) -> str:
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(id for id in numbered if id not in self._used)
