// What an operator sees who acts for no tenant, where everything belongs to one.

import { session } from "../api/session.ts";
import { EmptyState } from "../ui/index.ts";

/** Whether the caller is an operator who has not chosen a tenant. */
export function lacksTenant(): boolean {
  const caller = session.value?.caller;
  return !!caller?.is_operator && !caller.tenant;
}

export function ChooseTenant() {
  return <EmptyState title="Choose a tenant" icon="user">What is here belongs to one tenant. Choose the one that you act for in Operate, Tenants, or below the navigation.</EmptyState>;
}
