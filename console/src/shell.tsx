// Around every page: navigation, the state of the connection, who is logged in, theme, help and the palette.
// What the server does not offer is not shown.

import { signal } from "./signals.ts";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { followApprovals, waitingApprovals } from "./api/approvals.ts";
import { native } from "./api/http.ts";
import { actForTenant, has, isOutdated, logOut, session, wantsLogin } from "./api/session.ts";
import { connection, connectNow, reconnectNow } from "./api/stream.ts";
import { isPaletteOpen, Palette, startPalette } from "./palette.tsx";
import { PAGES } from "./pages/registry.ts";
import { links, navigate, navigations, route, type PageName } from "./router.ts";
import { addShortcuts, hasPlainKeys, isMac, setPlainKeys, shortcuts } from "./shortcuts.ts";
import { shortLine } from "./text/safe.ts";
import { nextTheme, theme } from "./theme.ts";
import {
  announce, Button, Checkbox, ConfirmOutlet, Dialog, Icon, IconButton, now, Select, toastError, ToastOutlet, useLoad,
} from "./ui/index.ts";

const isHelpOpen = signal(false);
const isMenuOpen = signal(false);

/** Under which entry of the navigation a page belongs. */
const PARENTS: Partial<Record<PageName, PageName>> = { agent: "agents", task: "tasks", compare: "tasks" };

export function Shell({ children }: { children: ComponentChildren }) {
  useLayoutEffect(startShell, []); // keys work as soon as there is something to see
  const round = navigations.value;
  useEffect(() => {
    isMenuOpen.value = false;
  }, [round]);
  return (
    <div class="shell">
      <a class="skip visually-hidden" href="#main" onClick={skip}>Skip to the content</a>
      <Sidebar />
      <div class="shell-main">
        <ConnectionBar />
        <main id="main" tabIndex={-1}>{children}</main>
      </div>
      {isHelpOpen.value && <Help />}
      {isPaletteOpen.value && <Palette />}
      <ConfirmOutlet />
      <ToastOutlet />
    </div>
  );
}

function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function startShell(): () => void {
  if (has("approvals")) followApprovals();
  const pages = Object.values(PAGES).filter((page) => page.entry && (!page.feature || has(page.feature)));
  const stops = [
    startPalette(),
    addShortcuts([
      { keys: "?", title: "Show the shortcuts", group: "Everywhere", run: () => (isHelpOpen.value = true) },
      { keys: "Mod+k", title: "Search, go to, do", group: "Everywhere", run: () => (isPaletteOpen.value = !isPaletteOpen.value) },
      ...pages.map(({ title, entry }) => ({
        keys: `g ${entry!.key}`, title: `Go to ${title.toLowerCase()}`, group: "Go to", run: () => navigate(entry!.href),
      })),
    ]),
  ];
  return () => stops.forEach((stop) => stop());
}

