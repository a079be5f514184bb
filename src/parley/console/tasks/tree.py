"""The tree of a task: what it did, and the tasks that it delegated to other agents of this server, as deep as they go.

It is bounded in nodes, in depth and in events that are read; `detail` of the root says if something is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct, structs

from parley.console.streams.channel import ChannelCall
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.moments import show_moment
from parley.console.tasks.tree_nodes import Node, NodeKind, TaskNodes
from parley.engine.reading.large import run_beside_loop
from parley.protocol.lifecycle import ends_stream
from parley.stores.interface import StoredEvent, TaskHead, TaskKey

MOST_NODES = 2_000
MOST_DEPTH = 16
MOST_EVENTS = 50_000
"""Events that are read for one tree, of all its tasks. About a second of work."""

PAGE_EVENTS = 2_000
PAGE_CHARACTERS = 4_000_000

FRAME_SECONDS = 0.25
"""A page gets a tree at most this often."""

LOOK_SECONDS = 1.0


class TreeNode(Struct, frozen=True, kw_only=True):
    """A node, as the page gets it."""

    id: str
    parent: str | None
    kind: NodeKind
    name: str
    task: str | None
    agent: str | None
    state: str
    started_at: str | None
    ended_at: str | None
    detail: str
    error: str
    input_tokens: int
    output_tokens: int
    cost: str | None
    currency: str
    seq: int | None
    approval: str | None


class Tree(Struct, frozen=True):
    """A whole tree, its nodes in the order in which they began."""

    root: str
    now: str
    is_live: bool
    nodes: list[TreeNode]


class _Log(Struct):
    """What was read of one task's log."""

    head: TaskHead
    nodes: TaskNodes
    events: int


class TreeReader:
    """Reads the tree of a task, and reads on from there when it has changed."""

    def __init__(self, access: TaskAccess, root: TaskHead) -> None:
        self._access = access
        self._root = root.key
        self._logs: dict[TaskKey, _Log] = {}
        self._events = 0
        self._is_cut = False
        self._costs: dict[tuple[str, int], tuple[str, str]] = {}

    def runs(self) -> list[tuple[int, int] | None]:
        """Something that differs when a run of this process has gone on with one of the tasks."""
        found = [self._access.engine.runs.find(key) for key in (self._logs or [self._root])]
        return [None if run is None else (run.seq, len(run.steps.in_progress)) for run in found]

    async def read(self) -> Tree | None:
        """The tree as it is now; None if the task was deleted."""
        self._is_cut = False
        head = await self._access.store.tasks.head(self._root)
        if head is None:
            return None
        nodes: list[Node] = []
        await self._read(head, None, 0, nodes, set())
        root = nodes[0]
        if self._is_cut:
            nodes[0] = structs.replace(root, detail=f"{root.detail} (not all of the tree is shown)".strip())
        await self._add_costs(nodes)
        is_live = not ends_stream(head.state) or any(log.head.holder for log in self._logs.values())
        nodes = _in_order(nodes)
        now = self._access.engine.clock.now()
        return Tree(root.id, show_moment(now), is_live, [_shown(node) for node in nodes])

    async def _read(
        self, head: TaskHead, parent: str | None, depth: int, nodes: list[Node], seen: set[TaskKey]
    ) -> tuple[int, int]:
        """Add the nodes of a task and of all that it delegated; how many tokens all of it took."""
        seen.add(head.key)
        log = await self._log(head, parent)
        log.nodes.root.state = head.state.value
        room = MOST_NODES - len(nodes)
        own = log.nodes.nodes[:room]
        self._is_cut |= len(log.nodes.nodes) > room or log.events < head.last_seq
        start = len(nodes)
        nodes += [structs.replace(node) for node in own]
        tokens = (sum([node.input_tokens for node in own[1:]]), sum([node.output_tokens for node in own[1:]]))
        for node in nodes[start + 1 : start + len(own)]:
            if node.delegated is not None:
                more = await self._read_delegated(node, head, depth, nodes, seen)
                tokens = (tokens[0] + more[0], tokens[1] + more[1])
        nodes[start].input_tokens, nodes[start].output_tokens = tokens
        return tokens

    async def _read_delegated(
        self, node: Node, head: TaskHead, depth: int, nodes: list[Node], seen: set[TaskKey]
    ) -> tuple[int, int]:
        agent, task_id = node.delegated or ("", "")
        key = TaskKey(head.key.owner, task_id)
        child = None
        if task_id and "://" not in agent and key not in seen and "\0" not in task_id:
            child = await self._access.store.tasks.head(key)
        if child is None:
            # An agent elsewhere has ids of its own, which may be the same as ours.
            node.kind = "remote" if "://" in agent or (task_id and key not in seen) else "delegate"
            node.agent = agent
            return 0, 0
        node.agent = self._access.agent_id(child)
        if depth + 1 >= MOST_DEPTH or len(nodes) >= MOST_NODES:
            self._is_cut = True
            return 0, 0
        return await self._read(child, node.id, depth + 1, nodes, seen)

    async def _log(self, head: TaskHead, parent: str | None) -> _Log:
        """The nodes of a task's own log, which is read on from where it was read to before."""
        log = self._logs.get(head.key)
        if log is None:
            agent = self._access.agent_of(head)
            agent_id = self._access.agent_id(head)
            name = agent_id if agent is None else agent.name
            log = self._logs[head.key] = _Log(head, TaskNodes(head, parent=parent, agent=agent_id, name=name), 0)
        log.head = head
        tasks = self._access.store.tasks
        while log.events < head.last_seq and self._events < MOST_EVENTS:
            limit = min(PAGE_EVENTS, head.last_seq - log.events, MOST_EVENTS - self._events)
            page = await tasks.timed_events(head.key, after=log.events, limit=limit, size=PAGE_CHARACTERS)
            if not page:
                break
            await run_beside_loop(_read_all, log.nodes, page)
            log.events = page[-1].seq
            self._events += len(page)
            del page
        run = self._access.engine.runs.find(head.key)
        if run is not None:
            log.nodes.add_in_progress([(step.name, step.number, step.kind) for step in run.steps.in_progress])
        return log

    async def _add_costs(self, nodes: list[Node]) -> None:
        """The costs of model calls, where the server knows prices."""
        for node in nodes:
            if node.kind == "model" and node.call_number and node.parent is not None:
                call = (node.parent, node.call_number - 1)
                found = self._costs.get(call)
                if found is None:
                    found = await self._access.backend.cost_of_call(self._root.owner.tenant, *call)
                if found is not None:
                    node.cost, node.currency = self._costs[call] = found


