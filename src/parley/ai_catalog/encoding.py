"""A catalogue as JSON. Members that are empty are left out.

An entry has its type twice: as `mediaType`, and as `type` for readers of the later draft.
"""

from __future__ import annotations

import msgspec

from parley.ai_catalog.model import AiCatalog, AiCatalogEntry, AiCatalogHost


def encode_catalog(catalog: AiCatalog) -> bytes:
    """The document of a catalogue."""
    document: dict[str, object] = {"specVersion": catalog.spec_version}
    if catalog.host is not None:
        document["host"] = _host(catalog.host)
    document["entries"] = [encode_entry(entry) for entry in catalog.entries]
    return msgspec.json.encode(document | _present(metadata=catalog.metadata))


def encode_entry(entry: AiCatalogEntry) -> dict[str, object]:
    """An entry as an object that msgspec can encode."""
    publisher = entry.publisher
    required = {
        "identifier": entry.identifier,
        "displayName": entry.display_name,
        "mediaType": entry.media_type,
        "type": entry.media_type,
    }
    content = {"url": entry.url} if entry.data is None else {"data": msgspec.Raw(entry.data)}
    optional = _present(
        description=entry.description,
        tags=entry.tags,
        version=entry.version,
        updatedAt=entry.updated_at,
        publisher=publisher and {"identifier": publisher.identifier, "displayName": publisher.display_name},
        metadata=entry.metadata,
        trustManifest=entry.trust_manifest,
    )
    return required | content | optional


def _host(host: AiCatalogHost) -> dict[str, object]:
    named: dict[str, object] = {"displayName": host.display_name}
    return named | _present(identifier=host.identifier, documentationUrl=host.documentation_url, logoUrl=host.logo_url)


def _present(**members: object) -> dict[str, object]:
    return {name: value for name, value in members.items() if value}
