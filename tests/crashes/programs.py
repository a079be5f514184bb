"""Random handlers, and a model of what an undisturbed run of each of them says.

Everything that can come out differently does so each time: a stream carries the number of its generation, and a step
has a value of its own in each call. So the model of what a handler says is a regular expression: a stream is of one
generation, and a step has one value wherever it is said.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from itertools import count
from random import Random
from typing import Any, TypeAlias

from parley import Agent, Turn
from parley.protocol.messages import text_of
from parley.protocol.tasks import Task

Operation: TypeAlias = Callable[[Turn], AsyncIterator[Any]]
"""A part of a handler: it does something with the turn, and yields what the handler yields."""

ARTIFACTS = ("response", "a.txt", "b.txt")
LONGEST = 7


class SourceError(Exception):
    """What a source raises in the middle."""


class RandomProgram:
    """A random handler, the answers to its questions, and a model of what it says."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.answers: dict[str, str] = {}
        """The answer to each question."""
        self.patterns: defaultdict[str, str] = defaultdict(str)
        """A regular expression for the text of each artifact."""
        self._names = count(1)
        self._values = count(1)
        kinds = (
            *(self._say, self._status, self._step, self._retry, self._keep, self._change, self._ask, self._sleep),
            *(self._pass_on, self._pass_on, self._resume, self._iterate, self._ask_in_between, self._fail),
            *(self._together, self._delegate, self._delegate_all),
        )
        self._operations = [self.random.choice(kinds)() for _ in range(self.random.randint(2, LONGEST))]

    def agent(self) -> Agent:
        """The agent that has this handler."""
        agent = Agent("Program", run_attempts=1_000)

        @agent.on_message
        async def perform(turn: Turn) -> AsyncIterator[Any]:
            for operation in self._operations:
                async for content in operation(turn):
                    yield content

        return agent

    def helper(self) -> Agent:
        """The agent to which the handler delegates: it streams some pieces, and asks in between if it is told to."""
        agent = Agent("Helper", run_attempts=1_000)

        @agent.on_message
        async def help(turn: Turn) -> AsyncIterator[Any]:
            name, pieces, question = turn.text.split()
            yield turn.stream("pieces", self._generate, name, int(pieces))
            if question != "-":
                yield f"<{(await turn.ask(question)).text}> "

        return agent

    def mismatches(self, task: Task) -> dict[str, tuple[str, str]]:
        """The artifacts whose text is not that of one run, each with its model."""
        texts = {artifact.artifact_id: text_of(artifact.parts) for artifact in task.artifacts}
        pairs = {name: (self.patterns.get(name, ""), texts.get(name, "")) for name in self.patterns.keys() | texts}
        return {name: pair for name, pair in pairs.items() if re.fullmatch(*pair) is None}

    # --- sources ------------------------------------------------------------------------------------------------------

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self._names)}"

    async def _value(self) -> int:
        return next(self._values)

    async def _generate(self, name: str, pieces: int, first: int = 0, *, fails: bool = False) -> AsyncIterator[str]:
        generation = next(self._values)
        for number in range(first, pieces):
            yield f"{name}.{number}@{generation} "
            await asyncio.sleep(0)
        if fails:
            raise SourceError

    def _expect_stream(self, artifact: str, name: str, pieces: int) -> None:
        if pieces:
            rest = "".join([rf"{name}\.{number}@(?P={name}) " for number in range(1, pieces)])
            self.patterns[artifact] += rf"{name}\.0@(?P<{name}>\d+) {rest}"

    # --- operations ---------------------------------------------------------------------------------------------------

    def _say(self) -> Operation:
        artifact, text = self.random.choice(ARTIFACTS), f"{self._name('said')} "
        self.patterns[artifact] += text

        async def say(turn: Turn) -> AsyncIterator[Any]:
            if artifact == "response":
                yield text
            else:
                await turn.artifact(artifact).write(text)

        return say

    def _status(self) -> Operation:
        text = self._name("status")

        async def tell(turn: Turn) -> AsyncIterator[Any]:
            await turn.status(text)
            for nothing in ():
                yield nothing

        return tell

    def _step(self) -> Operation:
        name = self._name("step")
        self.patterns["response"] += rf"{name}=(?P<{name}>\d+) {name}=(?P={name}) "

        async def take(turn: Turn) -> AsyncIterator[Any]:
            value = await turn.step("step", self._value)
            yield f"{name}={value} "
            yield f"{name}={value} "

        return take

    def _retry(self) -> Operation:
        """A step that fails at first, and is tried again after a pause."""
        name = self._name("step")
        self.patterns["response"] += rf"{name}=(?P<{name}>\d+) {name}=(?P={name}) "

        async def fail_at_first() -> int:
            value = next(self._values)
            if value % 2:
                raise SourceError
            return value

        async def insist(turn: Turn) -> AsyncIterator[Any]:
            value = await turn.retrying(attempts=20, backoff="1s").step(name, fail_at_first)
            yield f"{name}={value} "
            yield f"{name}={value} "

        return insist

    def _pass_on(self) -> Operation:
        """A stream that passes through, into the response or another artifact."""
        artifact, name, pieces = self.random.choice(ARTIFACTS), self._name("stream"), self.random.randint(0, 4)
        self._expect_stream(artifact, name, pieces)

        async def pass_on(turn: Turn) -> AsyncIterator[Any]:
            stream = turn.stream(name, self._generate, name, pieces)
            if artifact == "response":
                yield stream
            else:
                await turn.artifact(artifact).write(stream)

        return pass_on

    def _resume(self) -> Operation:
        """A stream that continues after what it said before it was cut off, in another generation."""
        artifact, name, pieces = self.random.choice(ARTIFACTS), self._name("stream"), self.random.randint(1, 4)
        self.patterns[artifact] += "".join([rf"{name}\.{number}@\d+ " for number in range(pieces)])

        async def resume(turn: Turn) -> AsyncIterator[Any]:
            stream = turn.stream(name, self._generate, name, pieces)
            stream.resume_with(lambda said: self._generate(name, pieces, said.count(" ")))
            await turn.artifact(artifact).write(stream)
            for nothing in ():
                yield nothing

        return resume

    def _ask_in_between(self) -> Operation:
        """A stream whose reader asks after its first piece. The source begins again after the answer."""
        name, question, answer = self._name("stream"), self._name("question"), self._name("answer")
        self.answers[question] = answer
        self.patterns["response"] += rf"{name}\.0@(?P<{name}>\d+) <{answer}> {name}\.1@(?P={name}) "

        async def read(turn: Turn) -> AsyncIterator[Any]:
            is_asked = False
            async for piece in turn.stream(name, self._generate, name, 2):
                yield piece
                if not is_asked:
                    yield f"<{(await turn.ask(question)).text}> "
                is_asked = True

        return read

    def _iterate(self) -> Operation:
        """A stream whose pieces the handler takes, perhaps not all of them."""
        name, pieces = self._name("stream"), self.random.randint(1, 4)
        wanted = self.random.choice([pieces, pieces, 1])
        self._expect_stream("response", name, wanted)

        async def iterate(turn: Turn) -> AsyncIterator[Any]:
            taken = 0
            async for piece in turn.stream(name, self._generate, name, pieces):
                yield piece
                taken += 1
                if taken == wanted:
                    break

        return iterate

    def _fail(self) -> Operation:
        """A stream that raises in the middle, which the handler notes."""
        artifact, name, pieces = self.random.choice(ARTIFACTS), self._name("stream"), self.random.randint(0, 3)
        self._expect_stream(artifact, name, pieces)
        self.patterns["response"] += f"{name} failed "

        async def catch(turn: Turn) -> AsyncIterator[Any]:
            try:
                await turn.artifact(artifact).write(turn.stream(name, self._generate, name, pieces, fails=True))
            except SourceError:
                yield f"{name} failed "

        return catch

    def _ask(self) -> Operation:
        question, answer = self._name("question"), self._name("answer")
        self.answers[question] = answer
        self.patterns["response"] += f"<{answer}> "

        async def ask(turn: Turn) -> AsyncIterator[Any]:
            yield f"<{(await turn.ask(question)).text}> "

        return ask

    def _sleep(self) -> Operation:
        duration = self.random.choice(["1 second", "5 seconds", "1 minute"])

        async def sleep(turn: Turn) -> AsyncIterator[Any]:
            await turn.sleep(duration)
            for nothing in ():
                yield nothing

        return sleep

    def _keep(self) -> Operation:
        """A moment, a number and an id, which are recorded."""
        name = self._name("kept")
        self.patterns["response"] += rf"(?P<{name}>\S+ \S+ \S+ )(?P={name})"

        async def keep(turn: Turn) -> AsyncIterator[Any]:
            values = f"{turn.now().isoformat()} {turn.random()} {turn.uuid()} "
            yield values
            yield values

        return keep

    def _delegate(self) -> Operation:
        """Work of the other agent, which is awaited, yielded, or streamed into an artifact."""
        use, name, pieces = (
            self.random.choice(["await", "yield", "into"]),
            self._name("stream"),
            self.random.randint(1, 3),
        )
        artifact = self.random.choice(ARTIFACTS[1:]) if use == "into" else "response"
        question = "-"
        self._expect_stream(artifact, name, pieces)
        if self.random.random() < 0.5:
            question, answer = self._name("question"), self._name("answer")
            self.answers[question] = answer
            self.patterns[artifact] += f"<{answer}> "
        text = f"{name} {pieces} {question}"

        async def delegate(turn: Turn) -> AsyncIterator[Any]:
            match use:
                case "await":
                    yield (await turn.delegate("helper", text)).text
                case "yield":
                    yield turn.delegate("helper", text)
                case _:
                    await turn.delegate("helper", text, into=artifact)

        return delegate

    def _delegate_all(self) -> Operation:
        """Work of the other agent for several things side by side, some of which ask."""
        texts: list[str] = []
        for _ in range(self.random.randint(2, 3)):
            name, question, answer = self._name("stream"), self._name("question"), self._name("answer")
            self._expect_stream("response", name, 2)
            if self.random.random() < 0.5:
                question = "-"
            else:
                self.answers[question] = answer
                self.patterns["response"] += f"<{answer}> "
            texts.append(f"{name} 2 {question}")

        async def delegate_all(turn: Turn) -> AsyncIterator[Any]:
            for result in await asyncio.gather(*[turn.delegate("helper", text) for text in texts]):
                yield result.text

        return delegate_all

    def _together(self) -> Operation:
        """Steps side by side, and a stream into an artifact beside them."""
        names = [self._name("side") for _ in range(self.random.randint(1, 3))]
        artifact, stream, pieces = self.random.choice(ARTIFACTS[1:]), self._name("stream"), self.random.randint(0, 3)
        self.patterns["response"] += "".join([rf"{name}=(?P<{name}>\d+) {name}=(?P={name}) " for name in names])
        self._expect_stream(artifact, stream, pieces)

        async def take_all(turn: Turn) -> AsyncIterator[Any]:
            steps = [turn.step(name, self._value) for name in names]
            writing = turn.artifact(artifact).write(turn.stream(stream, self._generate, stream, pieces))
            *values, _ = await asyncio.gather(*steps, writing)
            for name, value in zip(names, values, strict=True):
                yield f"{name}={value} "
                yield f"{name}={value} "

        return take_all

    def _change(self) -> Operation:
        """A handler that breaks the rule: it says something else each time, and not in a step."""
        self.patterns["response"] += r"changed\d+ "

        async def change(turn: Turn) -> AsyncIterator[Any]:
            yield f"changed{next(self._values)} "

        return change
