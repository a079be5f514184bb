// The tree of a task while it grows: sums, zoom, the grid, and the chosen node in full.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { ApiError } from "../api/http.ts";
import { openChannel } from "../api/stream.ts";
import type { Tree, TreeNode } from "../api/types.ts";
import { links, navigate } from "../router.ts";
import { countText, durationText, plural, safeText, shortLine } from "../text/safe.ts";
import { Button, ButtonLink, EmptyState, Facts, Name, Problem, Progress, Tag, Time } from "../ui/index.ts";
import type { TreeAction } from "./keyboard.ts";
import { approvalOf, isWaiting, TreeModel, type TreeRow } from "./model.ts";
import { costText, TreeGrid, tokensText } from "./tree_grid.tsx";

const TICK_MS = 500;
const MAX_DETAIL = 4_000;

export function TreeView({ agent, id }: { agent: string; id: string }) {
  const { tree, receivedAt, error, retry } = useTree(agent, id);
  if (error !== null && tree === null) return <Problem error={error} retry={retry} title="The tree cannot be shown" />;
  if (tree === null) return <Progress text="Loading the tree…" />;
  if (tree.nodes.length === 0) return <EmptyState title="Nothing ran" icon="tasks">The task has caused no steps, model calls or other tasks.</EmptyState>;
  return <LiveTree tree={tree} receivedAt={receivedAt} agent={agent} id={id} />;
}

function useTree(agent: string, id: string) {
  const [state, setState] = useState<{ tree: Tree | null; receivedAt: number; error: ApiError | null }>({ tree: null, receivedAt: 0, error: null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const channel = openChannel(
      { kind: "tree", task: id, agent },
      {
        onData: (tree) => setState({ tree, receivedAt: Date.now(), error: null }),
        onError: (error) => setState((before) => ({ ...before, error })),
      },
    );
    return () => channel.close();
  }, [agent, id, round]);
  return { ...state, retry: () => setRound(round + 1) };
}

/** The present by the server's clock, which moves while something runs. */
function usePresent(tree: Tree, receivedAt: number): number {
  const [passed, setPassed] = useState(0);
  useEffect(() => {
    setPassed(0);
    if (!tree.is_live) return;
    const timer = setInterval(() => setPassed(Date.now() - receivedAt), TICK_MS);
    return () => clearInterval(timer);
  }, [tree, receivedAt]);
  return Date.parse(tree.now) + passed;
}

/** A tree as it is now. */
export function LiveTree({ tree, receivedAt, agent, id }: { tree: Tree; receivedAt: number; agent: string; id: string }) {
  const model = useMemo(() => new TreeModel(tree), [tree]);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const [zoom, setZoom] = useState<string | null>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const now = usePresent(tree, receivedAt);
  const zoomed = zoom !== null && model.has(zoom) ? zoom : null;
  const rows = useMemo(() => model.rows(collapsed, zoomed), [model, collapsed, zoomed]);
  const extent = useMemo(() => model.extent(zoomed), [model, zoomed]);
  const isRunning = rows.some((row) => row.isRunning);
  const window = { start: extent.start, end: isRunning ? Math.max(extent.end, now) : extent.end };

  const act = (action: TreeAction) => {
    if (action.do === "zoom-out") return setZoom(zoomed === null ? null : (model.ancestors(zoomed).at(-1) ?? null));
    const row = rows[action.index];
    if (!row) return;
    setFocused(row.node.id);
    if (action.do === "expand" || action.do === "collapse") setCollapsed(toggled(collapsed, [row.node.id], action.do === "collapse"));
    else if (action.do === "expand-siblings") setCollapsed(toggled(collapsed, siblingsOf(rows, action.index), false));
    else if (action.do === "zoom" && row.hasChildren) setZoom(row.node.id);
    else if (action.do === "open") {
      const link = linkOf(model, row.node, { agent, id });
      if (link !== null) navigate(link);
    }
  };
  const chosen = focused === null ? null : (rows.find((row) => row.node.id === focused) ?? null);
  const allParents = () => model.rows(new Set(), zoomed).filter((row) => row.hasChildren && row.level > 1).map((row) => row.node.id);
  return (
    <div class="tree-view">
      <div class="tree-bar-top">
        <TreeSums model={model} />
        <div class="row">
          <Button small onClick={() => setCollapsed(new Set())}>Expand all</Button>
          <Button small onClick={() => setCollapsed(new Set(allParents()))}>Collapse all</Button>
        </div>
      </div>
      {zoomed !== null && <ZoomPath model={model} zoomed={zoomed} onZoom={setZoom} />}
      <TreeGrid rows={rows} window={window} now={now} focused={focused} onAction={act} />
      {chosen !== null
        ? <NodeDetail row={chosen} now={now} link={linkOf(model, chosen.node, { agent, id })} isZoomed={zoomed === chosen.node.id} onZoom={() => setZoom(chosen.node.id)} />
        : <p class="dim small tree-hint">Arrow keys move and open, Enter leads to the task or event, z zooms, Escape zooms out.</p>}
    </div>
  );
}

