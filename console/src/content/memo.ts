// `memo` of Preact without preact/compat: a component that is rendered again only if one of its props has changed.

import { Component, h, type FunctionComponent, type VNode } from "preact";

/** The component, skipped while all props are the same. */
export function memo<P extends object>(render: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const now = this.props as Record<string, unknown>;
      const then = next as Record<string, unknown>;
      const names = Object.keys(then);
      return names.length !== Object.keys(now).length || names.some((name) => now[name] !== then[name]);
    }
    override render(): VNode {
      return h(render as FunctionComponent<object>, this.props);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
