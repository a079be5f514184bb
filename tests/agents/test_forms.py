"""Questions with forms: what answers are taken, what is asked again and with which words, and that restarts change
nothing."""

import asyncio
import dataclasses
from datetime import date
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from parley import Agent, Turn
from parley.agents.forms import MAX_ANSWER_BYTES, InvalidAnswerError, form_of
from parley.contents import parts_of
from parley.engine.limits import Limits
from parley.forms.schema_check import UnusableSchemaError
from parley.protocol.errors import LocalProtocolError
from parley.protocol.messages import DataPart, Message, Role, TextPart
from parley.protocol.tasks import TaskState
from tests.bounded import bounded

SCHEMA_TYPE = "application/schema+json"

Weeks = Annotated[int, msgspec.Meta(ge=1, le=4)]


class Color(IntEnum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Street:
    name: str


class LoanModel(pydantic.BaseModel):
    title: str
    weeks: Annotated[int, pydantic.Field(ge=1, le=4)] = 2
    due: date | None = None
    color: Color | None = None
    street: Street | None = None

    @pydantic.field_validator("title")
    @classmethod
    def is_no_secret(cls, title: str) -> str:
        if title == "secret":
            raise ValueError("this one is not lent")
        return title


class LoanStruct(msgspec.Struct):
    title: str
    weeks: Weeks = 2
    due: date | None = None
    color: Color | None = None
    street: Street | None = None

    def __post_init__(self) -> None:
        if self.title == "secret":
            raise ValueError("this one is not lent")


@dataclasses.dataclass
class LoanDataclass:
    title: str
    weeks: Weeks = 2
    due: date | None = None
    color: Color | None = None
    street: Street | None = None

    def __post_init__(self) -> None:
        if self.title == "secret":
            raise ValueError("this one is not lent")


LOANS = [LoanModel, LoanStruct, LoanDataclass]

SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "weeks": {"type": "integer", "maximum": 4}},
    "required": ["title"],
    "additionalProperties": False,
}


def answer(*contents: Any) -> Message:
    parts = tuple(TextPart(content) if isinstance(content, str) else DataPart(content) for content in contents)
    return Message("m", Role.USER, parts)


def refusal(form: Any, *contents: Any) -> str:
    with pytest.raises(InvalidAnswerError) as refused:
        form_of(form).read(answer(*contents))
    return str(refused.value)


# --- in a conversation ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.usefixtures("any_store")
async def test_a_wrong_answer_is_asked_again_with_the_reason_and_restarts_change_nothing() -> None:
    agent = Agent("Library")
    read: list[Any] = []

    @agent.on_message
    async def lend(turn: Turn) -> Any:
        loan = await turn.ask("Which book?", form=LoanStruct)
        name = await turn.ask("Your name?")
        read.append(loan)
        return f"{loan.title} for {loan.weeks} weeks, {name.text}"

    form = DataPart(form_of(LoanStruct).schema, SCHEMA_TYPE)
    async with bounded(agent) as client:
        task = await client.send("go")
        assert task.status.message.parts == (TextPart("Which book?"), form)
        await client.crash()
        await client.restart()
        task = await client.send({"title": 7, "weeks": 9}, task=task)
        why = "The answer is not valid: title: must be text; weeks: must be at most 4. Please answer again.\n"
        assert task.status.message.parts == (TextPart(why), TextPart("Which book?"), form)
        await client.crash()
        await client.restart()
        task = await client.send({"title": "Emma"}, task=task)
        assert task.status.message.text == "Your name?"
        assert client.text(await client.send("Ada", task=task)) == "Emma for 2 weeks, Ada"
    assert read == [LoanStruct("Emma")]


@pytest.mark.anyio
async def test_after_too_many_wrong_answers_the_task_fails_with_the_reason() -> None:
    agent = Agent("Library")

    @agent.on_message
    async def lend(turn: Turn) -> Any:
        return await turn.require_auth("Which book?", form=SCHEMA)

    async with bounded(agent, limits=Limits(form_answers=2)) as client:
        task = await client.send("go")
        task = await client.send("Emma, please", task=task)
        assert task.status.state is TaskState.AUTH_REQUIRED
        fields = "Send one JSON object with these fields: title (text), weeks (a whole number, optional)."
        assert task.status.message.text.startswith(f"{fields} Please answer again.\n")
        task = await client.send({"title": "Emma", "pages": 3}, task=task)
    assert task.status.state is TaskState.FAILED
    why = "There was no valid answer in 2 attempts. The answer is not valid: pages: is unknown."
    assert task.status.message.text == why


@pytest.mark.anyio
async def test_a_plain_function_gets_the_fields_of_a_schema() -> None:
    agent = Agent("Library")

    @agent.on_message
    def lend(turn: Turn) -> Any:
        return turn.wait(turn.ask("Which book?", form=SCHEMA))

    async with bounded(agent) as client:
        task = await client.send({"title": "Emma"}, task=await client.send("go"))
    assert task.artifacts[0].parts == (DataPart({"title": "Emma"}),)