function Sidebar() {
  const server = session.value?.server;
  return (
    <header class={isMenuOpen.value ? "sidebar is-open" : "sidebar"}>
      <div class="sidebar-top">
        <a class="brand" href={links.home()}>
          <span class="brand-mark" aria-hidden="true">P</span>
          <span class="cut" title={server && `${server.name} ${server.version}`}>{shortLine(server?.name || "Parley", 40)}</span>
        </a>
        <span class="sidebar-bar">
          <IconButton icon="search" label="Search" onClick={() => (isPaletteOpen.value = true)} />
          <IconButton
            icon={isMenuOpen.value ? "close" : "menu"} label="Menu" expanded={isMenuOpen.value}
            onClick={() => (isMenuOpen.value = !isMenuOpen.value)}
          />
        </span>
      </div>
      <div class="sidebar-rest">
        <button type="button" class="search-button" onClick={() => (isPaletteOpen.value = true)}>
          <Icon name="search" /><span>Search or go to…</span><kbd>{isMac ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <Navigation />
        <div class="sidebar-foot">
          {session.value?.caller?.is_operator && <TenantSwitch />}
          <Account />
          <div class="sidebar-tools">
            <ConnectionDot />
            <span class="grow" />
            <IconButton icon={{ system: "auto", light: "sun", dark: "moon" }[theme.value]} label={`Theme: ${theme.value}`} onClick={nextTheme} small />
            <IconButton icon="help" label="Shortcuts and help" onClick={() => (isHelpOpen.value = true)} small />
          </div>
        </div>
      </div>
    </header>
  );
}

function Navigation() {
  const { page } = route.value;
  const here = page === "not_found" ? null : (PARENTS[page] ?? page);
  return (
    <nav aria-label="Pages">
      <ul class="plain nav">
        {Object.entries(PAGES).map(([name, { title, entry, feature }]) =>
          entry && (!feature || has(feature)) && (
            <li key={name}>
              <a href={entry.href} aria-current={name === here ? "page" : undefined}>
                <Icon name={entry.icon} />
                <span class="grow">{title}</span>
                {name === "approvals" && waitingApprovals.value > 0 && (
                  <span class="nav-count">{waitingApprovals.value}<span class="visually-hidden"> waiting</span></span>
                )}
              </a>
            </li>
          ))}
      </ul>
    </nav>
  );
}

interface TenantRow {
  id: string | number;
  name: string;
}

function TenantSwitch() {
  const { value } = useLoad((signal) => native.get<{ tenants: TenantRow[] }>("/v1/admin/tenants", { signal }), []);
  const chosen = session.value?.caller?.tenant ?? "";
  const options = (value?.tenants ?? []).map((tenant) => ({ value: String(tenant.id), title: shortLine(tenant.name, 40) }));
  if (chosen && !options.some((option) => option.value === chosen)) {
    options.push({ value: chosen, title: session.value?.caller?.tenant_name || chosen });
  }
  const act = async (tenant: string) => {
    try {
      await actForTenant(tenant || null);
      reconnectNow();
      announce(tenant ? "You act for another tenant now" : "You see all tenants now");
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <Select label="Act for tenant" value={chosen} onChange={act} options={[{ value: "", title: "No tenant (operator)" }, ...options]} />
  );
}

function Account() {
  const caller = session.value?.caller;
  if (!session.value?.is_logged_in) {
    return session.value?.schemes.length ? <a class="button button-small" href="#login" onClick={showLogin}>Log in</a> : null;
  }
  const leave = () => logOut().then(reconnectNow, toastError);
  return (
    <div class="account">
      <Icon name="user" />
      <span class="grow cut" title={caller?.scopes.length ? `May: ${caller.scopes.join(", ")}` : undefined}>
        {shortLine(caller?.name || "Logged in", 60)}
        {caller?.tenant_name && caller.tenant_name !== caller.name && !caller.is_operator && <span class="dim"> · {shortLine(caller.tenant_name, 40)}</span>}
      </span>
      <Button kind="quiet" small onClick={leave}>Log out</Button>
    </div>
  );
}

function showLogin(event: MouseEvent): void {
  event.preventDefault();
  wantsLogin.value = true;
}

function ConnectionDot() {
  const { state } = connection.value;
  const isGood = state === "connected";
  const words = { idle: "Not connected", connecting: "Connecting…", connected: "Connected", reconnecting: "Reconnecting…" }[state];
  return <span class={isGood ? "connection is-good" : "connection"}><span class="connection-dot" aria-hidden="true" />{words}</span>;
}

/** Says that the connection is lost, once it takes longer than a moment; and that the server was updated. */
function ConnectionBar() {
  const lost = connection.value;
  const isLost = lost.state === "reconnecting" && now.value - lost.since > 1000;
  useEffect(() => {
    if (!isLost) return undefined;
    announce("The connection to the server is lost. Trying again.", true);
    return () => announce("Connected again.");
  }, [isLost]);
  if (isLost && lost.state === "reconnecting") {
    const seconds = Math.ceil((lost.retryAt - now.value) / 1000);
    return (
      <div class="bar bar-waiting">
        <Icon name="warning" />
        <span class="grow">
          Connection lost {Math.round((now.value - lost.since) / 1000)} s ago. {seconds > 0 ? `Trying again in ${seconds} s.` : "Trying again…"} The page goes on by itself.
        </span>
        <Button small onClick={connectNow}>Try now</Button>
      </div>
    );
  }
  if (isOutdated.value) {
    return (
      <div class="bar">
        <Icon name="info" />
        <span class="grow">The server was updated.</span>
        <Button small onClick={() => location.reload()}>Reload the page</Button>
      </div>
    );
  }
  return null;
}

function Help() {
  const groups = Map.groupBy(shortcuts.value, (each) => each.group);
  return (
    <Dialog title="Shortcuts" onClose={() => (isHelpOpen.value = false)} wide>
      <Checkbox label="Keys without Ctrl" checked={hasPlainKeys.value} onChange={setPlainKeys} />
      <div class="help">
        {[...groups].map(([group, all]) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {all.map((each) => (
                <div key={each.keys}><dt>{each.title}</dt><dd><Keys keys={each.keys} /></dd></div>
              ))}
            </dl>
          </section>
        ))}
        <section>
          <h3>Lists</h3>
          <dl>
            <div><dt>Next and previous row</dt><dd><kbd>↓</kbd> <kbd>↑</kbd> or <kbd>j</kbd> <kbd>k</kbd></dd></div>
            <div><dt>First and last row</dt><dd><kbd>Home</kbd> <kbd>End</kbd></dd></div>
            <div><dt>Open</dt><dd><kbd>Enter</kbd></dd></div>
          </dl>
        </section>
      </div>
    </Dialog>
  );
}

/** The keys of a shortcut: "Mod+k", "g t". */
export function Keys({ keys }: { keys: string }) {
  const mod = isMac ? "⌘" : "Ctrl";
  return (
    <>
      {keys.split(" ").map((part, index) => (
        <span key={index}>
          {index > 0 && <span class="dim"> then </span>}
          {part.split(/\+(?=.)/).map((key) => <kbd key={key}>{key === "Mod" ? mod : key}</kbd>)}
        </span>
      ))}
    </>
  );
}
