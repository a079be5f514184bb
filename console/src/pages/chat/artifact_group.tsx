// The artifacts of a reply: one as it is, several side by side or in tabs, as the reader likes.

import { useState } from "preact/hooks";
import { isPlainText, Parts } from "../../content/parts.tsx";
import { fileName, saveAs } from "../../content/file_bytes.ts";
import { bytesText, countText, shortLine } from "../../text/safe.ts";
import { Button, CopyButton, IconButton, Name, Tabs } from "../../ui/index.ts";
import type { ArtifactRecord } from "./exchange.ts";

/** The artifact in which Parley's agents put their answers; its name says nothing. */
const DEFAULT_NAME = "response";
/** Artifacts that are shown side by side; of more, tabs. */
const MAX_COLUMNS = 3;
/** Tabs; of more artifacts, a list of names. */
const MAX_TABS = 50;

interface GroupProps {
  artifacts: readonly ArtifactRecord[];
  agent: string;
  isRunning: boolean;
}

export function ArtifactGroup({ artifacts, agent, isRunning }: GroupProps) {
  const [chosen, choose] = useState<"columns" | "tabs" | null>(null);
  const [tab, setTab] = useState("0");
  if (artifacts.length === 1) return <ArtifactView artifact={artifacts[0]!} agent={agent} isRunning={isRunning} />;
  const view = chosen ?? (artifacts.length <= MAX_COLUMNS ? "columns" : "tabs");
  const shown = artifacts.slice(0, MAX_TABS);
  return (
    <section class="artifacts" aria-label={`${countText(artifacts.length)} artifacts`}>
      <header class="data-bar">
        <span class="dim">{countText(artifacts.length)} artifacts</span>
        <div role="group" aria-label="Arrangement" class="switch">
          <button type="button" aria-pressed={view === "columns"} onClick={() => choose("columns")}>Side by side</button>
          <button type="button" aria-pressed={view === "tabs"} onClick={() => choose("tabs")}>Tabs</button>
        </div>
      </header>
      {view === "columns" ? (
        <div class="artifact-columns">
          {shown.map((artifact) => <ArtifactView key={artifact.id} artifact={artifact} agent={agent} isRunning={isRunning} isNamed />)}
        </div>
      ) : (
        <Tabs label="Artifacts" selected={tab} onSelect={setTab} tabs={shown.map((artifact, index) => ({ id: String(index), title: titleOf(artifact, index) }))}>
          <ArtifactView artifact={shown[Number(tab)] ?? shown[0]!} agent={agent} isRunning={isRunning} />
        </Tabs>
      )}
      {artifacts.length > MAX_TABS && <p class="note">{countText(artifacts.length - MAX_TABS)} more artifacts are on the page of the task.</p>}
    </section>
  );
}

function titleOf(artifact: ArtifactRecord, index: number): string {
  return shortLine(artifact.name, 30) || `Artifact ${index + 1}`;
}

interface ArtifactProps {
  artifact: ArtifactRecord;
  agent: string;
  isRunning: boolean;
  isNamed?: boolean;
}

function ArtifactView({ artifact, agent, isRunning, isNamed = false }: ArtifactProps) {
  const { parts, dropped } = artifact;
  const isOnlyFile = parts.length === 1 && parts[0]!.text === undefined && parts[0]!.filename === artifact.name;
  const hasTitle = isNamed || (artifact.name !== "" && artifact.name !== DEFAULT_NAME && !isOnlyFile);
  const isText = parts.length > 0 && parts.every(isPlainText);
  return (
    <div class="artifact">
      {(hasTitle || artifact.revision > 0) && (
        <header class="artifact-head">
          <h2><Name text={artifact.name} none="Artifact" length={60} canExpand /></h2>
          {artifact.revision > 0 && <span class="tag">replaced</span>}
          <span class="grow" />
          {isText && <CopyButton iconOnly label="Copy this artifact" text={() => artifact.text} />}
          {isText && <IconButton icon="download" label="Save this artifact" small onClick={() => saveAs([artifact.text], fileName(artifact.name, "text/markdown"))} />}
        </header>
      )}
      {artifact.description && <p class="dim"><Name text={artifact.description} length={200} canExpand /></p>}
      <Parts key={artifact.revision} parts={parts} agent={agent} isOpen={isRunning && artifact.isOpen} />
      {dropped > 0 && (
        <p class="note">
          The agent sent {bytesText(dropped)} more than this page keeps. The task has all of it.{" "}
          <Button kind="quiet" small icon="download" onClick={() => saveAs([artifact.text], fileName(artifact.name, "text/markdown"))}>Save what is here</Button>
        </p>
      )}
    </div>
  );
}
