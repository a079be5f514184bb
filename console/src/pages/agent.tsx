// One agent: its card as a page and as JSON, what is wrong with it, and logging in at it.
// Everything in a card is foreign: texts are made safe, long ones are cut, and only http links are links.

import { useState } from "preact/hooks";
import { readAgent, removeAgent } from "../api/agents.ts";
import { has, session } from "../api/session.ts";
import type { AgentDetails, AgentInterface, CardProblem, CardSignature } from "../api/types.ts";
import type { AgentCard, AgentExtension, AgentSkill } from "../a2a/types.ts";
import { useCommands } from "../commands.ts";
import { DataTree } from "../content/data_tree.tsx";
import { AgentLogin } from "../login/agent_login.tsx";
import { schemeTitle } from "../login/scheme_form.tsx";
import { links, navigate, query, setQuery, startChat } from "../router.ts";
import { plural, safeText, safeUrl, shortLine } from "../text/safe.ts";
import {
  Badge, Button, ButtonLink, confirm, CopyButton, Facts, Icon, LoadState, Name, Page, Problem, Section, StateBadge, Table, Tabs,
  Tag, toastError, useLoad,
} from "../ui/index.ts";
import type { PageProps } from "./registry.ts";

const MOST_SKILLS = 200;

export default function AgentPage({ params }: PageProps) {
  const id = params["id"]!;
  const loaded = useLoad((signal) => readAgent(id, signal), [id, session.value?.caller?.tenant]);
  const details = loaded.value;
  const agent = details?.agent;
  useCommands(
    () => (agent ? [{ title: `Check ${shortLine(agent.name, 40)}`, group: "This agent", href: links.check(id) }] : []),
    [agent?.name],
  );
  return (
    <Page
      title={agent?.name || id} trail={[["Agents", links.agents()]]}
      beside={agent && <><StateBadge state={agent.state} />{agent.version && <Tag>{shortLine(agent.version, 12)} {shortLine(agent.binding, 16)}</Tag>}</>}
      actions={agent && <Actions details={details} />}
    >
      <LoadState of={loaded} text="Reading the agent's card…" title="The agent could not be read." />
      {details && <Details key={id} details={details} reload={loaded.reload} />}
    </Page>
  );
}

function Actions({ details }: { details: AgentDetails }) {
  const { agent } = details;
  const remove = async () => {
    const isSure = await confirm({
      title: "Remove the agent?", text: "The console forgets the agent and its login. The agent itself is not touched, and can be added again.",
      action: "Remove", isDangerous: true,
    });
    if (isSure) await removeAgent(agent.id).then(() => navigate(links.agents()), toastError);
  };
  return (
    <>
      {agent.kind === "remote" && <Button kind="quiet" icon="trash" onClick={remove}>Remove</Button>}
      <ButtonLink icon="tasks" href={links.tasks({ agent: agent.id })}>Tasks</ButtonLink>
      {has("checks") && <ButtonLink icon="check" href={links.check(agent.id)}>Check</ButtonLink>}
      {has("chat") && <ButtonLink kind="primary" icon="chat" href={links.chat(agent.id)}>Chat</ButtonLink>}
    </>
  );
}

function Details({ details, reload }: { details: AgentDetails; reload: () => void }) {
  const view = query.value.get("view") === "json" ? "json" : "card";
  const needsLogin = details.login.is_required && !details.login.is_logged_in;
  return (
    <>
      {details.agent.error && <div class="page-gap"><Problem title="The agent does not answer." error={new Error(safeText(details.agent.error))} retry={reload} /></div>}
      {needsLogin && <div class="card page-gap"><Section title="Log in"><AgentLogin details={details} onChange={reload} /></Section></div>}
      <Tabs
        label="View of the card" selected={view} onSelect={(next) => setQuery({ view: next === "json" ? next : null })}
        tabs={[{ id: "card", title: "Card" }, { id: "json", title: "JSON" }]}
      >
        {view === "json" ? <CardJson details={details} /> : <CardPage details={details} reload={reload} />}
      </Tabs>
    </>
  );
}

function CardJson({ details }: { details: AgentDetails }) {
  const [isRaw, setRaw] = useState(true);
  const isOther = details.card_version !== "1.0" && details.card !== null;
  const value = isRaw || !details.card ? details.raw : (details.card as never);
  return (
    <div class="stack">
      <div class="row">
        {isOther && (
          <>
            <Button small pressed={isRaw} onClick={() => setRaw(true)}>As served ({shortLine(details.card_version, 12)})</Button>
            <Button small pressed={!isRaw} onClick={() => setRaw(false)}>In 1.0</Button>
          </>
        )}
        <CopyButton text={() => JSON.stringify(value, null, 2)} label="Copy JSON" />
      </div>
      {value ? <DataTree value={value} label="Card" /> : <p class="dim">The agent has served no card.</p>}
    </div>
  );
}

