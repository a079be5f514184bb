// The design system: what pages are made of. Look into the files for the properties.

export { announce, LiveRegions, SentenceAnnouncer } from "./announce.tsx";
export { Button, ButtonLink, IconButton } from "./button.tsx";
export { CopyButton, copyText } from "./copy.tsx";
export { confirm, ConfirmOutlet, Dialog, useModal } from "./dialog.tsx";
export { Checkbox, Field, Select, TextInput } from "./field.tsx";
export { Icon } from "./icon.tsx";
export { useLoad } from "./load.ts";
export { Id, Name } from "./name.tsx";
export { Facts, Page, Section } from "./page.tsx";
export { Split } from "./split.tsx";
export { Badge, EmptyState, LoadState, Problem, Progress, rowState, StateBadge, stateWord, Tag } from "./states.tsx";
export { Table, type Column } from "./table.tsx";
export { Tabs, type Tab } from "./tabs.tsx";
export { clockText, now, relativeText, Time } from "./time.tsx";
export { toast, toastError, ToastOutlet } from "./toast.tsx";
export { nextIndex, VirtualList, type VirtualListHandle } from "./virtual_list.tsx";
