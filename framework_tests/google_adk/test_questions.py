"""All the ways in which google-adk asks, as questions of A2A."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.openapi.models import APIKey, APIKeyIn, HTTPBearer, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.apps.app import App
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.auth.auth_tool import AuthConfig
from google.adk.events.request_input import RequestInput
from google.adk.models.llm_request import LlmRequest
from google.adk.tools import request_input
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import Workflow

from framework_tests.google_adk.samples import Said, Trip, call, results, scripted
from parley import Agent
from parley.forms.fields import SCHEMA_TYPE
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import DataPart
from parley.protocol.tasks import Task, TaskState
from parley.testing import running, survives_crashes

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]

PAID: list[float] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    PAID.clear()


def then_reports(*first: Any) -> Any:
    """The script of a model that makes calls, and then says what came of them."""

    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [f"Result: {one}; " for one in done] if done else first[0]

    return scripted(script)


def form_of(task: Task) -> JsonValue:
    assert task.status.message
    (form,) = [part.data for part in task.status.message.parts if getattr(part, "media_type", None) == SCHEMA_TYPE]
    return form


def question_of(task: Task) -> str:
    assert task.status.message
    return task.status.message.text


def pay(amount: float) -> str:
    """Pays."""
    PAID.append(amount)
    return f"paid {amount:g}"


payer = LlmAgent(
    name="payer",
    model=then_reports(call("pay", amount=3)),
    tools=[FunctionTool(pay, require_confirmation=lambda amount: amount > 1)],
)


async def test_a_refused_confirmation_reaches_the_model() -> None:
    async with running(Agent.of(payer)) as client:
        asked = await client.send("Pay")
        assert question_of(asked) == "May I do this: pay(amount=3)? Answer yes or no."
        task = await client.send("no", task=asked)
    assert "rejected" in client.text(task)
    assert PAID == []


async def test_a_confirmation_with_a_hint_and_a_payload_is_a_form() -> None:
    def take_leave(days: int, tool_context: ToolContext) -> str:
        """Takes leave."""
        if not (confirmed := tool_context.tool_confirmation):
            tool_context.request_confirmation(hint="How many days may they take?", payload={"days": days})
            return "pending"
        return f"{confirmed.confirmed}, {confirmed.payload}"

    agent = LlmAgent(name="leave", model=then_reports(call("take_leave", days=9)), tools=[take_leave])
    async with running(Agent.of(agent)) as client:
        asked = await client.send("Nine days")
        form = form_of(asked)
        assert question_of(asked).startswith("How many days may they take?\nMay I do this: take_leave(days=9)?")
        assert isinstance(form, dict)
        assert form["properties"]["payload"] == {"default": {"days": 9}}
        task = await client.send({"approved": True, "payload": {"days": 5}}, task=asked)
        assert "True, {'days': 5}" in client.text(task)
        task = await client.send({"approved": True}, task=await client.send("Nine days"))
        assert "True, {'days': 9}" in client.text(task)


async def test_a_request_for_input_is_a_question_with_its_schema_as_a_form() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    model = then_reports(call("adk_request_input", message="Which city?", response_schema=schema))
    thing = SequentialAgent(
        name="trip",
        sub_agents=[
            LlmAgent(name="asker", model=model, tools=[request_input]),
            LlmAgent(name="last", model=scripted(lambda request: ["Bye."])),
        ],
    )
    task = await survives_crashes(Agent.of(thing), "Go", answers=[({"city": "Rome"},)])
    texts = [part.text for artifact in task.artifacts for part in artifact.parts if hasattr(part, "text")]
    assert "".join(texts) == "Result: {'city': 'Rome'}; \n\nBye."


async def test_a_request_for_a_plain_value_is_a_form_with_one_field() -> None:
    model = then_reports(call("adk_request_input", message="How many?", response_schema={"type": "integer"}))
    async with running(Agent.of(LlmAgent(name="asker", model=model, tools=[request_input]))) as client:
        asked = await client.send("Go")
        assert question_of(asked) == "How many?"
        task = await client.send("three", task=asked)
        assert task.status.state is TaskState.INPUT_REQUIRED, "it does not fit"
        task = await client.send("3", task=asked)
    assert client.text(task) == "Result: {'result': 3}; "


async def test_a_workflow_asks_and_goes_on_with_the_answer() -> None:
    async def ask(node_input: Any) -> Any:
        yield RequestInput(message="Where to?", response_schema=Trip)

    def plan(node_input: Any) -> dict[str, Any]:
        return {"plan": node_input}

    thing = App(name="flow", root_agent=Workflow(name="flow", edges=[("START", ask), (ask, plan)]))
    task = await survives_crashes(Agent.of(thing), "Go", answers=[({"city": "Rome", "days": 3},)])
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    assert [part.data for part in parts if isinstance(part, DataPart)] == [{"plan": {"city": "Rome", "days": 3}}]


async def test_a_long_running_tool_is_a_question_about_its_result() -> None:
    def ask_manager(amount: int) -> dict[str, Any]:
        """Asks the manager."""
        PAID.append(amount)
        return {"status": "pending"}

    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [f"The manager: {done[-1]}"] if done else call("ask_manager", amount=7)

    agent = LlmAgent(name="clerk", model=scripted(script), tools=[LongRunningFunctionTool(ask_manager)])
    async with running(Agent.of(agent)) as client:
        asked = await client.send("Go")
        assert question_of(asked) == "What is the result of ask_manager(amount=7)?"
        task = await client.send("granted", task=asked)
    assert client.text(task) == "The manager: {'status': 'pending'}\n\nThe manager: {'result': 'granted'}"
    assert PAID == [7]


async def test_several_calls_are_asked_one_after_the_other() -> None:
    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [f"{len(done)} payments"] if done else [call("pay", amount=3), call("pay", amount=4)]

    agent = LlmAgent(name="payer", model=scripted(script), tools=[FunctionTool(pay, require_confirmation=True)])
    async with running(Agent.of(agent)) as client:
        first = await client.send("Pay both")
        second = await client.send("yes", task=first)
        assert question_of(second) == "May I do this: pay(amount=4)? Answer yes or no."
        task = await client.send("no", task=second)
    assert client.text(task) == "2 payments"
    assert PAID == [3]


def paying(name: str, amount: float) -> LlmAgent:
    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [f"{name}: {done[-1]}"] if done else call("pay", amount=amount)

    tools = [FunctionTool(pay, require_confirmation=True)]
    return LlmAgent(name=name, model=scripted(script), tools=tools, include_contents="none")


def asking_the_boss(name: str) -> LlmAgent:
    def ask_boss() -> dict[str, Any]:
        """Asks the boss."""
        return {"status": "pending"}

    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [f"{name}: {done[-1]}"] if done else call("ask_boss")

    return LlmAgent(name=name, model=scripted(script), tools=[LongRunningFunctionTool(ask_boss)])


async def test_agents_side_by_side_get_the_answers_to_their_own_questions() -> None:
    agents = ParallelAgent(name="p", sub_agents=[paying("one", 3), paying("two", 4), asking_the_boss("three")])
    last = LlmAgent(name="last", model=scripted(lambda request: ["Bye."]))
    async with running(Agent.of(SequentialAgent(name="s", sub_agents=[agents, last]))) as client:
        task = await client.send("Go")
        answers = {"amount=3": "yes", "amount=4": "no", "ask_boss": "granted"}
        for _ in range(3):
            (answer,) = [answer for about, answer in answers.items() if about in question_of(task)]
            task = await client.send(answer, task=task)
    *said, end = client.text(task).split("\n\n")
    assert sorted(said) == [
        "one: {'result': 'paid 3'}",
        "three: {'result': 'granted'}",
        "three: {'status': 'pending'}",
        "two: {'error': 'This tool call is rejected.'}",
    ]
    assert (end, PAID) == ("Bye.", [3])


async def test_a_confirmation_and_a_long_running_tool_are_asked_together() -> None:
    def ask_boss(tool_context: ToolContext) -> dict[str, Any]:
        """Asks the boss."""
        return {"status": "pending"}

    def script(request: LlmRequest) -> Said:
        done = results(request)
        return [str(done[-2:])] if done else [call("ask_boss"), call("pay", amount=3)]

    tools = [LongRunningFunctionTool(ask_boss), FunctionTool(pay, require_confirmation=True)]
    agent = LlmAgent(name="clerk", model=scripted(script), tools=tools)
    async with running(Agent.of(agent)) as client:
        asked = await client.send("granted", task=await client.send("Go"))
        task = await client.send("yes", task=asked)
    assert client.text(task) == "[{'result': 'granted'}, {'result': 'paid 3'}]"


async def test_what_comes_after_a_question_waits_for_the_answer_also_after_a_crash() -> None:
    last = LlmAgent(name="last", model=scripted(lambda request: ["Bye."]))
    agent = Agent.of(SequentialAgent(name="s", sub_agents=[asking_the_boss("one"), last]))
    task = await survives_crashes(agent, "Go", answers=["granted"])
    texts = [part.text for artifact in task.artifacts for part in artifact.parts if hasattr(part, "text")]
    assert "".join(texts) == "one: {'status': 'pending'}\n\none: {'result': 'granted'}\n\nBye."


async def test_a_login_is_asked_for_as_authentication() -> None:
    flow = OAuthFlowAuthorizationCode(
        authorizationUrl="https://login.example/authorize",
        tokenUrl="http://127.0.0.1:9/none",
        scopes={"mail": "m"},
    )
    client_of_service = AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(client_id="us", client_secret="our secret")
    )
    scheme = OAuth2(flows=OAuthFlows(authorizationCode=flow))
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=client_of_service)
    seen: list[str] = []

    def read_mail(tool_context: ToolContext) -> str:
        """Reads mail."""
        answered = [value for key, value in tool_context.state.to_dict().items() if key.startswith("temp:")]
        found = [one for one in answered if isinstance(one, AuthCredential) and one.oauth2]
        if not found:
            tool_context.request_credential(config)
            return "pending"
        seen.append(str(found[0].oauth2 and found[0].oauth2.auth_response_uri))
        return "one mail"

    agent = LlmAgent(name="mailer", model=then_reports(call("read_mail")), tools=[read_mail])
    async with running(Agent.of(agent)) as client:
        asked = await client.send("Read")
        assert asked.status.state is TaskState.AUTH_REQUIRED
        assert "https://login.example/authorize?" in question_of(asked)
        assert "our secret" not in repr(asked)
        task = await client.send({"authResponseUri": "https://us.example/back?code=c&state=s"}, task=asked)
    assert (client.text(task), seen) == ("Result: {'result': 'one mail'}; ", ["https://us.example/back?code=c&state=s"])


async def test_an_api_key_is_asked_for_as_authentication() -> None:
    scheme = APIKey(**{"in": APIKeyIn.header, "name": "X-Key"})
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY))

    def look_up(tool_context: ToolContext) -> str:
        """Looks something up."""
        if not (credential := tool_context.get_auth_response(config)):
            tool_context.request_credential(config)
            return "pending"
        return f"with {credential.api_key}"

    agent = LlmAgent(name="looker", model=then_reports(call("look_up")), tools=[look_up])
    async with running(Agent.of(agent)) as client:
        asked = await client.send("Look")
        assert asked.status.state is TaskState.AUTH_REQUIRED
        task = await client.send("key-1", task=asked)
    assert client.text(task) == "Result: {'result': 'with key-1'}; "


async def test_another_credential_is_asked_for_with_a_form() -> None:
    bearer = AuthCredential(auth_type=AuthCredentialTypes.HTTP)
    config = AuthConfig(auth_scheme=HTTPBearer(), raw_auth_credential=bearer)

    def look_up(tool_context: ToolContext) -> str:
        """Looks something up."""
        if not (credential := tool_context.get_auth_response(config)):
            tool_context.request_credential(config)
            return "pending"
        return f"with {credential.http and credential.http.credentials.token}"

    agent = LlmAgent(name="looker", model=then_reports(call("look_up")), tools=[look_up])
    async with running(Agent.of(agent)) as client:
        asked = await client.send("nonsense", task=await client.send("Look"))
        assert asked.status.state is TaskState.AUTH_REQUIRED, "it does not fit"
        credential = {"authType": "http", "http": {"scheme": "bearer", "credentials": {"token": "token-1"}}}
        task = await client.send(credential, task=asked)
    assert client.text(task) == "Result: {'result': 'with token-1'}; "
