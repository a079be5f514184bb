// What is shown: the login, or the shell with the page of the address. `begin` reads the session, and logs in with the code
// of a one-time link, which is removed from the address before anything else happens.

import { effect, signal, untracked } from "./signals.ts";
import { useEffect, useErrorBoundary } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { isRefused, messageOf } from "./api/http.ts";
import { callerKey, failedChanges, has, loadSession, logInOnce, needsLogin, session, sessionError } from "./api/session.ts";
import { connectNow } from "./api/stream.ts";
import Login from "./pages/login.tsx";
import { PAGES } from "./pages/registry.ts";
import { links, navigations, route, setTitle } from "./router.ts";
import { Shell } from "./shell.tsx";
import { ButtonLink, EmptyState, LiveRegions, Page, Problem, Progress } from "./ui/index.ts";

/** Why the link that the page was opened with did not log in; the login page says it. */
export const linkProblem = signal("");

/** Take the code of a one-time link out of the address: `#once=CODE`. */
export function takeOnceCode(): string {
  const code = new URLSearchParams(location.hash.slice(1)).get("once") ?? "";
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Read the session, log in if there is a one-time code, and connect. */
export async function begin(): Promise<void> {
  const code = takeOnceCode();
  sessionError.value = "";
  try {
    await loadSession();
  } catch (error) {
    sessionError.value = messageOf(error);
    return;
  }
  if (code) {
    try {
      await logInOnce(code);
    } catch (error) {
      linkProblem.value =
        `The link did not log you in: ${messageOf(error)} A link works once, within ten minutes of the start of the server.`;
    }
  }
  // Untracked: an effect that followed the connection would make it again at once whenever it is lost, without a pause.
  effect(() => {
    if (session.value && !needsLogin.value) untracked(connectNow);
  });
  effect(() => {
    if (isRefused.value) loadSession().catch(() => undefined);
  });
}

export function App() {
  return (
    <>
      <Content />
      <LiveRegions />
    </>
  );
}

function Content() {
  if (sessionError.value) {
    return (
      <main class="alone">
        <h1>Parley console</h1>
        <Problem title="The session could not be read." error={new Error(sessionError.value)} retry={() => void begin()} />
      </main>
    );
  }
  if (!session.value) return <main class="alone"><Progress text="Connecting to the server…" /></main>;
  if (needsLogin.value) return <ShownPage title="Login"><Login /></ShownPage>;
  return <Shell><PageOutlet /></Shell>;
}

/** The page of the address. */
function PageOutlet() {
  const { page, params } = route.value;
  const round = navigations.value;
  useEffect(() => {
    if (page === "not_found") setTitle("Not found");
    else if (page !== "home") setTitle(PAGES[page].title);
  }, [page, round]);
  if (page === "not_found") return <NotFound />;
  const { feature, title, Shown } = PAGES[page];
  if (feature && !has(feature)) {
    return (
      <Page title={title}>
        <EmptyState title={`This server does not offer ${title.toLowerCase()} to you`} actions={<ButtonLink href={links.home()}>Home</ButtonLink>}>
          It may need another login, or another kind of server.
        </EmptyState>
      </Page>
    );
  }
  // Begun anew for another caller: what a page holds is for one only.
  return <ShownPage key={`${page} ${failedChanges.value} ${callerKey.value}`} title={title}><Shown params={params} /></ShownPage>;
}

function NotFound() {
  return (
    <Page title="Page not found">
      <EmptyState title="There is no such page" actions={<ButtonLink href={links.home()}>Home</ButtonLink>}>
        The address may be misspelled. Ctrl K finds pages, agents and tasks.
      </EmptyState>
    </Page>
  );
}

interface ShownPageProps {
  title: string;
  children: ComponentChildren;
}

/** A page, or why it has failed. After a navigation it moves the focus to its heading. */
function ShownPage({ title, children }: ShownPageProps) {
  const [error, reset] = useErrorBoundary();
  const round = navigations.value;
  useEffect(() => {
    if (round > 0) focusHeading();
  }, [round]);
  if (!error) return <>{children}</>;
  return <Page title={title}><Problem title="This page has failed." error={error} retry={reset} /></Page>;
}

function focusHeading(): void {
  requestAnimationFrame(() => {
    // A page that has put the focus somewhere useful itself, into a composer for instance, keeps it.
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && focused.closest("main") && focused.matches("input, textarea, select")) return;
    (document.getElementById("page-title") ?? document.getElementById("main"))?.focus();
  });
}