def _read_all(nodes: TaskNodes, page: Sequence[StoredEvent]) -> None:
    for stored in page:
        nodes.read(stored)


def _in_order(nodes: list[Node]) -> list[Node]:
    """Nodes in the order in which they began. None comes before its parent, whatever the clocks say."""
    begun: dict[str | None, float] = {}
    for node in nodes:  # parents come first
        earliest = begun.get(node.parent, 0.0)
        begun[node.id] = earliest if node.started_at is None else max(earliest, node.started_at.timestamp())
    return sorted(nodes, key=lambda node: begun[node.id])


def _shown(node: Node) -> TreeNode:
    return TreeNode(
        id=node.id,
        parent=node.parent,
        kind=node.kind,
        name=node.name,
        task=node.task,
        agent=node.agent,
        state=node.state,
        started_at=show_moment(node.started_at),
        ended_at=show_moment(node.ended_at),
        detail=node.detail,
        error=node.error,
        input_tokens=node.input_tokens,
        output_tokens=node.output_tokens,
        cost=node.cost,
        currency=node.currency,
        seq=node.seq,
        approval=node.approval,
    )


async def build_tree(access: TaskAccess, head: TaskHead) -> Tree | None:
    """The tree of a task as it is now."""
    return await TreeReader(access, head).read()


# --- the channel ------------------------------------------------------------------------------------------------------


class TreeParameters(Struct, frozen=True):
    """Which tree."""

    task: str
    agent: str = ""
    tenant: str | None = None


async def open_tree(call: ChannelCall) -> AsyncGenerator[object]:
    """A tree, again when it has changed, until the channel is closed or the task deleted."""
    wanted = call.read(TreeParameters)
    access = TaskAccess(call.backend, call.caller)
    head = await access.find(wanted.task, agent=wanted.agent, tenant=wanted.tenant)
    reader, shown = TreeReader(access, head), list[TreeNode]()
    loop, runs, looked = asyncio.get_running_loop(), None, 0.0
    while True:
        begun, before = loop.time(), runs
        runs = reader.runs()
        if runs != before or begun - looked >= LOOK_SECONDS:
            looked = begun
            tree = await reader.read()
            if tree is None:
                return
            if tree.nodes != shown:
                shown = tree.nodes
                yield tree
            del tree
        await asyncio.sleep(FRAME_SECONDS)
