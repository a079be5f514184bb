"""`parley mcp`: serves A2A agents as tools and resources of MCP, over standard input and output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.options.client import ClientOptions, WithClientOptions, agent_url
from parley.cli.options.groups import with_option_groups
from parley.cli.output.exit_codes import DONE, fail, run

if TYPE_CHECKING:
    from parley.client.client import Client
    from parley.client.transports.connections import Connections

INSTALL_MCP = "pip install 'parley-a2a[mcp]'"

EXIT_CODES = """\b
Exit codes:
  0    the client has closed the connection
  1    the agent refuses, or what it answers is not A2A
  2    invalid arguments, or MCP is not installed
  3    the agent is unreachable, has no card, or its address is forbidden
  130  interrupted by Ctrl+C
"""


@with_option_groups
def mcp(
    options: WithClientOptions,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="MORE", help="More agents; credentials go to the first one's origin."),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve http://127.0.0.1:PORT/mcp instead of standard input.",
        ),
    ] = None,
) -> None:
    """Serve A2A agents as tools and resources of MCP, over standard input and output.

    Each agent is a tool, and each card a resource. The URL of a Parley host means all agents of the
    token's tenant. An MCP client starts this command itself; its configuration looks like this:

    \b
      {"mcpServers": {"currency": {
        "command": "parley",
        "args": ["mcp", "https://agents.example.com/currency"],
        "env": {"PARLEY_TOKEN": "…"}}}}

    \b
    Examples:
      parley mcp http://127.0.0.1:8080
      parley mcp https://agents.example.com/currency --token $TOKEN
      parley mcp localhost:8080 localhost:9000 --http 7000
    """
    if find_spec("mcp") is None:
        fail(f"MCP is not installed. {INSTALL_MCP}", code=2)
    agents = _Agents(options)
    run(agents.serve([options.url, *map(agent_url, more or ())], http), as_json=False, options=options)


@dataclass(frozen=True, slots=True)
class _Agents:
    """How the agents are called."""

    options: ClientOptions

    async def serve(self, urls: Sequence[str], port: int | None) -> int:
        from parley.mcp.remote_agents import AgentsAtUrls
        from parley.mcp.serving import serve_http, serve_stdio

        async with AgentsAtUrls(urls, self) as agents:
            await (serve_stdio(agents) if port is None else serve_http(agents, port))
        return DONE

    def client(self, url: str) -> Client:
        """A client of the agent at a URL. Only the origin of the first URL gets the secrets of the command line."""
        from parley.client.credentials.origins import origin_of

        options = replace(self.options, url=url)
        if origin_of(options.named_url) not in (origin_of(self.options.named_url), *self.options.trusted):
            options = replace(options, token=None, headers=())
        return options.client()

    def connections(self) -> Connections:
        """Connections for what is not A2A."""
        from parley.client.transports.connections import Connections

        return Connections(timeouts=self.options.timeouts(), guard=self.options.guard(), tls=self.options.tls)
