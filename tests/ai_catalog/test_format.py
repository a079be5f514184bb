"""The format itself: what is written is valid, what is read is checked, and names and searches mean what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey
from joserfc.jws import serialize_compact

from parley.ai_catalog.card_entries import agent_identifier
from parley.ai_catalog.decoding import MAX_PROBLEMS, InvalidCatalogError, decode_catalog
from parley.ai_catalog.documents import catalog_document
from parley.ai_catalog.encoding import encode_catalog
from parley.ai_catalog.model import (
    CARD_TYPE,
    CATALOG_TYPE,
    AiCatalog,
    AiCatalogEntry,
    AiCatalogHost,
    AiCatalogPublisher,
)
from parley.ai_catalog.names import (
    AmbiguousAgentNameError,
    UnknownAgentNameError,
    find_agent_entry,
    is_catalog_name,
    named_in_catalog,
    split_catalog_name,
)
from parley.ai_catalog.search import search, searched
from parley.ai_catalog.trust import is_vouched_for
from parley.protocol.errors import SignatureInvalidError
from tests.ai_catalog.schema import check_catalog

URN = "urn:air:example.com:agent:currency"


def entry(name: str = "currency", **members: Any) -> dict[str, Any]:
    """A valid entry as JSON."""
    found = {
        "identifier": f"urn:air:example.com:agent:{name}",
        "displayName": name.title(),
        "mediaType": CARD_TYPE,
        "url": f"https://agents.example/{name}/agent-card.json",
        **members,
    }
    return {name: value for name, value in found.items() if value is not None}


def catalog(*entries: Any, **members: Any) -> bytes:
    return msgspec.json.encode({"specVersion": "1.0", "entries": entries, **members})


def read(*entries: Any) -> tuple[list[str], tuple[str, ...]]:
    """The identifiers that were read, and what is wrong with the rest."""
    found = decode_catalog(catalog(*entries))
    return [one.identifier for one in found.catalog.entries], found.problems


def entries_of(*names: str) -> list[AiCatalogEntry]:
    return list(decode_catalog(catalog(*[entry(name) for name in names])).catalog.entries)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
NAMED = TEXT.filter(bool)
ENTRIES = st.builds(
    AiCatalogEntry,
    identifier=st.from_regex(r"urn:[a-z]{1,5}:[a-z0-9]{1,12}", fullmatch=True),
    display_name=NAMED,
    media_type=st.sampled_from([CARD_TYPE, CATALOG_TYPE, "application/x-other"]),
    url=st.just("https://agents.example/a.json"),
    description=TEXT,
    tags=st.lists(TEXT, max_size=3).map(tuple),
    version=st.none() | st.from_regex(r"[0-9]\.[0-9]", fullmatch=True),
    publisher=st.none() | st.builds(AiCatalogPublisher, identifier=NAMED, display_name=NAMED),
    metadata=st.dictionaries(TEXT, st.integers(-100, 100), max_size=2),
)


@given(st.lists(ENTRIES, max_size=4, unique_by=lambda one: (one.identifier, one.version)))
def test_what_is_written_is_valid_and_read_back_unchanged(entries: list[AiCatalogEntry]) -> None:
    written = AiCatalog(tuple(entries), AiCatalogHost("Example", "https://example.com"))
    body = encode_catalog(written)
    check_catalog(msgspec.json.decode(body))
    found = decode_catalog(body)
    assert (found.catalog, found.problems) == (written, ())


def test_inline_content_is_read_back_unchanged() -> None:
    data = b'{"name":"x","skills":[]}'
    written = AiCatalog((AiCatalogEntry(identifier=URN, display_name="X", media_type=CARD_TYPE, data=data),))
    check_catalog(msgspec.json.decode(encode_catalog(written)))
    assert decode_catalog(encode_catalog(written)).catalog == written


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"null", b"{", b"\xff\xfe", b"<html>", b"[" * 100_000, b'{"entries": []}', catalog(specVersion="2.0")],
)
def test_a_document_that_is_no_catalogue_is_an_error(document: bytes) -> None:
    with pytest.raises(InvalidCatalogError):
        decode_catalog(document)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (entry(identifier="not a uri"), "$.entries[1].identifier: It must be a URN or another URI"),
        (entry(identifier=None), "$.entries[1]: Object missing required field `identifier`"),
        (entry(mediaType=None), "$.entries[1].mediaType: The member is missing"),
        (entry("b", type="text/plain"), "$.entries[1].mediaType: It differs from `type`"),
        (entry("b", data={}), "$.entries[1]: It must have either `url` or `data`"),
        (entry("b", url=None), "$.entries[1]: It must have either `url` or `data`"),
        (entry("b", url="javascript:x"), "$.entries[1].url: Invalid URL"),
        (entry("b", tags="many"), "$.entries[1].tags"),
        (entry("b", trustManifest={"identity": URN}), "$.entries[1].trustManifest.identity: It is not the entry's id"),
        (entry("b", trustManifest={}), "$.entries[1].trustManifest.identity"),
        (entry("b", metadata={"x": [[]] * 50_000}), "$.entries[1].metadata: It has more than 65536 bytes"),
        (entry("b", metadata=[]), "$.entries[1].metadata: Expected"),
        (entry(), "$.entries[1].identifier: An entry before this one has the same identifier and version"),
        (7, "$.entries[1]: Expected `object`, got `int`"),
        ({"data": [[]] * 3}, "$.entries[1]"),
    ],
)
def test_an_entry_that_is_invalid_is_reported_and_left_out(wrong: Any, problem: str) -> None:
    found, problems = read(entry(), wrong, entry("last"))
    assert [identifier.rpartition(":")[2] for identifier in found] == ["currency", "last"]
    assert [one[: len(problem)] for one in problems] == [problem]


def test_entries_of_the_later_draft_and_of_unknown_types_are_read() -> None:
    later = entry("later", mediaType=None, displayName=None, type=CARD_TYPE)
    found = decode_catalog(catalog(later, entry("tool", mediaType="application/x-tool"))).catalog.entries
    assert [(one.display_name, one.is_agent) for one in found] == [("later", True), ("Tool", False)]


def test_problems_and_entries_are_bounded() -> None:
    found = decode_catalog(catalog(*[7] * 500, entry()), max_entries=400)
    assert found.problems[0] == "$.entries: Only the first 400 of 501 entries are read"
    assert (len(found.problems), found.problems[-1]) == (MAX_PROBLEMS, "and 302 more problems")


def test_a_trust_manifest_counts_only_with_a_key_of_the_reader() -> None:
    key, other = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")

    def signed(by: ECKey, **changed: Any) -> AiCatalogEntry:
        manifest = {"identity": URN, "attestations": [{"type": "x", "uri": "https://a.example"}]}
        whole = serialize_compact({"alg": "ES256", "kid": "k1"}, rfc8785.dumps(manifest), by)
        header, _, signature = whole.split(".")
        signed = {**manifest, "signature": f"{header}..{signature}", **changed}
        (found,) = decode_catalog(catalog(entry(trustManifest=signed))).catalog.entries
        return found

    assert is_vouched_for(signed(key), {"k1": key})
    assert not is_vouched_for(signed(key), {})
    assert not is_vouched_for(entries_of("a")[0], {"k1": key})
    for spoiled in (
        signed(other),
        signed(key, attestations=[]),
        signed(key, signature="a.b.c"),
        signed(key, signature=7),
    ):
        with pytest.raises(SignatureInvalidError):
            is_vouched_for(spoiled, {"k1": key})
    with pytest.raises(SignatureInvalidError, match="no key is known"):
        is_vouched_for(signed(key), {"k2": key})


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_name_means_an_identifier_or_its_end_or_what_people_see() -> None:
    entries = [
        *entries_of("currency", "units"),
        *decode_catalog(catalog(entry("x-1", displayName="Trip"))).catalog.entries,
    ]
    for name in (URN, "currency", "Currency", " currency "):
        assert find_agent_entry(entries, name).identifier == URN
    assert find_agent_entry(entries, "trip").name == "x-1"


def test_the_newest_version_of_an_agent_is_meant() -> None:
    versions = [entry(version=version) for version in ("1.9.0", "1.10.0", "1.2.0")]
    found = decode_catalog(catalog(*versions)).catalog.entries
    assert find_agent_entry(found, "currency").version == "1.10.0"


def test_a_name_that_is_absent_or_ambiguous_is_an_error_with_candidates() -> None:
    others = entry(identifier="urn:air:other.example:agent:currency")
    found = decode_catalog(catalog(entry(), others, entry("tool", mediaType="application/x-tool"))).catalog.entries
    with pytest.raises(
        AmbiguousAgentNameError, match=r"means several agents .*example\.com.*other\.example"
    ) as ambiguous:
        find_agent_entry(found, "currency")
    assert ambiguous.value.candidates == (URN, "urn:air:other.example:agent:currency")
    with pytest.raises(UnknownAgentNameError, match="called 'currenzy'; there are: currency"):
        find_agent_entry(found, "currenzy")
    with pytest.raises(UnknownAgentNameError):
        find_agent_entry(found, "tool")  # which is not an agent
    with pytest.raises(UnknownAgentNameError, match="it lists no agents"):
        find_agent_entry([], "currency")


def test_urls_and_hosts_are_not_names() -> None:
    assert [
        text
        for text in ("currency", "urn:x:y", "my agent", "localhost", "a.example", "h:80", "https://a", "")
        if is_catalog_name(text)
    ] == [
        "currency",
        "urn:x:y",
        "my agent",
    ]
    both = named_in_catalog("https://a.example/c.json?x=1", "urn:x:y")
    assert split_catalog_name(both) == ("https://a.example/c.json?x=1", "urn:x:y")
    assert split_catalog_name("https://a.example") is None


# --- search and pages -------------------------------------------------------------------------------------------------


def test_search_ranks_names_before_skills_before_descriptions() -> None:
    entries = [
        *decode_catalog(
            catalog(
                entry("one", description="About the weather of other planets"),
                entry("two", tags=["weather"]),
                entry("weather"),
                entry("none"),
            )
        ).catalog.entries
    ]
    found = search([searched(one) for one in entries], text="weather")
    assert [one.name for one in found] == ["weather", "two", "one"]
    assert search([searched(one) for one in entries], text="weather planets")[0].name == "one"
    assert len(search([searched(one) for one in entries])) == 4
    assert search([searched(one) for one in entries], text="!?") == []


def test_pages_are_catalogues_and_their_tag_changes_with_them() -> None:
    entries, host = entries_of(*[f"a{number}" for number in range(5)]), AiCatalogHost("Example")
    url = "https://example.com/.well-known/ai-catalog.json"
    first = catalog_document(entries, host=host, url=url, page_entries=2)
    assert first is not None
    pages = decode_catalog(first.body).catalog.entries
    assert [page.url for page in pages] == [f"{url}?page={number}" for number in (1, 2, 3)]
    documents = [catalog_document(entries, host=host, url=url, page=page, page_entries=2) for page in range(-1, 5)]
    assert [None if one is None else len(decode_catalog(one.body).catalog.entries) for one in documents] == [
        *(None, 3, 2, 2, 1, None)
    ]
    again = catalog_document(entries[:4], host=host, url=url, page_entries=2)
    assert again is not None
    assert first.is_known(f'"x", W/{first.etag}')
    assert not again.is_known(first.etag)
    assert catalog_document(entries, host=host, url=url, page=1) is None  # all are in the first document


def test_identifiers_are_uris_whatever_the_host() -> None:
    assert agent_identifier("https://agents.example", "currency") == "urn:air:agents.example:agent:currency"
    assert agent_identifier("http://[::1]:8080", "x") == "urn:air:--1:agent:x"
