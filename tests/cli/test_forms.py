"""Forms and downloads: what agents may put into them, and what becomes of it."""

import socket
from pathlib import Path

import pytest

from parley.cli.input.forms import describe, fill_in, sample
from parley.cli.output.downloads import Downloads, safe_name
from parley.forms.fields import AnswerError, Field, fields_of, form_in
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, Part, RawPart, TextPart


def question(*schemas: JsonValue, media_type: str | None = None) -> list[Part]:
    return [TextPart("?"), *(DataPart(schema, media_type) for schema in schemas)]


def shown_fields(*schemas: JsonValue, media_type: str | None = None) -> list[Field]:
    return fields_of(form_in(question(*schemas, media_type=media_type)) or {})


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
    assert shown_fields("no", schema, media_type="application/schema+json") == [
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
            "on": {"type": "string", "format": "date", "description": "Which day"},
            "class": {"const": 2, "title": "Class"},
            "meal": {"oneOf": [{"const": "soup"}, {"const": "salad"}]},
            "loop": {"$ref": "#/$defs/Loop"},
            "lost": {"$ref": "#/nowhere/at/all"},
        },
        "required": ["seat"],
        "type": "object",
    }
    seats = ("aisle", "window")
    assert shown_fields(schema) == [
        Field(name="days", title="Days", kind="integer", is_required=False),
        Field(name="seat", title="seat", kind="string", is_required=True, choices=seats),
        Field(name="other", title="Other seat", kind="string", is_required=False, choices=seats),
        Field(name="on", title="Which day", kind="string", is_required=False, format="date"),
        Field(name="class", title="Class", kind="string", is_required=False, choices=(2,)),
        Field(name="meal", title="meal", kind="string", is_required=False, choices=("soup", "salad")),
        Field(name="loop", title="loop", kind="string", is_required=False),
        Field(name="lost", title="lost", kind="string", is_required=False),
    ]


@pytest.mark.parametrize("data", [None, [], {}, {"properties": []}, {"properties": {}}, {"properties": {"a": {}}}])
def test_other_data_is_no_form(data: JsonValue) -> None:
    assert form_in(question(data)) is None


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


def filled(schema: JsonObject, *lines: str) -> tuple[JsonObject, list[str]]:
    errors: list[str] = []
    typed = iter(lines)
    return fill_in(schema, lambda prompt: next(typed), errors.append), errors


def test_a_form_is_checked_before_it_is_sent_field_by_field_and_as_a_whole() -> None:
    schema: JsonObject = {
        "properties": {"a.b": {"type": "integer", "minimum": 2}, "c": {"pattern": "^x"}, "d": {}},
        "required": ["a.b"],
        "dependentRequired": {"c": ["d"]},
    }
    assert filled(schema, "1", "2", "y", "x", "", "3", "", "") == (
        {"a.b": 3},
        [
            "a.b: must be at least 2.",
            "c: must match the pattern ^x.",
            "The form is not valid: breaks the rule `dependentRequired` of its schema. "
            "Fill it in again, or press Ctrl+C to cancel the task.",
        ],
    )


@pytest.mark.parametrize(
    "odd",
    [
        {"$ref": "https://127.0.0.1:1/schema"},
        {"$ref": "#/$defs/nowhere"},
        {"pattern": "("},
        {"type": 7, "enum": "x", "title": ["t"], "format": {}},
        {"minimum": "many"},
        {"anyOf": 3, "oneOf": [], "default": {"a": None}},
    ],
)
def test_a_schema_that_cannot_be_used_leaves_the_check_to_the_agent(odd: JsonObject) -> None:
    schema: JsonObject = {"$schema": [], "type": "object", "properties": {"x": odd, "\x1b[2J": True}}
    assert describe(schema).isprintable() is False  # of two lines
    assert "\x1b" not in describe(schema)
    assert sample(schema)
    value, errors = filled(schema, '"1"', "")
    assert ("x" in value, errors) == (True, [])
    assert filled({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"}, '"1"', "")[1] == []


def test_a_reference_to_another_document_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        socket.setdefaulttimeout(1)  # of the connection that there must not be
        try:
            assert filled({"properties": {"x": {"$ref": url}}}, "1") == ({"x": "1"}, [])
        finally:
            socket.setdefaulttimeout(None)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_very_long_form_is_described_in_part() -> None:
    schema: JsonObject = {"properties": {f"f{number}": {"enum": ["x" * 500] * 500} for number in range(5_000)}}
    assert len(shown := describe(schema).splitlines()) == 51
    assert shown[-1] == "  … and 4950 more"
    assert len(shown[0]) < 4_000
    assert sample(schema) == "JSON"


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
