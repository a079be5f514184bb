"""Recognizes what an orchestrator reports besides its answer: the answers of other agents, and its tool calls.

Parley's host and arbiter 0.12 send each as a data artifact of its own, marked in the metadata. This module does not
print.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from parley.protocol.messages import DataPart
from parley.protocol.tasks import Artifact

SUB_AGENT_RESPONSE = "x-arbiter.sub_agent_response"
TOOL_CALL = "x-arbiter.tool_call"


def step_of(artifact: Artifact) -> str | None:
    """The step that an artifact reports, such as `units: 5 miles is 8.04672 km.`; None if it is part of the answer."""
    match artifact.parts:
        case (DataPart(data=dict() as value) as part,):
            marks: Mapping[str, Any] = {**artifact.metadata, **part.metadata}
            facts = cast(Mapping[str, Any], value)
        case _:
            return None
    if marks.get(SUB_AGENT_RESPONSE) is True:
        return f"{facts.get('agent', '?')}: {facts.get('content', '')}"
    if marks.get(TOOL_CALL) is True:
        return f"{facts.get('tool', '?')}{'' if facts.get('ok') is True else ' (failed)'}"
    return None