function toggled(collapsed: ReadonlySet<string>, ids: readonly string[], isCollapsed: boolean): ReadonlySet<string> {
  const next = new Set(collapsed);
  for (const id of ids) {
    if (isCollapsed) next.add(id);
    else next.delete(id);
  }
  return next;
}

function siblingsOf(rows: readonly TreeRow[], index: number): string[] {
  const { level, node } = rows[index]!;
  return rows.filter((row) => row.level === level && row.node.parent === node.parent).map((row) => row.node.id);
}

/** Where a node leads: its own task, or its event in the task that it belongs to. */
function linkOf(model: TreeModel, node: TreeNode, root: { agent: string; id: string }): string | null {
  if (node.task && node.agent) {
    const isHere = node.task === root.id && node.agent === root.agent;
    return isHere ? links.task(root.agent, root.id, { view: "timeline" }) : links.task(node.agent, node.task);
  }
  const owner = model.ancestors(node.id).map((each) => model.node(each)!).findLast((each) => each.task && each.agent);
  const seq = node.seq === null ? {} : { at: node.seq };
  if (owner) return links.task(owner.agent!, owner.task!, { view: "timeline", ...seq });
  return links.task(root.agent, root.id, { view: "timeline", ...seq });
}

function TreeSums({ model }: { model: TreeModel }) {
  const { sums } = model;
  const waiting = sums.waiting > 0 ? plural(sums.waiting, "decision") : "";
  return (
    <p class="tree-sums">
      <span>{plural(sums.nodes, "node")}</span>
      {tokensText(sums) && <span title="Tokens in + tokens out">{tokensText(sums)} tokens</span>}
      {costText(sums) && <span>{costText(sums)}</span>}
      {sums.errors > 0 && <span class="tree-state-bad">{plural(sums.errors, "error")}</span>}
      {waiting && <a href={links.approvals()}>waits for {waiting}</a>}
    </p>
  );
}

function ZoomPath({ model, zoomed, onZoom }: { model: TreeModel; zoomed: string; onZoom: (id: string | null) => void }) {
  const path = [...model.ancestors(zoomed), zoomed];
  return (
    <nav class="tree-path" aria-label="Zoom">
      <button type="button" class="link" onClick={() => onZoom(null)}>Everything</button>
      {path.slice(-4).map((id) => (
        <span key={id}>
          <span aria-hidden="true"> / </span>
          {id === zoomed
            ? <strong aria-current="true">{shortLine(model.node(id)!.name, 40)}</strong>
            : <button type="button" class="link" onClick={() => onZoom(id)}>{shortLine(model.node(id)!.name, 40)}</button>}
        </span>
      ))}
    </nav>
  );
}

interface NodeDetailProps {
  row: TreeRow;
  now: number;
  link: string | null;
  isZoomed: boolean;
  onZoom: () => void;
}

function NodeDetail({ row, now, link, isZoomed, onZoom }: NodeDetailProps) {
  const { node, sums } = row;
  const approval = approvalOf(node);
  const isOpen = row.isRunning || isWaiting(node);
  const end = isOpen ? Math.max(row.end, now) : row.end;
  return (
    <section class="tree-detail" aria-label="Chosen node">
      <header class="task-part-head">
        <h2><Name text={node.name} length={120} none={node.kind} canExpand /></h2>
        <Tag>{node.kind}</Tag>
      </header>
      <Facts
        facts={[
          ["State", node.state],
          ["Error", node.error ? <span class="tree-state-bad wrap">{safeText(node.error.slice(0, MAX_DETAIL))}</span> : null],
          ["Began", <Time at={node.started_at} as="full" />],
          ["Took", node.started_at === null ? null : `${durationText(end - row.start)}${isOpen ? " so far" : ""}`],
          ["Tokens", sums.nodes > 1 ? tokensText(sums) && `${tokensText(sums)} with all below` : tokensText(sums)],
          ["Cost", costText(sums)],
          ["Below", sums.nodes > 1 ? countText(sums.nodes - 1) : null],
        ]}
      />
      {node.detail && <pre class="tree-detail-text" tabIndex={0} aria-label="Detail">{safeText(node.detail.slice(0, MAX_DETAIL))}</pre>}
      <div class="row">
        {link !== null && <ButtonLink small href={link}>{node.task ? "Open the task" : "Show the event"}</ButtonLink>}
        {approval !== null && node.ended_at === null && <ButtonLink small kind="primary" href={`${links.approvals()}?id=${encodeURIComponent(approval)}`}>Decide</ButtonLink>}
        {row.hasChildren && !isZoomed && <Button small onClick={onZoom}>Zoom to this</Button>}
      </div>
    </section>
  );
}
