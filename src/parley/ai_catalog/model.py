"""What an AI Catalog holds: entries, each with the type of an artifact and its URL or its content.

Names are those of the specification of 2026-04-30 (https://github.com/Agent-Card/ai-catalog). A later draft calls
`mediaType` `type`: `encoding` writes both, `decoding` reads either.
"""

from __future__ import annotations

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject

CATALOG_TYPE = "application/ai-catalog+json"
CARD_TYPE = "application/a2a-agent-card+json"
MCP_TYPE = "application/mcp-server-card+json"

WELL_KNOWN_PATH = "/.well-known/ai-catalog.json"
SPEC_VERSION = "1.0"

SKILLS_KEY = "skills"
"""The member of an entry's metadata in which Parley lists the ids of an agent's skills."""


class AiCatalogPublisher(Struct, frozen=True):
    """The organization that publishes an artifact."""

    identifier: str
    display_name: str


class AiCatalogHost(Struct, frozen=True, omit_defaults=True):
    """The operator of a catalogue."""

    display_name: str
    identifier: str | None = None
    documentation_url: str | None = None
    logo_url: str | None = None


class AiCatalogEntry(Struct, frozen=True, kw_only=True):
    """One artifact. It has a `url` or `data`, never both; `data` is the artifact itself, as JSON."""

    identifier: str
    display_name: str
    media_type: str
    url: str | None = None
    data: bytes | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    version: str | None = None
    updated_at: str | None = None
    publisher: AiCatalogPublisher | None = None
    metadata: JsonObject = {}
    trust_manifest: JsonObject | None = None

    @property
    def name(self) -> str:
        """The short name: the last segment of the identifier. `urn:air:example.com:agent:currency` → `currency`."""
        return last_segment(self.identifier)

    @property
    def is_agent(self) -> bool:
        """Whether it is an A2A agent, which can be called."""
        return self.media_type == CARD_TYPE

    @property
    def is_catalog(self) -> bool:
        """Whether it is another catalogue."""
        return self.media_type == CATALOG_TYPE

    @property
    def skills(self) -> tuple[str, ...]:
        """The ids of the agent's skills, if the entry names them."""
        listed = self.metadata.get(SKILLS_KEY)
        return tuple([skill for skill in listed if isinstance(skill, str)]) if isinstance(listed, list) else ()


class AiCatalog(Struct, frozen=True):
    """A whole catalogue."""

    entries: tuple[AiCatalogEntry, ...] = ()
    host: AiCatalogHost | None = None
    spec_version: str = SPEC_VERSION
    metadata: JsonObject = {}


def last_segment(identifier: str) -> str:
    """What follows the last colon or slash of an identifier; all of it if nothing does."""
    return identifier.replace("/", ":").rstrip(":").rpartition(":")[2] or identifier
