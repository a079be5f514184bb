// The session of this browser: who is logged in, at which server, and what the page may show.
// It is read at the start, after every login, and when the server says that the page is older than itself.
// What the page holds in memory is the caller's: `forgetWithCaller` says how to drop it when another one comes.

import { computed, signal } from "../signals.ts";
import { api, csrfToken, isRefused } from "./http.ts";
import type { Feature, Session } from "./types.ts";

/** The session; null until it was read for the first time. */
export const session = signal<Session | null>(null);

/** Why the session could not be read; empty if it was. */
export const sessionError = signal("");

/** The user has asked for the login, although much works without. */
export const wantsLogin = signal(false);

/** The login is to be shown: nothing works without, or the user has asked for it. */
export const needsLogin = computed(() => {
  const now = session.value;
  return now !== null && !now.is_logged_in && (now.needs_login || wantsLogin.value);
});

/** The server has been updated since the page was loaded. */
export const isOutdated = signal(false);

/** Who the page acts as, in one text; empty without a login. It differs between the tenants of an operator. */
export const callerKey = computed(() => {
  const now = session.value;
  return now?.is_logged_in && now.caller ? JSON.stringify([now.caller.tenant, now.caller.name]) : "";
});

const forgetters: (() => void)[] = [];
/** The last caller that was logged in. */
let knownFor = "";

/** Call a function before the page acts as another caller: what it holds for one is not for the next. */
export function forgetWithCaller(forget: () => void): void {
  forgetters.push(forget);
}

/** Forget what belongs to the caller, who leaves. */
function forgetCaller(): void {
  knownFor = "";
  for (const forget of forgetters) forget();
}

/** Whether the server offers a part of the console to this caller. Reads the signal, so components follow it. */
export function has(feature: Feature): boolean {
  return session.value?.features.includes(feature) ?? false;
}

function keep(next: Session): Session {
  if (session.value && session.value.build !== next.build) isOutdated.value = true;
  csrfToken.value = next.csrf;
  isRefused.value = false;
  if (next.is_logged_in) wantsLogin.value = false;
  session.value = next;
  // While the login is shown, nothing else is: it is not yet known whether the same caller comes back.
  const key = callerKey.peek();
  if (knownFor && key !== knownFor && !needsLogin.peek()) forgetCaller();
  knownFor = key || knownFor;
  return next;
}

/** Read the session, which begins if there is none. Raises ApiError. */
export async function loadSession(): Promise<Session> {
  return keep(await api.get<Session>("/session"));
}

/** Log in with the code of a one-time link. Raises ApiError. */
export async function logInOnce(code: string): Promise<Session> {
  return keep(await api.post<Session>("/session/login", { once: code }));
}

/** Log in with the fields of a scheme. Raises ApiError. */
export async function logIn(scheme: string, values: Record<string, string>): Promise<Session> {
  return keep(await api.post<Session>("/session/login", { scheme, values }));
}

/** How often the page has failed to become another caller's. What is shown begins anew then: it has lost what it held. */
export const failedChanges = signal(0);

async function changeCaller(change: () => Promise<unknown>): Promise<Session> {
  forgetCaller(); // before the change: a channel that is open must not go on as another caller
  try {
    await change();
    return await loadSession();
  } catch (error) {
    knownFor = callerKey.peek();
    failedChanges.value++;
    throw error;
  }
}

/** End the session, and begin one without credentials. Raises ApiError. */
export function logOut(): Promise<Session> {
  return changeCaller(() => api.post("/session/logout").then(() => (csrfToken.value = "")));
}

/** As an operator, act for a tenant from now on, or for none. Raises ApiError. */
export function actForTenant(tenant: string | null): Promise<Session> {
  return changeCaller(() => api.post("/session/tenant", { tenant }));
}