# --- what is taken ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loan", LOANS)
def test_data_becomes_an_object_of_the_class(loan: Any) -> None:
    fields = {"title": "Emma", "due": "2026-11-16", "color": 2, "street": {"name": "Elm"}, "extra": [1]}
    read: Any = form_of(loan).read(answer(fields))
    assert isinstance(read, loan)
    assert (read.title, read.weeks, read.due, read.color) == ("Emma", 2, date(2026, 11, 16), Color.BLUE)
    assert read.street == Street("Elm")
    assert form_of(loan).read(answer("Here:", {"title": "Emma"})) == loan(title="Emma")
    assert parts_of(form_of(loan).read(answer({"title": "Emma"}))) == parts_of(loan(title="Emma"))
    assert form_of(loan).read(answer(' {"title": "Emma", "weeks": 3}\n')) == loan(title="Emma", weeks=3)


class LoanDict(TypedDict):
    title: str
    due: date


def test_a_typed_dict_and_a_schema_give_dicts() -> None:
    fields = {"title": "Emma", "due": "2026-11-16"}
    assert form_of(LoanDict).read(answer(fields)) == {"title": "Emma", "due": date(2026, 11, 16)}
    assert form_of(SCHEMA).read(answer({"title": "Emma"})) == {"title": "Emma"}
    assert form_of({"type": "object"}).read(answer(fields)) == fields


class Tree(msgspec.Struct):
    label: str
    below: list["Tree"] = []
    size: int = 0


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Many(msgspec.Struct):
    many: int


class Sure(pydantic.BaseModel):
    sure: bool = pydantic.Field(alias="isSure")


class OfSize(msgspec.Struct):
    size: Size | None


@dataclasses.dataclass
class Painted:
    color: Color


class When(msgspec.Struct):
    when: date


class Mixed(msgspec.Struct):
    value: int | str


class Note(msgspec.Struct):
    note: str = "none"


class Chosen(pydantic.BaseModel):
    meal: Literal["soup", "salad"]


class Tags(msgspec.Struct):
    tags: list[str]


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (Many, " 3 ", Many(3)),
        (Many, 3, Many(3)),
        (Many, 3.0, Many(3)),
        (Many, {"many": 3.0}, Many(3)),
        (Tree, {"label": "a", "below": [{"label": "b", "size": 2.0}]}, Tree("a", [Tree("b", size=2)])),
        (Sure, "Yes", Sure(isSure=True)),
        (Sure, "n", Sure(isSure=False)),
        (OfSize, "large", OfSize(Size.LARGE)),
        (OfSize, "L", OfSize(Size.LARGE)),
        (Painted, "blue", Painted(Color.BLUE)),
        (Painted, "2", Painted(Color.BLUE)),
        (When, "2026-11-16", When(date(2026, 11, 16))),
        (Mixed, "3", Mixed(3)),
        (Mixed, "three", Mixed("three")),
        (Note, "3", Note("3")),
        (Note, " ", Note()),
        (Chosen, "Soup", Chosen(meal="soup")),
        (Tags, '["a", "b"]', Tags(["a", "b"])),
        (Tags, '{"tags": ["a"]}', Tags(["a"])),
    ],
)
def test_a_text_is_taken_for_the_only_field(form: Any, text: Any, value: object) -> None:
    assert form_of(form).read(answer(text)) == value


# --- what is asked again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loan", LOANS)
def test_each_wrong_field_is_named_with_what_is_wrong(loan: Any) -> None:
    assert refusal(loan, {}) == "The answer is not valid: title: is missing."
    fields = {"title": None, "weeks": 0, "due": "tomorrow", "color": 3, "street": {"name": 4}}
    assert refusal(loan, fields) == (
        "The answer is not valid: color: must be one of: 1, 2; due: must be a date as YYYY-MM-DD; "
        "street.name: must be text; title: must be text; weeks: must be at least 1."
    )
    assert "this one is not lent" in refusal(loan, {"title": "secret"})


@pytest.mark.parametrize(
    ("form", "contents", "why"),
    [
        (Many, ["many"], "The answer is not valid: many: must be a whole number."),
        (Many, [""], "The answer is not valid: many: is missing."),
        (Many, [{"many": 10**400}, {}], "Send one JSON object with these fields: many (a whole number)."),
        (Painted, ["green"], "The answer is not valid: color: must be one of: 1, 2."),
        (Tags, ["a"], "The answer is not valid: tags: must be a JSON array."),
        (LoanStruct, [[1]], "Send one JSON object with these fields: "),
        (LoanStruct, ["{}}"], "Send one JSON object with these fields: "),
        (SCHEMA, [{"title": "Emma", "weeks": "2"}], "The answer is not valid: weeks: must be a whole number."),
        ({"properties": {"x": {"multipleOf": 0.5}}}, [{"x": 10**400}], "The answer is not valid: The answer has a num"),
        (SCHEMA, ["x" * (MAX_ANSWER_BYTES + 1)], "The answer has more than 256 KB."),
    ],
)
def test_anything_else_is_asked_again(form: Any, contents: list[Any], why: str) -> None:
    assert refusal(form, *contents).startswith(why)


