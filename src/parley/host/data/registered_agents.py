"""Remote agents that tenants have registered, each with a summary of the card that was accepted.

The token that a remote agent gets is in a record of its own, so that no list and no view can show it. What the last
check of an agent found is in `registry_checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit, AuditAction
from parley.host.data.epoch import seconds
from parley.host.data.errors import AlreadyExistsError, LimitReachedError, NotFoundError
from parley.host.data.keys import REGISTERED_AGENTS, REGISTRY_SECRETS
from parley.host.data.registry_checks import CheckOutcome, RegistryChecks
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

MAX_REGISTERED = 200
"""Registered agents of one tenant: its models are told of all of them."""

SignatureMode: TypeAlias = Literal["off", "if signed", "required"]


class SkillSummary(Struct, frozen=True, omit_defaults=True):
    """A skill of a card."""

    id: str
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class CardSummary(Struct, frozen=True, omit_defaults=True):
    """What is kept of a card."""

    name: str
    description: str
    version: str
    skills: tuple[SkillSummary, ...] = ()
    organization: str = ""
    signers: tuple[str, ...] = ()
    """The ids of the keys that have signed it."""
    is_verified: bool = False
    """Whether a signature was verified with a key of the tenant."""
    digest: str = ""
    """Of the card without its signatures."""
    problems: tuple[str, ...] = ()


class SignatureRule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which cards of an agent are accepted. `jwks` are the keys that are trusted, as a JSON Web Key Set."""

    mode: SignatureMode = "if signed"
    jwks: Annotated[str, Meta(max_length=100_000)] = ""


class RegisteredAgent(Struct, frozen=True):
    """A remote agent that a tenant has registered. Times are seconds since 1970."""

    name: str
    url: str
    card: CardSummary
    signatures: SignatureRule
    has_token: bool
    created_at: int
    updated_at: int
    description: str | None = None
    """What the tenant says it does; None: what its card says."""


class RegisteredAgentNotFoundError(NotFoundError):
    """The tenant has not registered such an agent."""


class RegisteredAgents:
    """The registered agents of all tenants."""

    def __init__(self, records: Records, clock: Clock, checks: RegistryChecks) -> None:
        self._records = records
        self._clock = clock
        self._checks = checks
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def get(self, tenant: str, name: str) -> RegisteredAgent:
        """One agent. Raises RegisteredAgentNotFoundError."""
        return _decode(await self._read(tenant, name))

    async def list(self, tenant: str) -> Sequence[RegisteredAgent]:
        """All agents of a tenant, by name."""
        records = await self._records.list(REGISTERED_AGENTS, tenant, limit=MAX_REGISTERED)
        return sorted(map(_decode, records), key=lambda agent: agent.name)

    async def token(self, tenant: str, name: str) -> str | None:
        """The token that an agent gets."""
        return await read_secret(self._records, tenant, name)

    async def add(
        self, tenant: str, agent: RegisteredAgent, *, token: str | None, actor: str, next_check: datetime
    ) -> RegisteredAgent:
        """Register an agent whose card was accepted just now.

        Raises:
            AlreadyExistsError: the tenant has registered one of this name.
            LimitReachedError: the tenant has too many.
        """

        async def decide() -> Decision[RegisteredAgent]:
            if await self._records.get(_key(tenant, agent.name)) is not None:
                raise AlreadyExistsError(f"agent '{agent.name}' is registered already for this tenant")
            if await self._records.count(REGISTERED_AGENTS, tenant) >= MAX_REGISTERED:
                raise LimitReachedError(f"a tenant may register {MAX_REGISTERED} agents; remove one first")
            now = seconds(self._clock.now())
            added = structs.replace(agent, has_token=token is not None, created_at=now, updated_at=now)
            changes = [
                PutRecord(_key(tenant, agent.name), to_builtins(added), now, expected=0),
                secret_change(tenant, agent.name, token),
                self._checks.first(tenant, "agent", agent.name, CheckOutcome("healthy"), due=next_check),
                await self._entry("register_agent", tenant, agent.name, actor, after=_audited(added)),
            ]
            return added, changes

        return await self._transactions.run(tenant, decide)

    async def accept(self, tenant: str, name: str, card: CardSummary, *, actor: str) -> RegisteredAgent:
        """The agent with another card. Raises RegisteredAgentNotFoundError."""

        async def decide() -> Decision[RegisteredAgent]:
            record = await self._read(tenant, name)
            before = _decode(record)
            after = structs.replace(before, card=card, updated_at=seconds(self._clock.now()))
            put = PutRecord(record.key, to_builtins(after), record.sort, expected=record.revision)
            entry = await self._entry(
                "accept_card", tenant, name, actor, before=_audited(before), after=_audited(after)
            )
            return after, [put, entry]

        return await self._transactions.run(tenant, decide)

    async def remove(self, tenant: str, name: str, *, actor: str) -> None:
        """Remove an agent, its token and its checks. Raises RegisteredAgentNotFoundError."""

        async def decide() -> Decision[None]:
            record = await self._read(tenant, name)
            changes = [
                DeleteRecord(record.key, record.revision),
                secret_change(tenant, name, None),
                self._checks.last(tenant, "agent", name),
                await self._entry("unregister_agent", tenant, name, actor, before=_audited(_decode(record))),
            ]
            return None, changes

        await self._transactions.run(tenant, decide)

    async def _read(self, tenant: str, name: str) -> Record:
        record = await self._records.get(_key(tenant, name))
        if record is None:
            raise RegisteredAgentNotFoundError(f"no registered agent '{name[:100]}' for this tenant")
        return record

    async def _entry(
        self,
        action: AuditAction,
        tenant: str,
        name: str,
        actor: str,
        *,
        before: JsonObject | None = None,
        after: JsonObject | None = None,
    ) -> PutRecord:
        target = f"{tenant}/{name}"
        return await self._audit.entry(action, target, actor=actor, kind="registered_agent", before=before, after=after)


def secret_change(tenant: str, secret_id: str, token: str | None) -> PutRecord | DeleteRecord:
    """The change that keeps a token, or removes it."""
    key = RecordKey(REGISTRY_SECRETS, tenant, secret_id)
    return DeleteRecord(key) if token is None else PutRecord(key, {"token": token})


async def read_secret(records: Records, tenant: str, secret_id: str) -> str | None:
    """A token that was kept."""
    record = await records.get(RecordKey(REGISTRY_SECRETS, tenant, secret_id))
    token = None if record is None else record.value.get("token")
    return token if isinstance(token, str) else None


def _audited(agent: RegisteredAgent) -> JsonObject:
    """What the audit shows: neither the token nor a URL, whose query may be one."""
    return {"version": agent.card.version, "digest": agent.card.digest, "has_token": agent.has_token}


def _key(tenant: str, name: str) -> RecordKey:
    return RecordKey(REGISTERED_AGENTS, tenant, name)


def _decode(record: Record) -> RegisteredAgent:
    return msgspec.convert(record.value, RegisteredAgent)
