"""An author's mistakes: type checkers must find one in every line that is marked with `# wrong`, and in no other."""

from collections.abc import AsyncIterator, Iterator

from parley import Agent, Client, Turn
from parley.server.app import App
from parley.testing.client import running

agent = Agent("Mistaken", on_restart="again")  # wrong


async def fetch(order_id: str) -> int:
    return len(order_id)


async def takes_text(text: str) -> str:
    return text


async def takes_two(turn: Turn, more: int) -> str:
    return turn.text


async def returns_a_set(turn: Turn) -> set[int]:
    return {1}


async def yields_objects(turn: Turn) -> AsyncIterator[object]:
    yield object()


def yields_sets(turn: Turn) -> Iterator[set[int]]:
    yield {1}


def words(prompt: str) -> Iterator[str]:
    yield prompt


agent.on_message(takes_text)  # wrong
agent.on_message(takes_two)  # wrong
agent.skill(returns_a_set)  # wrong
agent.skill(tags=["a"])(yields_objects)  # wrong
agent.skill(yields_sets)  # wrong
agent.skill(tags=7)  # wrong


async def takes_steps(turn: Turn) -> None:
    await turn.step("argument", fetch, 7)  # wrong
    await turn.step("missing", fetch)  # wrong
    await turn.step("keyword", fetch, "7", retries=2)  # wrong
    number: str = await turn.step("result", fetch, "7")  # wrong
    await turn.step(fetch, "7")  # wrong
    await turn.step("no function", 7)  # wrong
    turn.retrying(attempts="5")  # wrong
    turn.retrying(on=[OSError])  # wrong
    await turn.retrying().step("argument", fetch, 7)  # wrong
    turn.stream("argument", words, 7)  # wrong
    turn.stream("no source", fetch, "7")  # wrong
    await turn.sleep([3])  # wrong
    print(number)


async def speaks(turn: Turn) -> None:
    await turn.status(object())  # wrong
    await turn.artifact("report.md").write({1, 2})  # wrong
    answer: str = await turn.ask("Which?")  # wrong
    turn.answer = answer  # wrong
    turn.text = "other"  # wrong
    turn.wait(7)  # wrong


async def calls(url: str) -> None:
    async with Client(url, timeout=3) as client:  # wrong
        reply = await client.send("go", tasks="t-1")  # wrong
        print(reply.content.text)  # wrong
    async with running(agent) as tested:
        task = await tested.send("go")
        print(task.text)  # wrong


App("agent")  # wrong