@pytest.mark.anyio
async def test_a_large_answer_is_checked_without_holding_up_others() -> None:
    agent, loops = Agent("Lists"), []

    class Items(pydantic.BaseModel):
        items: list[int]

        @pydantic.field_validator("items")
        @classmethod
        def note(cls, items: list[int]) -> list[int]:
            loops.append(asyncio._get_running_loop())
            return items

    @agent.on_message
    async def count(turn: Turn) -> Any:
        distinct = await turn.ask("Which?", form={"properties": {"items": {"uniqueItems": True}}})
        return f"{len(distinct['items'])} and {len((await turn.ask('And?', form=Items)).items)}"

    async with bounded(agent) as client:
        task = await client.send({"items": [{"n": number} for number in range(18_000)]}, task=await client.send("go"))
        assert client.text(await client.send({"items": [7] * 80_000}, task=task)) == "18000 and 80000"
        task = await client.send({"items": [{}]}, task=await client.send("go"))
        assert client.text(await client.send({"items": [7]}, task=task)) == "1 and 1"
    assert [loop is None for loop in loops] == [True, False]


def test_the_words_of_a_refusal_are_bounded_and_safe() -> None:
    wide = {"title": "Emma", **{f"\x1b[2J\n{number}" + "x" * 2_000: 1 for number in range(50)}}
    assert len(why := refusal(SCHEMA, wide)) < 1_500
    assert "; and more." in why
    assert why.isprintable()
    long = {"properties": {"a": {"pattern": "y" * 5_000}, "b": {}}, "required": ["b"]}
    assert len(refusal(long, {"a": "x" * 200_000})) < 300
    many = {"properties": {f"field {number}": {"enum": ["x" * 500] * 50} for number in range(500)}}
    assert len(refusal(many, "text")) < 1_100


# --- mistakes of authors ----------------------------------------------------------------------------------------------


class NoFields:
    pass


class Untyped(msgspec.Struct):
    thing: NoFields


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (int, "int cannot be a form: it has no fields"),
        (NoFields, "NoFields cannot be a form: "),
        (Untyped, "Untyped cannot be a form: "),
        ({"type": "object", "title": object()}, "The schema of the form is not JSON: "),
        ({"type": "elephant"}, "The schema of the form cannot be used: 'elephant' is not valid"),
    ],
)
def test_what_cannot_be_a_form_is_the_authors_error(form: Any, why: str) -> None:
    with pytest.raises((LocalProtocolError, UnusableSchemaError)) as refused:
        form_of(form)
    assert str(refused.value).startswith(why)


def test_a_schema_that_leads_nowhere_is_found_with_the_first_answer() -> None:
    with pytest.raises(UnusableSchemaError, match="Unresolvable"):
        form_of({"properties": {"a": {"$ref": "https://example.com/a"}}}).read(answer({"a": 1}))


def test_a_class_that_contains_itself_keeps_its_definition() -> None:
    schema = form_of(Tree).schema
    assert list(schema["$defs"]) == ["Tree"]
    assert "street" not in form_of(Street).schema.get("$defs", {})
    assert form_of(Tree).read(answer({"label": "a", "below": [{"label": "b"}]})) == Tree("a", [Tree("b")])
    assert refusal(Tree, {"label": "a", "below": [{}]}) == "The answer is not valid: below[0].label: is missing."


class OwnSchema(pydantic.BaseModel):
    size: Literal["small", "large"]

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        return {"properties": {"size": {"$ref": "https://example.com/size"}}}


def test_a_class_explains_itself_if_its_schema_cannot() -> None:
    assert refusal(OwnSchema, {"size": "huge"}).startswith("The answer is not valid: size: Input should be 'small'")

    class Shade(Enum):
        DARK = 1

    class Local(pydantic.BaseModel):
        shade: "Shade"

    assert form_of(Local).read(answer({"shade": 1})) == Local(shade=Shade.DARK)
    assert refusal({"properties": {"a": {"const": 3}, "b": {"uniqueItems": True}}}, {"a": 4, "b": [1, 1]}) == (
        "The answer is not valid: a: must be 3; b: must not have the same item twice."
    )
    choice = {"properties": {"a": {"anyOf": [{"type": "integer"}, {"required": ["x"]}]}}}
    assert refusal(choice, {"a": {}}) == "The answer is not valid: a.x: is missing."
    assert refusal(Mixed, {"value": []}) == "The answer is not valid: value: must be a whole number or text."
    dates = {"properties": {"at": {"format": "date-time"}, "by": {"format": "date-time"}}}
    why = "The answer is not valid: by: must be a date and time as YYYY-MM-DDTHH:MM:SSZ."
    assert refusal(dates, {"at": "2026-11-16T22:30:00Z", "by": "today"}) == why
