// Operate: the sections about the host and about one tenant, as far as the caller may see them.
// Most sections are data (`host_sections`, `tenant_sections`); the others have components of their own.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { actForTenant, session } from "../../api/session.ts";
import { useCommands } from "../../commands.ts";
import { links } from "../../router.ts";
import { ChooseTenant, lacksTenant } from "../no_agents.tsx";
import type { PageProps } from "../registry.ts";
import { Button, EmptyState, Page, toast, toastError } from "../../ui/index.ts";
import "../../styles/operate.css";
import { AgentPage } from "./agent_page.tsx";
import { BudgetsPage } from "./budgets_page.tsx";
import { HealthPage } from "./health_page.tsx";
import { download } from "./host_call.ts";
import { HOST_SECTIONS } from "./host_sections.ts";
import { isShown, type Rights, type Row, type Section } from "./section.ts";
import { SectionPage } from "./section_page.tsx";
import { TENANT_SECTIONS } from "./tenant_sections.ts";
import { UsagePage } from "./usage_page.tsx";

interface Entry {
  id: string;
  title: string;
  group: Section["group"];
  needs: Section["needs"];
  section?: Section;
}

const own = (id: string, title: string, group: Entry["group"], needs: Entry["needs"]): Entry => ({ id, title, group, needs });
const data = (section: Section): Entry => ({ ...own(section.id, section.title, section.group, section.needs), section });

/** All sections in the order of the navigation. */
export const ENTRIES: readonly Entry[] = [
  own("health", "Health", "host", "read"),
  ...HOST_SECTIONS.slice(0, -1).map(data),
  own("host-usage", "Usage of the host", "host", "operator"),
  data(HOST_SECTIONS.at(-1)!),
  data(TENANT_SECTIONS[0]!),
  own("budgets", "Budgets", "tenant", "read"),
  own("usage", "Usage", "tenant", "read"),
  ...TENANT_SECTIONS.slice(1).map(data),
];

export default function OperatePage({ params }: PageProps) {
  const caller = session.value?.caller;
  const rights: Rights = { is_operator: caller?.is_operator ?? false, scopes: caller?.scopes ?? [], tenant: caller?.tenant || null };
  const entries = ENTRIES.filter((entry) => isShown(entry.needs, rights));
  const entry = entries.find((each) => each.id === params.section) ?? (params.section ? undefined : entries[0]);
  useCommands(
    () => entries.map((each) => ({ title: each.title, group: "Operate", href: links.operate(each.id) })),
    [rights.is_operator, rights.scopes.join()],
  );
  if (!entries.length) {
    return <Page title="Operate"><EmptyState title="There is nothing here for you" icon="lock">Your token may not read or manage this host. Log in with another one.</EmptyState></Page>;
  }
  return (
    <Page title="Operate">
      <div class="operate">
        <Navigation entries={entries} current={entry?.id ?? ""} tenant={caller?.tenant_name || rights.tenant} />
        <div class="operate-main">
          {entry ? <Content key={`${entry.id} ${rights.tenant ?? ""}`} entry={entry} item={params.item} rights={rights} /> : (
            <EmptyState title="There is no such section">Your token may not allow to see it, or the link is wrong.</EmptyState>
          )}
        </div>
      </div>
    </Page>
  );
}

function Navigation({ entries, current, tenant }: { entries: readonly Entry[]; current: string; tenant: string | null }) {
  const isWide = typeof matchMedia === "undefined" || matchMedia("(min-width: 801px)").matches;
  const groups: [Section["group"], string][] = [["host", "Host"], ["tenant", tenant ? `Tenant ${tenant}` : "Tenant"]];
  return (
    <nav class="operate-nav" aria-label="Sections">
      <details open={isWide}>
        <summary>Sections</summary>
        {groups.map(([group, title]) => {
          const shown = entries.filter((entry) => entry.group === group);
          return shown.length > 0 && (
            <div key={group}>
              <h2><bdi>{title}</bdi></h2>
              <ul>
                {shown.map((entry) => (
                  <li key={entry.id}><a href={links.operate(entry.id)} aria-current={entry.id === current ? "page" : undefined}>{entry.title}</a></li>
                ))}
              </ul>
            </div>
          );
        })}
      </details>
    </nav>
  );
}

function Content({ entry, item, rights }: { entry: Entry; item: string | undefined; rights: Rights }): ComponentChildren {
  if (entry.group === "tenant" && lacksTenant()) return <ChooseTenant />;
  if (entry.id === "agents" && item) return <AgentPage id={item} rights={rights} />;
  if (entry.id === "tenants") return <TenantsPage section={entry.section!} rights={rights} />;
  if (entry.section) return <SectionPage section={entry.section} rights={rights} />;
  switch (entry.id) {
    case "health":
      return <HealthPage rights={rights} />;
    case "budgets":
      return <BudgetsPage rights={rights} />;
    default:
      return <UsagePage isHost={entry.id === "host-usage"} />;
  }
}

// --- tenants ---------------------------------------------------------------------------------------------------------

async function actFor(row: Row): Promise<void> {
  try {
    await actForTenant(String(row.id));
    toast(`You act for the tenant ${String(row.name)} from now on.`);
  } catch (error) {
    toastError(error);
  }
}

function TenantsPage({ section, rights }: { section: Section; rights: Rights }) {
  const [isExporting, setExporting] = useState("");
  const save = async (row: Row) => {
    setExporting(String(row.id));
    try {
      await download(`/v1/admin/tenants/${String(row.id)}/export`, `tenant-${String(row.id)}.ndjson`);
      toast(`The tenant ${String(row.name)} was exported, without secrets.`);
    } catch (error) {
      toastError(error, "Export");
    } finally {
      setExporting("");
    }
  };
  return (
    <SectionPage
      section={section} rights={rights}
      rowButtons={(row) => (
        <>
          {rights.tenant !== String(row.id) && <Button small kind="quiet" onClick={() => void actFor(row)}>Act for it</Button>}
          <Button small kind="quiet" busy={isExporting === String(row.id) && "Exporting…"} onClick={() => void save(row)}>Export</Button>
        </>
      )}
    />
  );
}
