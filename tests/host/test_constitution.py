"""Constitutions: what is accepted, what is refused and where, and how they are shown."""

from __future__ import annotations

import pytest

from parley.host.constitution import (
    INDEX,
    Advisor,
    Constitution,
    Intent,
    InvalidConstitutionError,
    MemorySettings,
    is_agent_id,
    read_constitution,
    render,
)
from parley.protocol.jsonvalue import JsonObject, JsonValue

LEAST: JsonObject = {"id": "writer", "name": "Writer", "role": "author", "goal": "write well"}

FULL: JsonObject = {
    **LEAST,
    "model": "anthropic/claude-sonnet-5",
    "brevity": "ultra",
    "max_tokens": 256,
    "temperature": 1.5,
    "mode": "writer",
    "channel": "voice",
    "personality": "dry",
    "advisor": {"model": "big", "prompt": "check", "mode": "gate", "max_redirects": 1, "malformed_halts": False},
    "advisor_model": "big",
    "rules": ["be brief"],
    "capabilities": ["/fetch", "research"],
    "intent": {"mode": "llm", "min_confidence": 0.5, "apply_routing": False, "model": "small"},
    "memory": {
        "search_expand": True,
        "auto_tag": True,
        "auto_supersede": True,
        "intent_routing": False,
        "age_decay": False,
        "age_half_life_days": 7,
        "age_floor": 0.25,
    },
    "event_types": ["order.*"],
    "examples": ["Draft a letter"],
}


def test_what_is_not_given_has_the_documented_defaults() -> None:
    assert read_constitution(LEAST) == Constitution(
        id="writer",
        name="Writer",
        role="author",
        goal="write well",
        personality="",
        brevity="full",
        max_tokens=1024,
        temperature=0.3,
        model="",
        mode="",
        channel="",
        advisor=None,
        advisor_model="",
        memory=MemorySettings(False, False, False, True, True, 90, 0.5),
        intent=Intent("off", 0.8, True, ""),
        rules=(),
        capabilities=(),
        event_types=(),
        examples=(),
    )


def test_everything_that_is_given_is_shown_again_with_its_times() -> None:
    assert render(read_constitution(FULL), 5, 7) == {**FULL, "created_at": 5, "updated_at": 7}
    assert list(render(read_constitution(LEAST))) == [
        *("id", "name", "role", "model", "goal", "brevity", "max_tokens", "temperature")
    ]


def test_the_master_has_the_documented_values_and_can_be_read_again() -> None:
    shown = render(INDEX)
    assert {
        name: shown.get(name) for name in ("id", "role", "model", "brevity", "max_tokens", "temperature", "mode")
    } == {
        "id": "index",
        "role": "orchestrator",
        "model": "",
        "brevity": "lite",
        "max_tokens": 2048,
        "temperature": 0.45,
        "mode": "conversational",
    }
    assert (INDEX.intent.mode, INDEX.capabilities, read_constitution(shown)) == ("hybrid", (), INDEX)


@pytest.mark.parametrize(
    ("member", "value", "path"),
    [
        ("temperature", 2.1, "$.temperature"),
        ("temperature", "hot", "$.temperature"),
        ("max_tokens", 0, "$.max_tokens"),
        ("max_tokens", 1_000_001, "$.max_tokens"),
        ("max_tokens", True, "$.max_tokens"),
        ("id", "a/b", "$.id"),
        ("id", "a\n", "$.id"),
        ("id", "x" * 65, "$.id"),
        ("id", 7, "$.id"),
        ("name", "", "$.name"),
        ("role", None, "$.role"),
        ("goal", " ", "$.goal"),
        ("name", "x" * 201, "$.name"),
        ("brevity", 3, "$.brevity"),
        ("mode", "poet", "$.mode"),
        ("rules", ["fine", 3], "$.rules[1]"),
        ("rules", ["x"] * 101, "$.rules"),
        ("capabilities", "/fetch", "$.capabilities"),
        ("advisor", 3, "$.advisor"),
        ("advisor", {"mode": "gate"}, "$.advisor.model"),
        ("advisor", {"model": "m", "mode": "always"}, "$.advisor.mode"),
        ("advisor_model", 3, "$.advisor_model"),
        ("memory", {"age_floor": 0}, "$.memory.age_floor"),
        ("memory", {"age_half_life_days": 0}, "$.memory.age_half_life_days"),
        ("intent", {"mode": "guess"}, "$.intent.mode"),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(member: str, value: JsonValue, path: str) -> None:
    with pytest.raises(InvalidConstitutionError) as refused:
        read_constitution({**LEAST, member: value})
    assert refused.value.path == path
    assert str(refused.value).startswith(f"{path}: ")


def test_the_id_may_come_from_a_url_and_must_agree_with_it() -> None:
    without: JsonObject = {name: value for name, value in LEAST.items() if name != "id"}
    assert read_constitution(without, id="writer") == read_constitution(LEAST, id="writer")
    with pytest.raises(InvalidConstitutionError, match=r"^\$\.id: differs"):
        read_constitution(LEAST, id="editor")
    with pytest.raises(InvalidConstitutionError, match=r"^\$\.id: is required"):
        read_constitution(without)


def test_an_id_is_a_word_that_urls_and_commands_can_hold() -> None:
    assert all(is_agent_id(text) for text in ("a", "A-b_9", "x" * 64))
    assert not any(is_agent_id(text) for text in ("", "a b", "a/b", "a\n", "é", "x" * 65))


def test_unknown_members_and_unknown_brevities_are_tolerated_as_documented() -> None:
    assert read_constitution({**LEAST, "brevity": "bullets", "presence": {"mode": "always_on"}}) == read_constitution(
        LEAST
    )


def test_a_confidence_beyond_its_range_becomes_the_nearest_one() -> None:
    assert read_constitution({**LEAST, "intent": {"min_confidence": 7}}).intent.min_confidence == 1.0
    assert read_constitution({**LEAST, "intent": {"min_confidence": -1}}).intent.min_confidence == 0.0


@pytest.mark.parametrize("given", [{"advisor": "big"}, {"advisor_model": "big"}, {"advisor": {"model": "big"}}])
def test_every_form_of_the_advisor_means_the_same(given: JsonObject) -> None:
    read = read_constitution({**LEAST, **given})
    assert (read.advisor, read.advisor_model) == (Advisor("big"), "big")


def test_the_advisor_wins_over_its_older_form() -> None:
    read = read_constitution({**LEAST, "advisor": {"model": "big"}, "advisor_model": "old"})
    assert (read.advisor, read.advisor_model) == (Advisor("big"), "big")
