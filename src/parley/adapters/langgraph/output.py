"""What the final values of a graph add to the text of its models.

A graph with `messages` adds its structured response. Another one adds its output as data, or as text if that is all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.pregel import Pregel
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import Output, Piece
from parley.adapters.langgraph.run import STRUCTURED, GraphRun
from parley.protocol.messages import DataPart


def results_of(graph: Pregel[Any, Any, Any, Any], run: GraphRun) -> Iterator[Piece]:
    """The results of a run that has ended."""
    values: Any = run.values
    if "messages" in graph.output_channels:
        found = values.get(STRUCTURED) if isinstance(values, dict) else getattr(values, STRUCTURED, None)
        if run.is_structured and found is not None:
            yield _data(found)
    elif isinstance(text := _only_value(values), str):
        if text and not run.has_text:
            yield text
    elif values is not None and not _are_messages(values):
        yield _data(values)


def _data(value: Any) -> Output:
    return Output((DataPart(to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True)),))


def _only_value(values: Any) -> Any:
    return next(iter(values.values())) if isinstance(values, dict) and len(values) == 1 else values


def _are_messages(values: Any) -> bool:
    return all(isinstance(value, BaseMessage) for value in (values if isinstance(values, list) else [values]))
