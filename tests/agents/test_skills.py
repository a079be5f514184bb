"""Skills: who may use them, and which card shows them."""

import asyncio

import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.protocol.cards import AgentExtension
from parley.protocol.errors import InvalidParamsError, PermissionDeniedError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import TaskState
from tests.bounded import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]

CLERK = Caller("clerk", scopes=frozenset({"read"}))
BOSS = Caller("boss", scopes=frozenset({"read", "write", "sign"}))


def office() -> Agent:
    agent = Agent("Office")

    @agent.skill(scopes=["read"])
    async def look(turn: Turn) -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    @agent.skill(scopes=["write", "read", "sign"], public=False)
    async def pay(turn: Turn) -> str:  # pyright: ignore[reportUnusedFunction]
        answer = await turn.ask("How much?")
        while answer.text == "wait" and len(turn.history) < 3:
            await asyncio.sleep(0)
        return f"paid {answer.text}"

    return agent


async def test_a_skill_is_for_those_who_have_all_its_scopes() -> None:
    async with bounded(office(), caller=CLERK) as client:
        assert client.text(await client.send("go", metadata={"skillId": "look"})) == "seen"
        with pytest.raises(PermissionDeniedError) as refusal:
            await client.send("go", metadata={"skillId": "pay"})
        assert refusal.value.message == "This needs the scope write, sign"
        assert refusal.value.details == {"scopes": "write, sign"}
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset()).send("go", metadata={"skillId": "look"})


async def test_an_answer_needs_the_scopes_of_the_skill_that_asked_and_need_not_name_it() -> None:
    """Also while the task is at work, which is the caller's own whatever its scopes."""
    async with bounded(office(), caller=BOSS) as client:
        asked = await client.send("go", metadata={"skillId": "pay"})
        assert asked.status.state is TaskState.INPUT_REQUIRED
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset({"read"})).send("100", task=asked)
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset({"read"})).send("100", task=asked, metadata={"skillId": "look"})
        await client.start("wait", task=asked)
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset({"read"})).send("100", task=asked)
        assert client.text(await client.send("go on", task=asked)) == "paid wait"


async def test_a_caller_that_names_its_task_needs_the_scopes_too() -> None:
    """Only 0.1 lets callers choose the id of a task that does not exist yet."""
    async with bounded(office(), caller=CLERK) as client:
        message = Message("m-1", Role.USER, (TextPart("go"),), task_id="mine", metadata={"skillId": "pay"})
        with pytest.raises(PermissionDeniedError):
            await client.agent.send_message(SendMessageRequest(message, caller_names_task=True), CLERK)


async def test_a_message_for_no_skill_is_told_of_the_public_ones_only() -> None:
    agent = office()
    agent.skill(lambda turn: "done", id="greet")
    async with bounded(agent, caller=BOSS) as client:
        with pytest.raises(InvalidParamsError, match=r"which skill it is for \(look, greet\)"):
            await client.send("go")


async def test_a_message_for_a_skill_that_does_not_exist_is_refused_also_where_there_is_only_one() -> None:
    agent = Agent("One")
    agent.skill(lambda turn: "done", id="greet")
    async with bounded(agent) as client:
        assert client.text(await client.send("go")) == "done"
        with pytest.raises(InvalidParamsError, match=r"There is no skill 'great'; there are: greet"):
            await client.send("go", metadata={"skillId": "great"})


async def test_the_only_skill_gets_every_message_public_or_not() -> None:
    agent = Agent("Hidden")

    @agent.skill(public=False, scopes=["in"])
    async def work(turn: Turn) -> str:  # pyright: ignore[reportUnusedFunction]
        return turn.text

    async with bounded(agent, caller=Caller(scopes=frozenset({"in"}))) as client:
        assert client.text(await client.send("go")) == "go"
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset()).send("go")
    assert [skill.id for skill in agent.card().skills] == ["hidden"]
    assert [skill.id for skill in agent.card(everything=True).skills] == ["work"]


def test_private_skills_are_in_the_extended_card_only() -> None:
    agent = office()
    assert [skill.id for skill in agent.card(extended_card=True).skills] == ["look"]
    assert [skill.id for skill in agent.card(everything=True).skills] == ["look", "pay"]
    assert agent.card(extended_card=True).capabilities.extended_card is True
    assert agent.card().capabilities.extended_card is None
    assert agent.skill_scopes == {"look": ("read",), "pay": ("write", "read", "sign")}
    assert (agent.has_private_skills, Agent("Plain").has_private_skills) == (True, False)


def test_extensions_are_in_the_card() -> None:
    extension = AgentExtension("https://x.example/ext", required=True)
    assert Agent("Test", extensions=[extension]).card().capabilities.extensions == (extension,)
