"""Flows of CrewAI for the shared set."""

import asyncio
from typing import Any

from crewai.flow.flow import Flow, listen, start
from pydantic import BaseModel

from framework_tests.crewai import agent_samples as agents
from framework_tests.crewai import crew_samples
from framework_tests.crewai.agent_samples import Trip, agent, charge
from framework_tests.crewai.scripted import ScriptedLLM

STARTED, STOPPED, EFFECTS = agents.STARTED, agents.STOPPED, agents.EFFECTS
ANSWER = "Rome"
ANSWERED = "To Rome"
CARD = ("Work", "Charges and says so.", ["work"])


class Request(BaseModel):
    message: str = ""
    history: list[dict[str, Any]] = []


def model(script: Any) -> ScriptedLLM:
    return ScriptedLLM(script, stream=True)


class Speaking(Flow[Request]):
    @start()
    def think(self) -> str:
        return "thought"

    @listen(think)
    def speak(self) -> str:
        return str(model(agents.speak).call(self.state.message))


speaker = Speaking()


class Asking(Flow[Request]):
    @start()
    def ask_for_city(self) -> str | None:
        return self.ask("Which city?")

    @listen(ask_for_city)
    def go(self, city: str) -> str:
        return f"To {city}"


asker = Asking()


class Hanging(Flow[Request]):
    @start()
    async def wait(self) -> str:
        STARTED.set()
        try:
            await asyncio.Event().wait()
        finally:
            STOPPED.set()
        return "never"


hanger = Hanging()


class Reading(Flow[Request]):
    @start()
    def read(self) -> str:
        """The files of a flow are those of its crews."""
        return str(crew_samples.reader.copy().kickoff(inputs={"message": self.state.message}))


reader = Reading()


class Planning(Flow[Request]):
    @start()
    def plan(self) -> Trip:
        return Trip(city="Rome", days=3)


structured = Planning()


class Failing(Flow[Request]):
    @start()
    def fail(self) -> str:
        return str(model(agents.fail).call("Go"))


failer = Failing()


class Remembering(Flow[Request]):
    @start()
    def recall(self) -> str:
        earlier = [str(message["content"]) for message in self.state.history if message["role"] == "user"]
        return ", ".join([*earlier, self.state.message])


rememberer = Remembering()


class Work(Flow[Request]):
    """Charges and says so."""

    @start()
    def charge(self) -> str:
        return agent(agents.work, charge).kickoff("Charge").raw

    @listen(charge)
    def report(self) -> str:
        return str(model(lambda messages: iter(["All", " done", "."])).call("Report"))


worker = Work()


def caller(url: str) -> Flow[Request]:
    class Calling(Flow[Request]):
        @start()
        def call(self) -> str:
            return agents.caller(url).kickoff(self.state.message).raw

    return Calling()
