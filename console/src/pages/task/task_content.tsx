// A task as A2A shows it: its status, what it produced, and what was said.

import type { Artifact, Message, Task } from "../../a2a/types.ts";
import { isTerminal } from "../../a2a/types.ts";
import { DataView } from "../../content/data_view.tsx";
import { Parts } from "../../content/parts.tsx";
import { partsForPeople } from "../../content/questions.ts";
import { countText, plural } from "../../text/safe.ts";
import { CopyButton, Name, Section, StateBadge, Time } from "../../ui/index.ts";

const MAX_MESSAGES = 100;
const MAX_ARTIFACTS = 50;

export function TaskContent({ task, agent }: { task: Task; agent: string }) {
  const isOpen = !isTerminal(task.status.state);
  const artifacts = task.artifacts ?? [];
  return (
    <div class="task-content">
      <Section title="Status">
        <div class="row"><StateBadge state={task.status.state} /><span class="dim"><Time at={task.status.timestamp} as="full" /></span></div>
        {task.status.message && <MessageView message={task.status.message} agent={agent} />}
      </Section>
      <Section title={artifacts.length === 0 ? "Artifacts" : plural(artifacts.length, "artifact")}>
        {artifacts.length === 0 && <p class="dim">{isOpen ? "Nothing was produced yet." : "Nothing was produced."}</p>}
        {artifacts.slice(0, MAX_ARTIFACTS).map((artifact) => (
          <ArtifactView key={artifact.artifactId} artifact={artifact} agent={agent} isOpen={isOpen} />
        ))}
        {artifacts.length > MAX_ARTIFACTS && <p class="dim">{countText(artifacts.length - MAX_ARTIFACTS)} more artifacts are not shown.</p>}
      </Section>
      <Messages messages={task.history ?? []} agent={agent} />
      {task.metadata && Object.keys(task.metadata).length > 0 && (
        <Section title="Metadata"><DataView value={task.metadata} label="Metadata of the task" /></Section>
      )}
    </div>
  );
}

function ArtifactView({ artifact, agent, isOpen }: { artifact: Artifact; agent: string; isOpen: boolean }) {
  const parts = artifact.parts ?? [];
  return (
    <article class="task-artifact">
      <header class="task-part-head">
        <h3><Name text={artifact.name} none="Artifact" /></h3>
        {parts.some((part) => part.text) && <CopyButton iconOnly label="Copy the text" text={() => parts.map((part) => part.text ?? "").join("")} />}
      </header>
      {artifact.description && <p class="dim"><Name text={artifact.description} length={200} canExpand /></p>}
      <Parts parts={parts} agent={agent} isOpen={isOpen} />
    </article>
  );
}

function Messages({ messages, agent }: { messages: readonly Message[]; agent: string }) {
  const hidden = Math.max(0, messages.length - MAX_MESSAGES);
  return (
    <Section title={messages.length === 0 ? "Messages" : plural(messages.length, "message")}>
      {messages.length === 0 && <p class="dim">No message is in the history.</p>}
      {hidden > 0 && <p class="dim">The first {countText(hidden)} are not shown; the timeline has them.</p>}
      {messages.slice(hidden).map((message, index) => (
        <MessageView key={`${hidden + index}${message.messageId}`} message={message} agent={agent} />
      ))}
    </Section>
  );
}

function MessageView({ message, agent }: { message: Message; agent: string }) {
  const isUser = message.role === "ROLE_USER";
  return (
    <article class={isUser ? "task-message task-message-user" : "task-message"}>
      <h3 class="task-part-head">{isUser ? "User" : "Agent"}</h3>
      <Parts parts={isUser ? message.parts ?? [] : partsForPeople(message)} agent={agent} isPlain={isUser} />
    </article>
  );
}
