// Light or dark: as the system has it, unless the user has chosen. The choice is kept in this browser.

import { effect, signal } from "./signals.ts";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>(readTheme());

function readTheme(): Theme {
  try {
    const kept = localStorage.getItem("parley-theme");
    return kept === "light" || kept === "dark" ? kept : "system";
  } catch {
    return "system"; // storage is switched off
  }
}

/** Show the theme, from now on. */
export function startTheme(): void {
  effect(() => {
    const root = document.documentElement;
    if (theme.value === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme.value);
    try {
      localStorage.setItem("parley-theme", theme.value);
    } catch {
      // it lasts until the page is closed
    }
  });
}

/** Light, then dark, then as the system has it. */
export function nextTheme(): void {
  theme.value = theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system";
}
