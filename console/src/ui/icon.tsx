// Icons of 16 × 16 in one stroke, drawn here: no icon font, no requests. They are decoration; names are beside them.

const PATHS: Record<string, string> = {
  home: "M2.5 7.5 8 3l5.5 4.5v6h-4v-4h-3v4h-4z",
  agents: "M3 5.5h10v7H3zM8 5.5V3M6 8.5v1M10 8.5v1M1.5 8v2M14.5 8v2",
  chat: "M2.5 3.5h11v7h-6L4.5 13v-2.5h-2z",
  tasks: "M6 4h7.5M6 8h7.5M6 12h7.5M2.5 4h.01M2.5 8h.01M2.5 12h.01",
  approvals: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4zM5.5 8 7.5 10l3-4",
  wire: "M2 5.5h10M9.5 3 12 5.5 9.5 8M14 10.5H4M6.5 8 4 10.5 6.5 13",
  check: "M2.5 8.5 6 12l7.5-8",
  operate: "M3 4.5h10M3 8h10M3 11.5h10M6 3v3M10.5 6.5v3M5 10v3",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3 14 14",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4 6 8l4 4",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v2M8 13v2M1 8h2M13 8h2M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  help: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM6 6a2 2 0 1 1 2 2v1.5M8 11.5h.01",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  external: "M9.5 2.5h4v4M13.5 2.5 8 8M11.5 9v4.5h-9v-9H7",
  refresh: "M13 8a5 5 0 1 1-1.5-3.5M13 2.5v3h-3",
  stop: "M4.5 4.5h7v7h-7z",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  attach: "M12.5 7.5 7.5 12.5a3 3 0 0 1-4-4L9 3a2 2 0 0 1 3 3l-5.5 5a1 1 0 0 1-1.5-1.5L9.5 5",
  send: "M2.5 8 13.5 3 10 13.5 7.5 9z",
  warning: "M8 2.5 14 13H2zM8 6.5v3M8 11.2h.01",
  info: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 7.5v3.5M8 5h.01",
  lock: "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  download: "M8 2.5v7M5 7l3 3 3-3M3 13h10",
  filter: "M2.5 3.5h11L9.5 8.5v4l-3-1.5V8.5z",
  clock: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 4.5V8l2.5 1.5",
  user: "M8 2a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM3 13.5a5 5 0 0 1 10 0",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.5 9h6l.5-9",
  edit: "M3 13l.5-3L11 3l2 2-7 7.5z",
  link: "M7 9a2.5 2.5 0 0 0 3.5 0L13 6.5A2.5 2.5 0 0 0 9.5 3l-1 1M9 7a2.5 2.5 0 0 0-3.5 0L3 9.5A2.5 2.5 0 0 0 6.5 13l1-1",
  compare: "M5.5 2.5v11M10.5 2.5v11M2.5 5.5h3M2.5 9.5h3M10.5 5.5h3M10.5 9.5h3",
  file: "M4 2h5l3.5 3v9H4zM9 2v3h3.5",
  expand: "M9.5 2.5h4v4M6.5 13.5h-4v-4M13.5 2.5 9 7M2.5 13.5 7 9",
};

/** An icon by name; an unknown name draws nothing. */
export function Icon({ name, size = 16 }: { name: string; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name] ?? ""} />
    </svg>
  );
}
