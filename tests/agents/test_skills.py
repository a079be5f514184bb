"""Skills: which one gets a message, who may use them, and which card shows them."""

import asyncio
from typing import Any

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


def desk(*order: str, default: str = "", **options: Any) -> Agent:
    """Skills in an order; each says its id and the message, and asks something if the message has a question mark."""
    agent = Agent("Desk", **options)

    def add(id: str, about: dict[str, Any]) -> None:
        async def work(turn: Any) -> str:
            answer = (await turn.ask("How much?")).text if turn.text.endswith("?") else ""
            return f"{id}: {turn.text} {answer}".strip()

        agent.skill(id=id, default=id == default, **about)(work)

    known: dict[str, dict[str, Any]] = {
        "fx": {"name": "Convert money", "tags": ["currency"], "examples": ["100 USD in EUR"]},
        "weather": {"name": "Weather", "tags": ["city forecast"], "examples": ["Will it rain in Paris tomorrow?"]},
        "pay": {"name": "Pay a bill", "tags": ["city"], "scopes": ["write"]},
        "audit": {"name": "Audit the books", "public": False},
    }
    for id in order or known:
        add(id, known[id])
    return agent


LIST = "Which of these is your message for? Answer with a name or a number.\n1. Convert money\n2. Weather"


@pytest.mark.parametrize(
    ("said", "by"),
    [
        ("Please convert this", "fx"),
        ("how many EUR are 5 usd", "fx"),
        ("Is rain in the forecast", "weather"),
        ("CONVERT MONEY for Paris", "fx"),
        ("convert the weather", None),  # as much for one as for the other
        ("hello, can you help me", None),  # words that say nothing
        ("100", None),
        ("audit the books", None),  # private: never guessed
        ("pay the bill", None),  # not without its scope
    ],
)
async def test_a_message_that_names_no_skill_goes_by_its_words_or_is_asked(said: str, by: str | None) -> None:
    async with bounded(desk()) as client:
        task = await client.send(said)
        if by is None:
            assert (task.status.state, task.status.message.text) == (TaskState.INPUT_REQUIRED, LIST)
        else:
            assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, f"{by}: {said}")


@pytest.mark.parametrize(
    ("answers", "by"),
    [
        (["weather"], "weather"),
        (["FX"], "fx"),
        ([" convert MONEY "], "fx"),
        (["#2."], "weather"),
        (["the one with the forecast"], "weather"),
        (["0", "3", "2"], "weather"),
        (["pay", "audit", ""], None),
    ],
)
async def test_a_caller_that_was_asked_picks_a_skill_or_is_rejected(answers: list[str], by: str | None) -> None:
    async with bounded(desk()) as client:
        task = await client.send("go")
        for answer in answers:
            assert task.status.message.text.removeprefix("That is none of them. ") == LIST
            task = await client.send(answer or {"no": "text"}, task=task)
        if by is None:
            assert task.status.state is TaskState.REJECTED
            assert task.status.message.text == "No skill was chosen for the message."
        else:
            assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, f"{by}: go")


async def test_an_answer_may_name_a_skill_in_its_metadata_if_its_sender_may_use_it() -> None:
    async with bounded(desk(), caller=BOSS) as client:
        asked = await client.send("go")
        assert asked.status.message.text == f"{LIST}\n3. Pay a bill"
        stranger = client.as_caller(scopes=frozenset())
        again = await stranger.send("please", task=asked, metadata={"skillId": "pay"})
        assert again.status.state is TaskState.INPUT_REQUIRED
        assert client.text(await client.send("please", task=asked, metadata={"skillId": "audit"})) == "audit: go"


async def test_a_task_keeps_its_skill_when_the_agents_skills_change() -> None:
    """Chosen by words, by default or by an answer; and its scopes are needed to answer its questions."""
    async with bounded(desk(), caller=BOSS) as client:
        by_words, asked = await client.send("the bill?"), await client.send("and?")
        client.program = desk("weather", "pay", "fx", default="fx")
        await client.stop()
        await client.restart()
        by_default = await client.send("this?")
        client.program = desk("pay", "weather", default="weather")
        await client.stop()
        await client.restart()
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset()).send("5", task=by_words)
        assert client.text(await client.send("5", task=by_words)) == "pay: the bill? 5"
        by_answer = await client.send("2", task=asked)  # the second of those that were offered
        assert client.text(await client.send("6", task=by_answer)) == "weather: and? 6"
        failed = await client.send("7", task=by_default)  # its skill is gone
        assert failed.status.state is TaskState.FAILED


async def test_a_message_while_the_task_runs_needs_the_scopes_of_the_skill_that_was_chosen() -> None:
    agent, begun, go = desk("fx", "weather"), asyncio.Event(), asyncio.Event()

    @agent.skill(scopes=["write"])
    async def transfer(turn: Turn) -> str:  # pyright: ignore[reportUnusedFunction]
        begun.set()
        await go.wait()
        return "transferred"

    async with bounded(agent, caller=BOSS) as client:
        task = await client.start("transfer it")
        await begun.wait()
        with pytest.raises(PermissionDeniedError):
            await client.as_caller(scopes=frozenset()).send("more", task=task)
        go.set()
        assert client.text(await client.finished(task)) == "transferred"


async def test_the_default_skill_gets_what_names_no_skill_from_callers_with_its_scopes() -> None:
    async with bounded(desk(default="weather")) as client:
        assert client.text(await client.send("convert money")) == "weather: convert money"
    async with bounded(desk(default="pay")) as client:
        with pytest.raises(PermissionDeniedError):
            await client.send("convert money")
    with pytest.raises(ValueError, match="'Desk' has the default skill 'fx' already"):
        desk(default="fx").skill(default=True)(lambda turn: "")


async def test_an_agent_without_tasks_chooses_by_words_and_refuses_where_it_would_have_to_ask() -> None:
    async with bounded(desk(replies_directly=True)) as client:
        assert (await client.exchange("convert this")).text == "fx: convert this"
        with pytest.raises(InvalidParamsError, match=r"which skill it is for \(fx, weather, pay\)"):
            await client.exchange("go")


async def test_a_caller_that_may_use_no_public_skill_must_name_one() -> None:
    async with bounded(desk("pay", "audit")) as client:
        with pytest.raises(InvalidParamsError, match=r"which skill it is for \(pay\)"):
            await client.send("go")
        assert client.text(await client.send("go", metadata={"skillId": "audit"})) == "audit: go"


def test_an_agent_that_may_have_to_ask_for_a_skill_warns_before_it_is_served(caplog: pytest.LogCaptureFixture) -> None:
    desk(default="fx").check()
    desk("fx").check()
    assert not caplog.records
    desk().check()
    assert ["'Desk' has several skills, but no default" in record.message for record in caplog.records] == [True]


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
