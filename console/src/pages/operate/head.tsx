// The head of a section: its title, a sentence about it, and its buttons.

import type { ComponentChildren } from "preact";
import { Button } from "../../ui/index.ts";

export interface HeadProps {
  title: string;
  about: ComponentChildren;
  children?: ComponentChildren;
  onReload?: () => void;
}

export function Head({ title, about, children, onReload }: HeadProps) {
  return (
    <header class="operate-head">
      <div>
        <h2><bdi>{title}</bdi></h2>
        <div class="dim">{about}</div>
      </div>
      <div class="operate-buttons">
        {children}
        {onReload && <Button small kind="quiet" icon="refresh" onClick={onReload}>Read again</Button>}
      </div>
    </header>
  );
}