function CardPage({ details, reload }: { details: AgentDetails; reload: () => void }) {
  const { card, agent, problems, interfaces, signature, login, schemes } = details;
  const needsLogin = login.is_required && !login.is_logged_in;
  // Agents of this server are called as the session itself.
  const hasLogin = agent.kind !== "own" && schemes.length > 0 && !needsLogin;
  return (
    <div class="card-page">
      <div class="card-main">
        {card?.description && <p class="card-description wrap"><LongText text={card.description} /></p>}
        {problems.length > 0 && <Problems problems={problems} />}
        {card && <Skills agent={agent.id} skills={card.skills ?? []} />}
        <Interfaces interfaces={interfaces} />
        <Section title="Security">
          {card && <SecurityFacts card={card} schemes={schemes} />}
          {hasLogin && <AgentLogin details={details} onChange={reload} />}
        </Section>
        <Extensions extensions={card?.capabilities?.extensions ?? []} />
      </div>
      <aside class="card-side" aria-label="About the agent"><About details={details} card={card} signature={signature} /></aside>
    </div>
  );
}

/** A text of any length: the beginning, and the rest on demand. */
function LongText({ text, length = 600 }: { text: string; length?: number }) {
  const [isWhole, setWhole] = useState(false);
  if (text.length <= length) return <>{safeText(text)}</>;
  return (
    <>
      {safeText(isWhole ? text.slice(0, 100_000) : text.slice(0, length))}{!isWhole && "… "}
      <button type="button" class="link" onClick={() => setWhole(!isWhole)}>{isWhole ? "Less" : `More (${text.length.toLocaleString("en-US")} characters)`}</button>
    </>
  );
}

