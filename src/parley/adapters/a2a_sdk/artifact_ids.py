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
        self._ids: dict[str, str] = {}

    def of(self, artifact: Artifact) -> str:
        """The id of an artifact: its own, or instead of a random one its name, with a number if that is in use."""
        given = artifact.artifact_id
        if given not in self._ids:
            stable = self._unused(artifact.name or "artifact") if self._is_random(given) else given
            self._ids |= {given: stable, stable: stable}
        return self._ids[given]

    def _is_random(self, given: str) -> bool:
        return _UUID.search(given) is not None and not any(id in given for id in self._lasting)

    def _unused(self, name: str) -> str:
        numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
        return next(id for id in numbered if id not in self._ids)
