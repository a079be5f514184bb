// Two panes with a border that can be moved, with the mouse or the arrow keys. Below 800 px they are one below the other.
// The position is kept in this browser, by name.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

export interface SplitProps {
  /** Under which the position is kept, and what is divided: "task-timeline". */
  name: string;
  /** For screen readers: "Width of the list". */
  label: string;
  first: ComponentChildren;
  second: ComponentChildren;
  /** The share of the first pane, 0 to 1. */
  initial?: number;
}

export function Split({ name, label, first, second, initial = 0.5 }: SplitProps) {
  const box = useRef<HTMLDivElement>(null);
  const [share, setShare] = useState(() => readNumber(`split-${name}`, initial));
  const move = (next: number) => {
    const kept = Math.min(0.85, Math.max(0.15, next));
    setShare(kept);
    writeNumber(`split-${name}`, kept);
  };
  const drag = (event: PointerEvent) => {
    const bar = event.currentTarget as HTMLElement;
    const area = box.current!.getBoundingClientRect();
    bar.setPointerCapture(event.pointerId);
    bar.onpointermove = (moved) => move((moved.clientX - area.left) / area.width);
    bar.onpointerup = bar.onpointercancel = () => (bar.onpointermove = bar.onpointerup = bar.onpointercancel = null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const next = { ArrowLeft: share - 0.05, ArrowRight: share + 0.05, Home: 0.15, End: 0.85 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    move(next);
  };
  const percent = Math.round(share * 100);
  return (
    <div class="split" ref={box} style={{ "--share": `${percent}%` }}>
      <div class="split-pane split-first">{first}</div>
      <div
        class="split-bar" role="separator" tabIndex={0} aria-label={label} aria-orientation="vertical"
        aria-valuemin={15} aria-valuemax={85} aria-valuenow={percent}
        onPointerDown={drag} onKeyDown={onKeyDown} onDblClick={() => move(initial)}
      />
      <div class="split-pane split-second">{second}</div>
    </div>
  );
}

/** A preference of this browser. Secrets never go there. */
function readNumber(name: string, initial: number): number {
  try {
    const value = Number.parseFloat(localStorage.getItem(`parley-${name}`) ?? "");
    return Number.isFinite(value) ? value : initial;
  } catch {
    return initial; // storage is switched off
  }
}

function writeNumber(name: string, value: number): void {
  try {
    localStorage.setItem(`parley-${name}`, value.toFixed(3));
  } catch {
    // storage is switched off, or full
  }
}
