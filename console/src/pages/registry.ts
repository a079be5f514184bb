// The pages: their title, their component, and when they are shown in the navigation.
// A page is the default export of `pages/NAME.tsx` or `pages/NAME/page.tsx`, a component with `PageProps`.

import type { ComponentType } from "preact";
import type { Feature } from "../api/types.ts";
import { links, type PageName } from "../router.ts";
import Agent from "./agent.tsx";
import Agents from "./agents.tsx";
import Approvals from "./approvals/page.tsx";
import Chat from "./chat/page.tsx";
import Check from "./check/page.tsx";
import Compare from "./compare/page.tsx";
import Home from "./home.tsx";
import Operate from "./operate/page.tsx";
import Task from "./task/page.tsx";
import Tasks from "./tasks/page.tsx";
import Wire from "./wire/page.tsx";

export interface PageProps {
  /** The parts of the path, as in router.ts: `params.agent`, `params.id`, … */
  params: Record<string, string>;
}

export interface PageInfo {
  title: string;
  Shown: ComponentType<PageProps>;
  /** The part of the server that it needs. */
  feature: Feature | null;
  /** Its entry in the navigation: where it leads, its icon (ui/icon.tsx), and the second key of its shortcut `g …`. */
  entry?: { href: string; icon: string; key: string };
}

export const PAGES: Record<PageName, PageInfo> = {
  home: { title: "Home", Shown: Home, feature: null, entry: { href: links.home(), icon: "home", key: "h" } },
  agents: { title: "Agents", Shown: Agents, feature: "agents", entry: { href: links.agents(), icon: "agents", key: "a" } },
  agent: { title: "Agent", Shown: Agent, feature: "agents" },
  chat: { title: "Chat", Shown: Chat, feature: "chat", entry: { href: links.chat(), icon: "chat", key: "c" } },
  tasks: { title: "Tasks", Shown: Tasks, feature: "agents", entry: { href: links.tasks(), icon: "tasks", key: "t" } },
  task: { title: "Task", Shown: Task, feature: "agents" },
  compare: { title: "Compare tasks", Shown: Compare, feature: "tasks" },
  approvals: { title: "Approvals", Shown: Approvals, feature: "approvals", entry: { href: links.approvals(), icon: "approvals", key: "p" } },
  wire: { title: "Wire", Shown: Wire, feature: "wire", entry: { href: links.wire(), icon: "wire", key: "w" } },
  check: { title: "Check", Shown: Check, feature: "checks", entry: { href: links.check(), icon: "check", key: "k" } },
  operate: { title: "Operate", Shown: Operate, feature: "operate", entry: { href: links.operate(), icon: "operate", key: "o" } },
};
