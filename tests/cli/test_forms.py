"""Forms and downloads: what agents may put into them, and what becomes of it."""

from pathlib import Path

import pytest

from parley.cli.input.forms import AnswerError, Field, form_of
from parley.cli.output.downloads import Downloads, safe_name
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart, Message, RawPart, Role, TextPart


def question(*schemas: JsonValue, media_type: str | None = None) -> Message:
    return Message("m", Role.AGENT, (TextPart("?"), *(DataPart(schema, media_type) for schema in schemas)))


def field(kind: str, **options: object) -> Field:
    return Field(name="x", title="X", kind=kind, **{"is_required": True, **options})  # type: ignore[arg-type]


def test_a_schema_becomes_fields() -> None:
    schema: JsonValue = {
        "properties": {
            "a": {"type": "integer", "description": "How many"},
            "b": {"type": ["null"], "enum": [1, "two"], "default": "two"},
            "c": "anything",
        },
        "required": ["a"],
    }
    assert form_of(question("no", schema, media_type="application/schema+json")) == [
        Field(name="a", title="How many", kind="integer", is_required=True),
        Field(name="b", title="b", kind="string", is_required=False, choices=(1, "two"), default="two"),
        Field(name="c", title="c", kind="string", is_required=False),
    ]


def test_what_pydantic_writes_for_optional_values_and_enumerations_is_understood() -> None:
    schema: JsonValue = {
        "$defs": {
            "Seat": {"enum": ["aisle", "window"], "title": "Seat", "type": "string"},
            "Loop": {"$ref": "#/$defs/Loop"},
        },
        "properties": {
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Days"},
            "seat": {"$ref": "#/$defs/Seat"},
            "other": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Seat"}], "title": "Other seat"},
            "meal": {"oneOf": [{"const": "soup"}, {"const": "salad"}]},
            "loop": {"$ref": "#/$defs/Loop"},
            "lost": {"$ref": "#/nowhere/at/all"},
        },
        "required": ["seat"],
        "type": "object",
    }
    seats = ("aisle", "window")
    assert form_of(question(schema)) == [
        Field(name="days", title="Days", kind="integer", is_required=False),
        Field(name="seat", title="Seat", kind="string", is_required=True, choices=seats),
        Field(name="other", title="Other seat", kind="string", is_required=False, choices=seats),
        Field(name="meal", title="meal", kind="string", is_required=False, choices=("soup", "salad")),
        Field(name="loop", title="loop", kind="string", is_required=False),
        Field(name="lost", title="lost", kind="string", is_required=False),
    ]


@pytest.mark.parametrize("data", [None, [], {}, {"properties": []}, {"properties": {}}, {"properties": {"a": {}}}])
def test_other_data_is_no_form(data: JsonValue) -> None:
    assert form_of(question(data)) is None
    assert form_of(None) is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", " a b ", "a b"),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("integer", "2", 2),
        ("boolean", "Y", True),
        ("boolean", "no", False),
        ("object", '{"a": null}', {"a": None}),
    ],
)
def test_what_is_typed_becomes_a_value(kind: str, text: str, value: JsonValue) -> None:
    assert field(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("string", " ", "This field is required."),
        ("integer", "1.5", "Invalid answer: '1.5'. Expected a whole number."),
        ("number", "true", "Invalid answer: 'true'. Expected a number."),
        ("number", "abc", "Invalid answer: 'abc'. Expected a number."),
        ("boolean", "maybe", "Invalid answer: 'maybe'. Expected yes or no."),
        ("array", "[", "Invalid JSON: '['."),
    ],
)
def test_what_does_not_fit_is_told(kind: str, text: str, words: str) -> None:
    with pytest.raises(AnswerError) as caught:
        field(kind).parse(text)
    assert str(caught.value) == words


def test_choices_that_are_no_texts_are_typed_as_json() -> None:
    assert field("string", choices=(1, None)).parse("1") == 1
    assert field("string", is_required=False).parse("") is None


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("report.pdf", "report.pdf"),
        ("../../.bashrc", "bashrc"),
        ("C:\\Windows\\evil.exe", "evil.exe"),
        ("a\x1b[2J\n.txt", "a_[2J_.txt".replace("[", "_")),
        ("-rf", "rf"),
        ("…/..", "file.csv"),
        (None, "file.csv"),
        ("ä" * 200 + ".txt", "ä" * 58 + ".txt"),
        ("x" * 9 + "." + "y" * 119, "y" * 119),
    ],
)
def test_a_files_name_cannot_lead_anywhere(name: str | None, saved: str) -> None:
    assert safe_name(RawPart(b"", "text/csv", name)) == saved


def test_a_file_of_no_known_type_has_a_name_all_the_same() -> None:
    assert safe_name(RawPart(b"")) == "file.bin"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "note.txt").symlink_to(tmp_path / "precious")
    saved = Downloads(tmp_path).save(RawPart(b"x", "text/plain", "note.txt"))
    assert (saved.name, (tmp_path / "precious").exists()) == ("note-2.txt", False)
