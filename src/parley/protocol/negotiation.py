"""What two peers must agree on before they talk: version, extensions, media types, interface.

Each rule is a function of what one side declares and what the other side requests. It does not know where the values
come from: a header, a query parameter, gRPC metadata or a card. Versions are a closed set, never compared by size.
Spec: 1.0 sections 3.6 (versions), 4.6 (extensions), 8.3 (interfaces) and 3.3.2 (content types).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from parley.protocol.cards import AgentCard, AgentExtension, AgentInterface
from parley.protocol.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    VersionNotSupportedError,
)
from parley.protocol.messages import DataPart, Message, Part, TextPart
from parley.protocol.versions import Version, without_patch

_VERSIONS = {version.value: version for version in Version}

# 0.1 cards name the kind of part instead of a media type. "file" says nothing about the format, so it takes any.
_SHORT_MODES = {"text": "text/plain", "data": "application/json", "file": "*/*"}


def read_version(text: str | None) -> Version | None:
    """The version a peer names, or `None` if it names none: `"0.3.0"` → `Version.V0_3`, `" "` → `None`.

    Raises:
        VersionNotSupportedError: the text is not a version that Parley supports.
    """
    text = (text or "").strip()
    if not text:
        return None
    version = _VERSIONS.get(text) or _VERSIONS.get(without_patch(text))
    if version is not None:
        return version
    known = ", ".join(_VERSIONS)
    raise VersionNotSupportedError(
        f"Version {text[:50]!r} is not supported. Supported versions: {known}", details={"supportedVersions": known}
    )


def read_extensions(values: Iterable[str]) -> tuple[str, ...]:
    """The extension URIs in comma-separated values, each once: `["a, b", "b,c"]` → `("a", "b", "c")`."""
    uris = (uri.strip() for value in values for uri in value.split(","))
    return tuple(dict.fromkeys(uri for uri in uris if uri))


def activate_extensions(declared: Sequence[AgentExtension], requested: Iterable[str]) -> tuple[str, ...]:
    """The declared extensions that the caller requested, in the card's order; unknown requests are ignored.

    Raises:
        ExtensionSupportRequiredError: a required extension was not requested.
    """
    wanted = set(requested)
    missing = [extension.uri for extension in declared if extension.required and extension.uri not in wanted]
    if missing:
        uris = ", ".join(missing)
        raise ExtensionSupportRequiredError(
            f"The agent requires extensions that the request does not activate: {uris}", details={"extensions": uris}
        )
    return tuple(extension.uri for extension in declared if extension.uri in wanted)


def media_type_matches(pattern: str, media_type: str) -> bool:
    """Whether a media type matches a pattern such as `text/plain`, `text/*` or `*/*`, ignoring case and parameters.

    A pattern without a slash is a short form: `text`, `data` and `file` as 0.1 has them, else all of that type
    (`image` = `image/*`).
    """
    wanted_type, wanted_subtype = _type_and_subtype(pattern)
    given_type, given_subtype = _type_and_subtype(media_type)
    return wanted_type in ("*", given_type) and wanted_subtype in ("*", given_subtype)


def _type_and_subtype(media_type: str) -> tuple[str, str]:
    name = media_type.partition(";")[0].strip().lower()
    main, _, subtype = _SHORT_MODES.get(name, name).partition("/")
    return main, subtype or "*"


def accepts(patterns: Collection[str], media_type: str) -> bool:
    """Whether any of the patterns matches; an empty list accepts everything."""
    return not patterns or any(media_type_matches(pattern, media_type) for pattern in patterns)


def accepts_part(patterns: Collection[str], part: Part) -> bool:
    """Whether any of the patterns matches a part; an empty list accepts everything.

    A part that states no media type is taken leniently: text fits any kind of text, data any kind of JSON, and a file
    could be anything.
    """
    if part.media_type:
        return accepts(patterns, part.media_type)
    match part:
        case TextPart():
            return not patterns or any(_type_and_subtype(pattern)[0] in ("*", "text") for pattern in patterns)
        case DataPart():
            is_json = any(_type_and_subtype(pattern)[1].endswith("+json") for pattern in patterns)
            return is_json or accepts(patterns, _IMPLIED["data"])
        case _:
            return True


# The media type that the details of an error give for a part without one.
_IMPLIED = {"text": "text/plain", "data": "application/json"}


def check_input_modes(message: Message, card: AgentCard) -> None:
    """Refuse a message with a part that neither the agent nor any of its skills accepts.

    Raises:
        ContentTypeNotSupportedError: `path` names the first such part.
    """
    skill_modes = (mode for skill in card.skills for mode in skill.input_modes)
    modes = tuple(dict.fromkeys((*card.default_input_modes, *skill_modes)))
    for index, part in enumerate(message.parts):
        if accepts_part(modes, part):
            continue
        kind = "text" if isinstance(part, TextPart) else "data"
        accepted = ", ".join(modes)
        raise ContentTypeNotSupportedError(
            f"The agent does not accept {part.media_type or f'{kind} without a media type'}; it accepts {accepted}",
            path=f"$.message.parts[{index}].mediaType",
            details={"mediaType": part.media_type or _IMPLIED[kind], "accepted": accepted},
        )


def version_of(interface: AgentInterface) -> Version | None:
    """The version of an interface, or `None` if Parley does not support it."""
    try:
        return read_version(interface.version)
    except VersionNotSupportedError:
        return None
