"""What `parley up` does when the host has started: it creates the first tenant, and says what there is.

People get an announcement, with new tokens in it. Programs get fields of the log, without tokens.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext

from rich.console import Console

from parley.cli.options.host import HostOptions
from parley.cli.options.runtime import RuntimeOptions
from parley.cli.options.server import ServerOptions
from parley.cli.output.store_text import store_text
from parley.cli.serving.console_setup import is_local
from parley.cli.serving.host_announcement import HostAnnouncement
from parley.cli.serving.host_tokens import AdminToken, TenantTokenFile
from parley.host.data.tenant import Tenant
from parley.host.host import Host
from parley.host.models.builtin.table import BUILTIN_MODELS
from parley.server.run import Bound

FIRST_TENANT = "default"

logger = logging.getLogger(__name__)


class HostStart:
    """The start of a host."""

    def __init__(
        self,
        host: Host,
        options: HostOptions,
        *,
        server: ServerOptions,
        runtime: RuntimeOptions,
        admin: AdminToken,
        token_file: TenantTokenFile | None,
        has_metrics: bool,
        has_console: bool = False,
    ) -> None:
        self._host = host
        self._options = options
        self._server = server
        self._runtime = runtime
        self._admin = admin
        self._token_file = token_file
        self._has_metrics = has_metrics
        self._has_console = has_console
        self._new_token: str | None = None
        self._console_code: str | None = None

    async def create_first_tenant(self) -> None:
        """Create a tenant if there is none, and warn of what is missing.

        The tenant's token is written to the file, if there is one, and never logged.

        Raises:
            OSError: the file cannot be written. Then no tenant was created.
        """
        if not self._host.tenants.list():
            with self._token_file.opened() if self._token_file is not None else nullcontext() as writing:
                tenant, self._new_token = await self._host.create_tenant(FIRST_TENANT)
                if writing is not None:
                    writing.write(f"{self._new_token}\n")
            logger.info("Created the tenant %s", tenant.name, extra={"tenant": tenant.id})
            await self._host.name_useless_grants()
        known = {tenant.id for tenant in self._host.tenants.list()}
        for one in self._options.agents:
            if one.tenant_id is not None and one.tenant_id not in known:
                logger.warning("There is no tenant %s yet, which %s is for", one.tenant_id, one.target)
        if self._admin.is_for_this_process and self._server.log_format == "json":
            logger.warning("The admin API is out of reach. Set PARLEY_ADMIN_TOKEN, or a file with --admin-token-file")

    async def create_console_link(self) -> None:
        """Create a link for the announcement that opens the console: on loopback, and only for people."""
        tenant = self._shown_tenant()
        if not self._has_console or self._server.log_format == "json" or not is_local(self._server) or tenant is None:
            return
        from parley.console.once_links import OnceLinks

        self._console_code = await OnceLinks(self._host.store.records, self._host.clock).create(tenant.id)

    def _shown_tenant(self) -> Tenant | None:
        """The tenant for the lines to paste: that of the token in the file, or the first that is not disabled."""
        return self._token_owner() or next((one for one in self._host.tenants.list() if not one.disabled), None)

    def _token_owner(self) -> Tenant | None:
        kept = self._token_file.read() if self._token_file is not None else None
        return self._host.tenants.find_by_token(kept) if kept is not None else None

    def log_fields(self) -> dict[str, object]:
        """What the announcement says, for programs. No name has the word token, because the log hides such values."""
        return {
            "agents": [one.agent.id for one in self._host.settings.given_agents],
            "public_url": self._server.public_url,
            "store": store_text(self._runtime.store),
            "model": self._host.models.default_model(),
            "model_is_built_in": self._is_built_in,
            "admin_file": None if self._admin.file is None else str(self._admin.file),
            "metrics": self._has_metrics,
            "console": self._has_console,
        }

    @property
    def _is_built_in(self) -> bool:
        return self._host.models.default_model() in BUILTIN_MODELS

    def announce(self, bound: Bound, console: Console) -> None:
        """Print what there is."""
        tenants = self._host.tenants.list()
        owner, tenant = self._token_owner(), self._shown_tenant()
        agents = self._host.catalogue.agents(tenant.id) if tenant is not None else ()
        HostAnnouncement(
            bound=bound,
            server=self._server,
            store=store_text(self._runtime.store),
            model=self._host.models.default_model(),
            is_built_in=self._is_built_in,
            has_metrics=self._has_metrics,
            admin=self._admin,
            tenant=tenant,
            tenant_count=len(tenants),
            new_token=self._new_token,
            token_file=self._token_file.path if self._token_file is not None and owner is not None else None,
            agents=frozenset(agent.id for agent in agents),
            has_console=self._has_console,
            console_code=self._console_code,
        ).show(console)
