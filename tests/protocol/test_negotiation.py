"""What peers agree on: versions, extensions, media types, interfaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.cards import AgentCard, AgentExtension, AgentInterface, AgentSkill
from parley.protocol.errors import (
    ContentTypeNotSupportedError,
    ExtensionSupportRequiredError,
    VersionNotSupportedError,
)
from parley.protocol.messages import DataPart, Message, Part, RawPart, Role, TextPart, UrlPart
from parley.protocol.negotiation import (
    accepts,
    activate_extensions,
    check_input_modes,
    media_type_matches,
    read_extensions,
    read_version,
    version_of,
)
from parley.protocol.versions import Version

# --- versions ---


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.1", Version.V0_1),
        ("0.2.6", Version.V0_2),
        ("0.3", Version.V0_3),
        ("0.3.0", Version.V0_3),
        (" 1.0 ", Version.V1_0),
        ("1.0.1", Version.V1_0),
    ],
)
def test_a_version_is_its_major_and_minor_number(text: str, version: Version) -> None:
    assert read_version(text) is version


@pytest.mark.parametrize("text", [None, "", "  "])
def test_a_peer_that_names_no_version_has_said_nothing(text: str | None) -> None:
    assert read_version(text) is None


@pytest.mark.parametrize(
    "text", ["1", "v1.0", "2.0", "1.7", "0.30", "01.0", "1.0.", "1.0.x", "1.0.0.0", "1.0, 1.0", "١.٠", "1.0\n2"]
)
def test_an_unknown_or_malformed_version_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(VersionNotSupportedError) as caught:
        read_version(text)
    assert str(caught.value) == f"Version {text!r} is not supported. Supported versions: 0.1, 0.2, 0.3, 1.0"
    assert caught.value.details == {"supportedVersions": "0.1, 0.2, 0.3, 1.0"}


@given(st.text())
def test_any_text_is_a_version_or_nothing_or_refused(text: str) -> None:
    try:
        version = read_version(text)
    except VersionNotSupportedError:
        return
    assert version is None or text.strip().startswith(version)


# --- extensions ---

GEO = AgentExtension("https://x.test/geo/v1", required=True)
CITE = AgentExtension("https://x.test/cite/v1")
SIGN = AgentExtension("https://x.test/sign/v1", required=True)


def test_extensions_are_read_from_several_headers_once_each_in_order() -> None:
    assert read_extensions(["b, a", " a ,, c", ""]) == ("b", "a", "c")
    assert read_extensions([]) == ()


def test_declared_and_requested_extensions_are_active_in_the_cards_order() -> None:
    requested = (CITE.uri, "https://unknown.test", GEO.uri)
    assert activate_extensions((GEO, CITE), requested) == (GEO.uri, CITE.uri)
    assert activate_extensions((CITE,), ()) == ()


def test_another_version_of_an_extension_does_not_stand_in_for_it() -> None:
    assert activate_extensions((CITE,), ["https://x.test/cite/v2"]) == ()


def test_every_required_extension_that_was_not_requested_is_named() -> None:
    with pytest.raises(ExtensionSupportRequiredError) as caught:
        activate_extensions((GEO, CITE, SIGN), iter([CITE.uri]))
    assert caught.value.details == {"extensions": f"{GEO.uri}, {SIGN.uri}"}
    assert GEO.uri in str(caught.value)
    assert SIGN.uri in str(caught.value)


# --- media types ---


@pytest.mark.parametrize(
    ("pattern", "media_type"),
    [
        ("text/plain", "text/plain"),
        ("TEXT/Plain", "text/plain; charset=utf-8"),
        ("text/plain;charset=utf-8", "text/plain"),
        ("text/*", "text/markdown"),
        ("*/*", "image/png"),
        ("*", "image/png"),
        ("text", "text/plain"),
        ("data", "application/json"),
        ("file", "application/pdf"),
        ("image", "image/png"),
    ],
)
def test_a_media_type_fits_a_pattern(pattern: str, media_type: str) -> None:
    assert media_type_matches(pattern, media_type)


@pytest.mark.parametrize(
    ("pattern", "media_type"),
    [
        ("text/plain", "text/markdown"),
        ("text/*", "image/png"),
        ("text", "text/markdown"),
        ("data", "text/plain"),
        ("image/png", "image"),
        ("application/json", "application/vnd.geo+json"),
        ("", "text/plain"),
    ],
)
def test_a_media_type_does_not_fit_another_pattern(pattern: str, media_type: str) -> None:
    assert not media_type_matches(pattern, media_type)


def test_a_list_of_patterns_accepts_what_any_of_them_fits_and_an_empty_one_everything() -> None:
    assert accepts(["image/*", "text/plain"], "text/plain")
    assert not accepts(["image/*", "text/plain"], "audio/wav")
    assert accepts([], "audio/wav")


def card_taking(*modes: str, skill_modes: tuple[str, ...] = ()) -> AgentCard:
    skill = AgentSkill("s", "Skill", "Does it.", input_modes=skill_modes)
    return AgentCard("Agent", "An agent.", "1", (), default_input_modes=modes, skills=(skill,))


def message_of(*parts: Part) -> Message:
    return Message("m", Role.USER, parts)


@pytest.mark.parametrize(
    "card",
    [
        card_taking("text/plain"),
        card_taking("text"),
        card_taking("image/png", skill_modes=("text/*",)),
        card_taking(),
    ],
)
def test_plain_text_is_taken_by_an_agent_that_takes_text(card: AgentCard) -> None:
    check_input_modes(message_of(TextPart("hello")), card)


def test_plain_text_is_refused_by_an_agent_that_takes_images_only() -> None:
    with pytest.raises(ContentTypeNotSupportedError) as caught:
        check_input_modes(
            message_of(TextPart("hello")), card_taking("image/png", skill_modes=("image/png", "image/gif"))
        )
    assert (
        caught.value.message == "The agent does not accept text without a media type; it accepts image/png, image/gif"
    )
    assert caught.value.path == "$.message.parts[0].mediaType"
    assert caught.value.details == {"mediaType": "text/plain", "accepted": "image/png, image/gif"}


@pytest.mark.parametrize("mode", ["text/markdown", "TEXT/HTML; charset=utf-8", "text/*", "*/*", "text", "file"])
def test_text_that_states_no_media_type_fits_any_kind_of_text(mode: str) -> None:
    check_input_modes(message_of(TextPart("hello")), card_taking("image/png", mode))


@pytest.mark.parametrize("mode", ["application/json", "application/ld+json", "Application/*", "*/*", "data"])
def test_data_that_states_no_media_type_fits_any_kind_of_json(mode: str) -> None:
    check_input_modes(message_of(DataPart({})), card_taking("image/png", mode))


@pytest.mark.parametrize(
    ("part", "mode"),
    [
        (TextPart("x"), "application/json"),
        (DataPart({}), "application/xml"),
        (DataPart({}), "text/plain"),
        (TextPart("x", media_type="text/markdown"), "text/plain"),
        (DataPart({}, media_type="application/json"), "application/ld+json"),
    ],
)
def test_what_an_agent_does_not_take_is_refused_stated_or_not(part: Part, mode: str) -> None:
    with pytest.raises(ContentTypeNotSupportedError):
        check_input_modes(message_of(part), card_taking(mode))


def test_a_version_of_any_length_is_not_quoted_whole() -> None:
    with pytest.raises(VersionNotSupportedError, match=r"Supported versions: 0\.1, 0\.2, 0\.3, 1\.0"):
        read_version("9" * 10_000)


@pytest.mark.parametrize(
    "part",
    [
        TextPart("# hi", media_type="text/markdown"),
        DataPart({"a": 1}),
        DataPart("<a/>", media_type="text/xml"),
        RawPart(b"%PDF", media_type="application/pdf"),
        UrlPart("https://x.test/a.png", media_type="image/png"),
    ],
)
def test_the_part_that_is_not_taken_is_named_by_its_place(part: Part) -> None:
    with pytest.raises(ContentTypeNotSupportedError) as caught:
        check_input_modes(message_of(TextPart("look:"), part), card_taking("text/plain"))
    assert caught.value.path == "$.message.parts[1].mediaType"


def test_a_file_that_states_no_media_type_could_be_anything_and_is_let_through() -> None:
    check_input_modes(message_of(RawPart(b"?"), UrlPart("https://x.test/a")), card_taking("image/png"))


# --- interfaces ---


def test_the_version_of_an_interface_is_known_or_not() -> None:
    assert version_of(AgentInterface("https://x.test/rest", "HTTP+JSON", "0.3.0")) is Version.V0_3
    assert version_of(AgentInterface("https://x.test/rpc2", "JSONRPC", "2.0")) is None
