"""Which data `parley tasks export` and `delete` are about: of the caller at an agent, or of any owner in a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from parley.cli.options.client import (
    AllowPrivate,
    Authorities,
    Certificate,
    CertificateKey,
    ClientOptions,
    Headers,
    TimeoutSeconds,
    Token,
    TrustedOrigins,
    client_options,
    non_empty_id,
)
from parley.cli.options.groups import OptionGroup
from parley.cli.options.runtime import is_sqlite
from parley.engine.owner_data import Selection
from parley.stores.interface import Owner, Store, StoreError
from parley.stores.urls import is_postgres, open_store, sqlite_path

ANONYMOUS_OWNER = Owner("", "")
"""Callers of a server without authentication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """What was asked for. Either `client` or `store` is set; with a store, `owner` is whose data it is."""

    selection: Selection
    client: ClientOptions | None = None
    store: str = ""
    owner: Owner = ANONYMOUS_OWNER

    # What `report_error` asks for its advice about credentials.

    @property
    def url(self) -> str:
        """The agent's URL; empty with a store."""
        return self.client.url if self.client is not None else ""

    @property
    def has_credentials(self) -> bool:
        """Whether any were given on the command line."""
        return self.client is not None and self.client.has_credentials

    @property
    def has_login(self) -> bool:
        """Whether there is a stored login for the agent."""
        return self.client is not None and self.client.has_login

    @property
    def query(self) -> dict[str, str]:
        """The query of the server's page."""
        selection = self.selection
        named = {"task": selection.task_id, "context": selection.context_id}
        return {name: value for name, value in named.items() if value is not None} or {"all": "true"}


def data_options(
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="The agent's URL, for your own data there; or use --store.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", callback=non_empty_id, help="Only this task.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="ID", callback=non_empty_id, help="Only this conversation.")
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="STORE", help="For operators: a store, instead of a URL.")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="NAME", help="With --store: whose data, as the audit trail names it."),
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", metavar="TENANT", help="With --store: the owner's tenant.")] = "",
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="ID", callback=non_empty_id, help="With --store: only this agent.")
    ] = None,
    token: Token = None,
    header: Headers = None,
    trust: TrustedOrigins = None,
    ca: Authorities = None,
    cert: Certificate = None,
    key: CertificateKey = None,
    allow_private: AllowPrivate = False,
    timeout: TimeoutSeconds = None,
) -> DataOptions:
    """Build the value from the options.

    Raises:
        BadParameter: they do not say whose data, or which.
    """
    if (task is not None) + (context is not None) + is_all != 1:
        raise typer.BadParameter("Say which data: one of --task, --context and --all.")
    if (url is None) == (store is None):
        raise typer.BadParameter("Give either the URL of an agent, or --store.")
    selection = Selection(agent, context, task)
    if url is not None:
        if owner is not None or tenant or agent is not None:
            raise typer.BadParameter("--owner, --tenant and --agent need --store: at a URL the data is your own.")
        options = client_options(url, token, header, trust, ca, cert, key, None, None, allow_private, timeout, None)
        return DataOptions(selection=selection, client=options)
    if owner is None:
        raise typer.BadParameter(
            "Say whose data it is: --owner NAME, or --owner '' for callers without authentication.",
            param_hint="--owner",
        )
    assert store is not None  # checked above
    return DataOptions(selection=selection, store=store, owner=Owner(tenant, owner))


WithDataOptions = Annotated[DataOptions, OptionGroup(data_options)]


def data_store(store: str) -> Store:
    """The store of an operator's command, to be opened: one that exists, and not one in memory.

    Raises:
        BadParameter: there is no such store.
    """
    try:
        if not is_postgres(store) and not (is_sqlite(store) and sqlite_path(store).is_file()):
            raise typer.BadParameter(f"There is no store at {store}.", param_hint="--store")
        return open_store(store)
    except StoreError as error:
        raise typer.BadParameter(str(error), param_hint="--store") from error
