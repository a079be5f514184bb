"""All kinds of channels, by the `kind` that pages name. A module that serves some is listed here."""

from __future__ import annotations

from collections.abc import Mapping

from parley.console.checks.channel import open_check
from parley.console.streams.a2a_channel import open_a2a
from parley.console.streams.approvals_channel import open_approvals
from parley.console.streams.channel import ChannelOpener
from parley.console.tasks.live_listing import open_task_list
from parley.console.tasks.log import open_task_log
from parley.console.tasks.tree import open_tree
from parley.console.wire.channel import open_wire

CHANNELS: Mapping[str, ChannelOpener] = {
    "a2a": open_a2a,
    "approvals": open_approvals,
    "check": open_check,
    "task_list": open_task_list,
    "task_log": open_task_log,
    "tree": open_tree,
    "wire": open_wire,
}
