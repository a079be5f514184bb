"""The options that say who may call a server, for commands whose callers an auth file lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.groups import OptionGroup
from parley.cli.options.server import UsageError
from parley.cli.output.help_text import Section

if TYPE_CHECKING:
    from parley.server.run import Serving
    from parley.server.security.authentication import Security


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Who may call."""

    auth: Path | None
    allow_anonymous: bool

    def security(self, serving: Serving) -> Security | None:
        """How callers authenticate; None if everyone may call.

        Raises:
            UsageError, ValueError: the file is not valid, or conflicts with other options.
        """
        file = self.auth
        if file is None:
            return None
        from parley.server.security.reloading import ReloadableSecurity

        return ReloadableSecurity(lambda: self._load(file, serving))

    @staticmethod
    def _load(file: Path, serving: Serving) -> Security:
        from parley.protocol.cards import MutualTlsScheme
        from parley.server.security.auth_file import load_security

        security = load_security(file)
        asks_for_certificates = serving.tls is not None and serving.tls.client_authority is not None
        for name, scheme in security.schemes.items():
            if isinstance(scheme, MutualTlsScheme) and not asks_for_certificates:
                raise UsageError(
                    f"{file}: the scheme {name} needs client certificates, which --tls-client-ca asks for."
                )
        return security

    def applied_to(self, serving: Serving) -> Serving:
        """The settings of the server, with whether other machines may call it without credentials."""
        return replace(serving, allow_anonymous=self.allow_anonymous)


_security = partial(typer.Option, rich_help_panel=Section.SECURITY)


def access_options(
    auth: Annotated[Path | None, _security(metavar="FILE", help="Who may call: a TOML file. See parley token.")] = None,
    allow_anonymous: Annotated[bool, _security(help="Accept calls from other machines without credentials.")] = False,
) -> AccessOptions:
    """Build the value from the options."""
    return AccessOptions(auth, allow_anonymous)


WithAccessOptions = Annotated[AccessOptions, OptionGroup(access_options)]
