// Signals: values that components and effects follow by reading them. A component that has read `signal.value` is rendered
// again when the value changes; what it reads is noted anew with every rendering.
// Preact's hooks around a rendering are not in its types: `__r` runs before it, `diffed` after it.

import { options, type Component, type VNode } from "preact";
import { useState } from "preact/hooks";

/** A component or an effect: what to do when one of its signals changes, and which these are. */
interface Follower {
  update: () => void;
  signals: Set<Signal<unknown>>;
}

let current: Follower | null = null;

export interface ReadonlySignal<T> {
  /** The value. A component or effect that reads it follows it. */
  readonly value: T;
  /** The value, without following it. */
  peek(): T;
}

export class Signal<T> implements ReadonlySignal<T> {
  readonly followers = new Set<Follower>();

  constructor(private kept: T) {}

  get value(): T {
    if (current) {
      this.followers.add(current);
      current.signals.add(this as Signal<unknown>);
    }
    return this.kept;
  }

  set value(next: T) {
    if (next === this.kept) return;
    this.kept = next;
    for (const follower of [...this.followers]) if (this.followers.has(follower)) follower.update();
  }

  peek(): T {
    return this.kept;
  }
}

export function signal<T>(value: T): Signal<T> {
  return new Signal(value);
}

/** A signal that lives as long as the component. */
export function useSignal<T>(value: T): Signal<T> {
  return useState(() => signal(value))[0];
}

function followerOf(update: () => void): Follower {
  const follower: Follower = {
    signals: new Set(),
    update: () => {
      if (current === follower) return; // it is running, and has set the signal itself
      unfollow(follower);
      update();
    },
  };
  return follower;
}

function follow<T>(follower: Follower | null, read: () => T): T {
  const outer = current;
  current = follower;
  try {
    return read();
  } finally {
    current = outer;
  }
}

function unfollow(follower: Follower): void {
  for (const each of follower.signals) each.followers.delete(follower);
  follower.signals.clear();
}

/** What a function returns, without following the signals that it reads. */
export function untracked<T>(read: () => T): T {
  return follow(null, read);
}

/** A value made of signals, and made again only when one of them has changed. */
export function computed<T>(read: () => T): ReadonlySignal<T> {
  const version = signal(0);
  let made: { value: T } | null = null;
  const follower = followerOf(() => {
    made = null;
    version.value = version.peek() + 1;
  });
  const peek = () => (made ??= { value: follow(follower, read) }).value;
  return {
    get value() {
      void version.value;
      return peek();
    },
    peek,
  };
}

/** Run a function now, and again whenever a signal that it has read changes. Returns what ends it. */
export function effect(run: () => void): () => void {
  const follower = followerOf(() => follow(follower, run));
  follower.update();
  return () => unfollow(follower);
}

const components = new WeakMap<Component, Follower>();

type RenderHook = (vnode: VNode & { __c: Component }) => void;

function addHook(name: "__r" | "diffed" | "unmount", hook: RenderHook): void {
  const hooks = options as Record<string, RenderHook | undefined>;
  const before = hooks[name];
  hooks[name] = (vnode) => {
    hook(vnode);
    before?.(vnode);
  };
}

addHook("__r", ({ __c: component }) => {
  const follower = components.get(component) ?? followerOf(() => component.forceUpdate());
  components.set(component, follower);
  unfollow(follower);
  current = follower;
});
addHook("diffed", () => (current = null));
addHook("unmount", ({ __c: component }) => {
  const follower = components.get(component);
  if (follower) unfollow(follower);
});