function Problems({ problems }: { problems: readonly CardProblem[] }) {
  return (
    <Section title={`The card has ${plural(problems.length, "problem")}`}>
      <ul class="plain stack">
        {problems.slice(0, 100).map((problem, index) => (
          <li key={index} class={problem.is_fatal ? "note note-bad" : "note note-waiting"}>
            <Icon name="warning" />
            <span class="wrap">{safeText(problem.message.slice(0, 1000))}{problem.is_fatal && <> <Badge tone="bad">cannot be used</Badge></>}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Skills({ agent, skills }: { agent: string; skills: readonly AgentSkill[] }) {
  const [isAll, setAll] = useState(false);
  const shown = isAll ? skills.slice(0, 5000) : skills.slice(0, MOST_SKILLS);
  return (
    <Section title={plural(skills.length, "skill")}>
      {!skills.length && <p class="dim">The card names no skills. Start a chat and ask the agent what it does.</p>}
      <ul class="plain skills">
        {shown.map((skill, index) => (
          <li class="card skill" key={index}>
            <h3><Name text={skill.name || skill.id} length={100} canExpand /></h3>
            {skill.description && <p class="dim wrap"><LongText text={skill.description} length={300} /></p>}
            <Tags tags={skill.tags ?? []} />
            <Examples agent={agent} skill={skill} />
          </li>
        ))}
      </ul>
      {skills.length > shown.length && <Button onClick={() => setAll(true)}>Show all {skills.length}</Button>}
    </Section>
  );
}

function Tags({ tags }: { tags: readonly string[] }) {
  if (!tags.length) return null;
  return <div class="row tags">{tags.slice(0, 20).map((tag, index) => <Tag key={index}>{shortLine(tag, 30)}</Tag>)}</div>;
}

function Examples({ agent, skill }: { agent: string; skill: AgentSkill }) {
  if (!skill.examples?.length || !has("chat")) return null;
  return (
    <ul class="plain prompts prompts-small">
      {skill.examples.slice(0, 8).map((text, index) => (
        <li key={index}>
          <button type="button" class="prompt" title="Send this to the agent" onClick={() => startChat({ agent, text, skill: skill.id })}>
            <span class="prompt-text"><bdi>{shortLine(text, 160)}</bdi></span><Icon name="send" />
          </button>
        </li>
      ))}
    </ul>
  );
}

function Interfaces({ interfaces }: { interfaces: readonly AgentInterface[] }) {
  if (!interfaces.length) return null;
  return (
    <Section title="Interfaces">
      <Table
        caption="Interfaces" rows={interfaces.slice(0, 100)} rowKey={(each) => `${each.url} ${each.binding} ${each.version}`}
        columns={[
          { title: "Binding", isHeading: true, render: (each) => <>{shortLine(each.binding, 20)} {each.is_used && <Badge tone="good">used</Badge>}</> },
          { title: "Version", render: (each) => shortLine(each.version, 12) },
          { title: "URL", render: (each) => <code class="wrap">{shortLine(each.url, 160)}</code> },
          { title: "Tenant", isMinor: true, render: (each) => each.tenant && shortLine(each.tenant, 40) },
        ]}
      />
    </Section>
  );
}

function SecurityFacts({ card, schemes }: Pick<AgentDetails, "schemes"> & { card: AgentCard }) {
  // Of a card without schemes, the server names those that one can try.
  const declared = schemes.filter((scheme) => Object.hasOwn(card.securitySchemes ?? {}, scheme.name));
  if (!declared.length) return <p class="dim">The card declares no security scheme: anyone who can reach the agent may call it.</p>;
  return (
    <ul class="plain stack">
      {declared.slice(0, 50).map((scheme) => (
        <li key={scheme.name} class="row">
          <Icon name="lock" /><strong>{shortLine(scheme.name, 60)}</strong><Tag>{schemeTitle(scheme)}</Tag>
          {scheme.description && <span class="dim">{shortLine(scheme.description, 160)}</span>}
        </li>
      ))}
    </ul>
  );
}

function Extensions({ extensions }: { extensions: readonly AgentExtension[] }) {
  if (!extensions.length) return null;
  return (
    <Section title="Extensions">
      <ul class="plain stack">
        {extensions.slice(0, 50).map((extension, index) => (
          <li key={index}>
            <code class="wrap">{shortLine(extension.uri, 200)}</code> {extension.required && <Badge tone="waiting">required</Badge>}
            {extension.description && <div class="dim">{shortLine(extension.description, 300)}</div>}
          </li>
        ))}
      </ul>
    </Section>
  );
}

const SIGNATURES: Record<CardSignature["state"], [tone: "good" | "bad" | "waiting" | "neutral", word: string]> = {
  valid: ["good", "Verified"], invalid: ["bad", "Invalid"], unsigned: ["neutral", "Not signed"], unknown_key: ["waiting", "Unknown key"],
};

function About({ details, card, signature }: { details: AgentDetails; card: AgentCard | null; signature: CardSignature }) {
  const { agent } = details;
  const [tone, word] = SIGNATURES[signature.state] ?? ["neutral", signature.state];
  const yes = (value: boolean | undefined) => (value ? "Yes" : "No");
  return (
    <Facts
      facts={[
        ["Id", <code class="wrap">{shortLine(agent.id, 80)}</code>],
        ["Address", <span><code class="wrap">{shortLine(agent.address, 160)}</code> <CopyButton text={agent.address} label="Copy the address" iconOnly /></span>],
        ["Agent's version", card && shortLine(card.version ?? "", 40)],
        ["Card's version", shortLine(details.card_version, 20)],
        ["Provider", card?.provider && <Link url={card.provider.url} text={card.provider.organization} />],
        ["Documentation", card?.documentationUrl && <Link url={card.documentationUrl} text={card.documentationUrl} />],
        ["Signature", <span><Badge tone={tone}>{word}</Badge>{signature.detail && <span class="dim small"> {shortLine(signature.detail, 200)}</span>}</span>],
        ["Streaming", card && yes(card.capabilities?.streaming)],
        ["Webhooks", card && yes(card.capabilities?.pushNotifications)],
        ["Extended card", card && yes(card.capabilities?.extendedAgentCard)],
        ["Takes", card && modes(card.defaultInputModes)],
        ["Gives", card && modes(card.defaultOutputModes)],
      ]}
    />
  );
}

function modes(all: readonly string[] | undefined): string {
  return (all ?? []).slice(0, 20).map((mode) => shortLine(mode, 40)).join(", ");
}

function Link({ url, text }: { url: string; text: string }) {
  const safe = safeUrl(url ?? "");
  const shown = shortLine(text || url || "", 80);
  return safe ? <a href={safe.href} target="_blank" rel="noopener noreferrer" title={shortLine(safe.href, 300)}>{shown}</a> : <>{shown}</>;
}
