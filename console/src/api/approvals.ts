// How many approvals wait for a decision of the user, on hosts; kept up to date over the page's stream.

import { signal } from "../signals.ts";
import { openChannel, type Channel } from "./stream.ts";

export const waitingApprovals = signal(0);

let channel: Channel | null = null;

/** Follow the number from now on. */
export function followApprovals(): void {
  channel ??= openChannel(
    { kind: "approvals" },
    {
      onData: ({ waiting }) => (waitingApprovals.value = waiting),
      onEnd: () => (channel = null),
      onError: () => (channel = null),
    },
  );
}
