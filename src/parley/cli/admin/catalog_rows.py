"""Commands about registered agents, added catalogues, and which agents are public."""

from __future__ import annotations

from parley.cli.admin.command import AdminArgument, AdminCommand, AdminOption

AGENT = AdminArgument("id", "The agent's name.")
SOURCE = AdminArgument("id", "The catalogue's name.")
URL = AdminArgument("url", "Its URL.", "url")
NAME = AdminOption("name", "Its name, instead of that of its card or host.", metavar="NAME")
CREDENTIALS = AdminOption(
    "credentials", 'The token that it gets: {"token": "…"}, or @ and a file.', metavar="JSON", is_json=True
)

COMMANDS = (
    AdminCommand(
        words=("catalog", "list"),
        help="List the registered agents of a tenant.",
        example="catalog list --tenant 1",
        method="GET",
        path="/v1/catalog/agents",
        rows="agents",
        columns=("name", "url", "card.version", "health.state", "health.checked_at", "health.reason"),
    ),
    AdminCommand(
        words=("catalog", "register"),
        help="Register a remote agent: its card is checked, and watched from then on.",
        example="catalog register https://weather.example.com --name weather --tenant 1",
        method="POST",
        path="/v1/catalog/agents",
        arguments=(URL,),
        options=(
            NAME,
            AdminOption("description", "What it does, instead of what its card says."),
            CREDENTIALS,
            AdminOption(
                "signatures",
                'Which cards are accepted: {"mode": "required", "jwks": {…}}, or @ and a file.',
                metavar="JSON",
                is_json=True,
            ),
        ),
    ),
    AdminCommand(
        words=("catalog", "check"),
        help="Check a registered agent now.",
        example="catalog check weather --accept --tenant 1",
        method="POST",
        path="/v1/catalog/agents/{id}/check",
        arguments=(AGENT,),
        options=(AdminOption("accept", "Accept the card as it is now.", bool),),
    ),
    AdminCommand(
        words=("catalog", "unregister"),
        help="Remove a registered agent and its token.",
        example="catalog unregister weather --tenant 1",
        method="DELETE",
        path="/v1/catalog/agents/{id}",
        arguments=(AGENT,),
    ),
    AdminCommand(
        words=("catalog", "sources"),
        help="List the catalogues that a tenant has added.",
        example="catalog sources --tenant 1",
        method="GET",
        path="/v1/catalog/sources",
        rows="sources",
        columns=("name", "url", "entry_count", "is_complete", "health.state", "read_at"),
    ),
    AdminCommand(
        words=("catalog", "add"),
        help="Add a catalogue, whose agents are found from then on.",
        example="catalog add https://agents.example.com --name partners --tenant 1",
        method="POST",
        path="/v1/catalog/sources",
        arguments=(URL,),
        options=(NAME, CREDENTIALS),
    ),
    AdminCommand(
        words=("catalog", "refresh"),
        help="Read an added catalogue again now.",
        example="catalog refresh partners --tenant 1",
        method="POST",
        path="/v1/catalog/sources/{id}/check",
        arguments=(SOURCE,),
    ),
    AdminCommand(
        words=("catalog", "remove"),
        help="Remove an added catalogue.",
        example="catalog remove partners --tenant 1",
        method="DELETE",
        path="/v1/catalog/sources/{id}",
        arguments=(SOURCE,),
    ),
    AdminCommand(
        words=("catalog", "publish"),
        help="Make a stored agent public with --public, or private again with --no-public.",
        example="catalog publish scout --public --tenant 1",
        method="PUT",
        path="/v1/agents/{id}/public",
        arguments=(AGENT,),
        options=(AdminOption("public", "Whether it is public.", bool, is_required=True),),
    ),
)
