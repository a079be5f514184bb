// What pages show that have no agents: the way to add one, or to choose a tenant for an operator who acts for none.

import { has, session } from "../api/session.ts";
import { links } from "../router.ts";
import { ButtonLink, EmptyState } from "../ui/index.ts";

/** Whether the caller is an operator who has not chosen a tenant. */
export function lacksTenant(): boolean {
  const caller = session.value?.caller;
  return !!caller?.is_operator && !caller.tenant;
}

export function ChooseTenant() {
  return <EmptyState title="Choose a tenant" icon="user">What is here belongs to one tenant. Choose the one that you act for in Operate, Tenants, or below the navigation.</EmptyState>;
}

/** What a page shows while there is no agent that it could be about. */
export function NoAgents() {
  if (lacksTenant()) return <ChooseTenant />;
  return (
    <EmptyState
      title="There are no agents yet" icon="agents"
      actions={has("remote") && <ButtonLink kind="primary" icon="plus" href={`${links.agents()}?add=1`}>Add an agent by URL</ButtonLink>}
    >
      Add any A2A agent by its address, on this machine or elsewhere, or all agents of a catalogue at once.
    </EmptyState>
  );
}
