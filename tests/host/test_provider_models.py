"""Models of providers, called over real HTTP: what goes to the provider, what comes back, and how failures look."""

import json
import math
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from parley.host.models import loading
from parley.host.models.endpoints import OpenAiCompatible, providers_by_prefix, resolve_endpoint
from parley.host.models.model import Model, ModelError, ModelFailure, ModelMessage, ModelRequest, Piece, TokenUsage
from parley.host.models.provider_calls import ProviderCallError
from parley.host.models.registry import MAX_CACHED, KnownModel, ModelRegistry, ModelRegistrySettings
from parley.host.models.retrying import ModelRetrySettings
from tests.deadlines import fail_after
from tests.host.openai_server import CUT, Failure, Gate, OpenAiServer, RawReply, Reply

pytestmark = pytest.mark.anyio

KEY = "sk-parley-0123456789"
REQUEST = ModelRequest(
    agent_id="index",
    system="You are brief.",
    messages=(ModelMessage("user", "Hi"), ModelMessage("assistant", "Hello?"), ModelMessage("user", "Who are you?")),
    query="Who are you?",
    max_tokens=99,
    temperature=0.5,
)
ONE_CALL = ModelRegistrySettings(retries=ModelRetrySettings(attempts=1))


class EchoModel:
    """Stands for a built-in model."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        yield request.query


@asynccontextmanager
async def registry_for(
    server: OpenAiServer, settings: ModelRegistrySettings = ONE_CALL, **variables: str
) -> AsyncGenerator[ModelRegistry]:
    """A registry whose providers are all played by one server."""
    origin = server.base_url.removesuffix("/v1")
    environ = {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": server.base_url,
        "OPENROUTER_API_KEY": KEY,
        "OPENROUTER_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": origin,
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": origin,
        "OLLAMA_HOST": origin.removeprefix("http://"),
    }
    registry = ModelRegistry(settings, builtin={"parley/echo": EchoModel()}, environ=environ | variables)
    try:
        with fail_after(60):
            yield registry
    finally:
        await registry.close()


async def pieces_of(model: Model, request: ModelRequest = REQUEST) -> list[Piece]:
    return [piece async for piece in model.stream(request)]


async def failure_of(model: Model) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await pieces_of(model)
    return raised.value


# --- what goes out and what comes back --------------------------------------------------------------------------------


async def test_a_model_gets_the_conversation_and_streams_its_text_and_tokens() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(Reply("I am ", "a test.", input_tokens=20, output_tokens=5, cached=8))
        pieces = await pieces_of(registry.model("openai/gpt-x"))
        assert pieces == ["I am ", "a test.", TokenUsage(input_tokens=20, output_tokens=5, cache_read_tokens=8)]
        (request,) = server.requests
        assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
        assert request.body == {
            "model": "gpt-x",
            "messages": [
                {"role": "system", "content": "You are brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello?"},
                {"role": "user", "content": "Who are you?"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_completion_tokens": 99,
            "temperature": 0.5,
        }


async def test_text_arrives_before_the_reply_is_complete_and_leaving_closes_the_connection() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        gate = Gate()
        server.script(Reply("one", gate, "two"), Reply("one", Gate(), "never"))
        model = registry.model("openai/gpt-x")
        stream = cast("AsyncGenerator[Piece]", model.stream(REQUEST))
        assert await anext(stream) == "one"
        gate.open()
        assert [await anext(stream), await anext(stream)] == ["two", TokenUsage(input_tokens=11, output_tokens=7)]
        async with aclosing(cast("AsyncGenerator[Piece]", model.stream(REQUEST))) as stream:
            assert await anext(stream) == "one"
        await server.requests[1].client_left()


@pytest.mark.parametrize(
    ("name", "authorization"),
    [
        ("openrouter/vendor/model-x", f"Bearer {KEY}"),
        ("ollama/model-x", None),
        ("mine/model-x", "Bearer other-key"),
    ],
)
async def test_other_providers_speak_the_openai_protocol(name: str, authorization: str | None) -> None:
    async with OpenAiServer() as server:
        settings = ModelRegistrySettings(openai_compatible=(OpenAiCompatible("mine", server.base_url, "MY_KEY"),))
        async with registry_for(server, settings, MY_KEY="other-key") as registry:
            server.script(Reply("Yes."))
            assert (await pieces_of(registry.model(name)))[0] == "Yes."
            (request,) = server.requests
            assert request.model == name.partition("/")[2]
            assert request.body["max_tokens"] == 99
            assert (request.path, request.system) == ("/v1/chat/completions", "You are brief.")
            assert KEY not in request.headers["authorization"] or authorization == f"Bearer {KEY}"
            assert authorization in (None, request.headers["authorization"])


def anthropic_events() -> list[str]:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20, "output_tokens": 1}
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "claude-x"}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message | {"usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


async def test_models_of_anthropic_are_called_with_their_own_protocol() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(RawReply("".join(anthropic_events())))
        pieces = await pieces_of(registry.model("anthropic/claude-x"))
        usage = TokenUsage(input_tokens=33, output_tokens=4, cache_read_tokens=20, cache_create_tokens=3)
        assert pieces == ["Hel", "lo", usage]
        (request,) = server.requests
        assert (request.path, request.headers["authorization"]) == ("/v1/messages", f"Bearer {KEY}")
        assert "You are brief." in json.dumps(request.body["system"])
        assert [message["role"] for message in request.body["messages"]] == ["user", "assistant", "user"]


def google_events() -> list[str]:
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": reason}]}
        for text, reason in (("Hel", None), ("lo", "STOP"))
    ]
    chunks[1]["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}
    return [f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks]


async def test_models_of_google_are_called_with_their_own_protocol_under_either_prefix() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(RawReply("".join(google_events())))
        model = registry.model("gemini/gemini-x")
        assert await pieces_of(model) == ["Hel", "lo", TokenUsage(input_tokens=9, output_tokens=2)]
        assert registry.model("google/gemini-x") is model
        (request,) = server.requests
        assert request.path.endswith("/models/gemini-x:streamGenerateContent?alt=sse")
        assert request.headers["x-goog-api-key"] == KEY
        assert "You are brief." in json.dumps(request.body["systemInstruction"])


async def test_a_model_that_reasons_gets_no_temperature() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(Reply("Hm."))
        await pieces_of(registry.model("openai/gpt-5-mini"))
        assert "temperature" not in server.requests[0].body


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(401, f"Incorrect API key provided: {KEY}."), ModelFailure.AUTH_FAILED),
        (Failure(403, "Not for you."), ModelFailure.AUTH_FAILED),
        (Failure(404, "No such model."), ModelFailure.NOT_FOUND),
        (Failure(400, f"Bad temperature, {KEY} of org-0123456789."), ModelFailure.INVALID_REQUEST),
        (Failure(422), ModelFailure.INVALID_REQUEST),
        (Failure(405), ModelFailure.INVALID_REQUEST),
        (Failure(408), ModelFailure.PROVIDER_ERROR),
        (Failure(400, "Too many tokens.", "context_length_exceeded"), ModelFailure.REQUEST_TOO_LARGE),
        (Failure(413), ModelFailure.REQUEST_TOO_LARGE),
        (Failure(429), ModelFailure.RATE_LIMITED),
        (Failure(500), ModelFailure.PROVIDER_ERROR),
        (Failure(529), ModelFailure.PROVIDER_ERROR),
        (RawReply("<html>", "text/html"), ModelFailure.PROVIDER_ERROR),
        (RawReply('data: {"error": {"message": "Overloaded", "code": 503}}\n\n'), ModelFailure.PROVIDER_ERROR),
        (Reply(CUT), ModelFailure.PROVIDER_ERROR),
        (RawReply("data: nonsense\n\n"), ModelFailure.PROVIDER_ERROR),
    ],
)
async def test_a_failure_has_a_kind_and_a_text_without_secrets(failure: Any, kind: ModelFailure) -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(failure)
        error = await failure_of(registry.model("openai/gpt-x"))
        assert error.kind is kind
        assert "openai" in str(error)
        assert "0123456789" not in str(error)
        assert error.__suppress_context__, "the error of the SDK would show in logs, with the response"
        assert len(server.requests) == 1, "the SDK must not retry"


async def test_an_error_tells_what_the_provider_says() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(Failure(400, "Bad\ntemperature."), Failure(401, "No."))
        error = await failure_of(registry.model("openai/gpt-x"))
        assert str(error) == "openai/gpt-x: the provider rejected the request (400): Bad temperature."
        assert str(await failure_of(registry.model("openai/gpt-x"))) == "openai refused the key in OPENAI_API_KEY."


@pytest.mark.parametrize("name", ["openai/x", "openrouter/vendor/x", "mine/x", "anthropic/x", "google/x"])
async def test_a_provider_that_cannot_be_reached_is_a_provider_error(name: str) -> None:
    async with OpenAiServer() as server:
        settings = ModelRegistrySettings(
            retries=ONE_CALL.retries, openai_compatible=(OpenAiCompatible("mine", server.base_url),)
        )
    async with registry_for(server, settings) as registry:  # the server has stopped
        error = await failure_of(registry.model(name))
        assert error.kind is ModelFailure.PROVIDER_ERROR
        assert not isinstance(error, ProviderCallError) or error.status is None


async def test_a_stream_that_breaks_off_keeps_its_text_and_fails() -> None:
    async with OpenAiServer() as server, registry_for(server, ModelRegistrySettings()) as registry:
        unfinished = 'data: {"id": "1", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}\n\n'
        for reply in (Reply("Hel", CUT), RawReply(unfinished)):
            server.script(reply)
            stream = registry.model("openai/gpt-x").stream(REQUEST)
            assert await anext(stream) == "Hel"
            with pytest.raises(ModelError) as raised:
                await anext(stream)
            assert raised.value.kind is ModelFailure.PROVIDER_ERROR
        assert len(server.requests) == 2, "after the first text nothing is retried"


@pytest.mark.parametrize("is_cut", [True, False], ids=["cut", "ended early"])
@pytest.mark.parametrize(
    ("name", "events"), [("anthropic/x", anthropic_events()[:3]), ("google/x", google_events()[:1])]
)
async def test_an_incomplete_stream_fails_with_every_protocol(name: str, events: list[str], is_cut: bool) -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(RawReply("".join(events), is_cut=is_cut))
        stream = registry.model(name).stream(REQUEST)
        assert await anext(stream) == "Hel"
        with pytest.raises(ModelError) as raised:
            await anext(stream)
        assert raised.value.kind is ModelFailure.PROVIDER_ERROR


@pytest.mark.parametrize("name", ["anthropic/claude-x", "google/gemini-x"])
async def test_other_protocols_have_the_same_kinds_of_failures(name: str) -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        answers = (
            (Failure(429, f"About {KEY}"), ModelFailure.RATE_LIMITED),
            (Failure(401, f"About {KEY}"), ModelFailure.AUTH_FAILED),
            (Failure(503, f"About {KEY}"), ModelFailure.PROVIDER_ERROR),
            (RawReply("not gzip", headers={"Content-Encoding": "gzip"}), ModelFailure.PROVIDER_ERROR),
        )
        for answer, kind in answers:
            server.script(answer)
            error = await failure_of(registry.model(name))
            assert (error.kind, KEY in str(error)) == (kind, False)
        assert len(server.requests) == len(answers), "the SDK must not retry"


# --- retries and circuits ---------------------------------------------------------------------------------------------


async def test_a_busy_provider_is_called_again_after_the_pause_it_asks_for() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with OpenAiServer() as server:
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
        registry = ModelRegistry(builtin={}, environ=environ, sleep=sleep, draw=lambda: 0.5)
        server.script(Failure(429, retry_after=7), Failure(503), Reply("At last."))
        assert (await pieces_of(registry.model("openai/gpt-x")))[0] == "At last."
        assert pauses == [7, 2.5]
        counts = registry.provider_counts()["openai"]
        assert (counts.calls, counts.retries, counts.rate_limited, counts.server_errors) == (3, 2, 1, 1)
        await registry.close()


async def test_an_empty_account_is_not_called_again() -> None:
    async with OpenAiServer() as server, registry_for(server, ModelRegistrySettings()) as registry:
        server.script(Failure(429, "No credit.", "insufficient_quota"))
        error = await failure_of(registry.model("openai/gpt-x"))
        assert isinstance(error, ProviderCallError)
        assert (error.kind, error.retry_after) == (ModelFailure.RATE_LIMITED, math.inf)
        assert len(server.requests) == 1


async def test_a_failing_provider_is_not_called_for_a_while_and_others_are() -> None:
    async with OpenAiServer() as server, registry_for(server) as registry:
        server.script(*[Failure(500)] * 5)
        for name in "abcde":
            await failure_of(registry.model(f"openai/{name}"))
        error = await failure_of(registry.model("openai/another"))
        assert error.kind is ModelFailure.CIRCUIT_OPEN
        assert len(server.requests) == 5
        server.script(Reply("Here."))
        assert (await pieces_of(registry.model("ollama/x")))[0] == "Here."


# --- names, keys and lists --------------------------------------------------------------------------------------------


def registry_with(settings: ModelRegistrySettings | None = None, **variables: str) -> ModelRegistry:
    return ModelRegistry(settings, builtin={"parley/router": EchoModel()}, environ=variables)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("openai/x", ModelFailure.AUTH_FAILED, "set OPENAI_API_KEY"),
        ("google/x", ModelFailure.AUTH_FAILED, "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("anthropic/x", ModelFailure.AUTH_FAILED, "The key in ANTHROPIC_API_KEY has characters"),
        ("mine/x", ModelFailure.AUTH_FAILED, "set MY_KEY"),
        ("nothing/x", ModelFailure.NOT_FOUND, "parley/, anthropic/, openai/, google/, openrouter/, ollama/, mine/"),
        ("claude", ModelFailure.NOT_FOUND, "anthropic/"),
        ("openai/", ModelFailure.NOT_FOUND, "openai/"),
        ("parley/other", ModelFailure.NOT_FOUND, "Built in are: parley/router"),
        ("ollama/x", ModelFailure.PROVIDER_ERROR, "OLLAMA_HOST: Invalid URL"),
    ],
)
async def test_a_name_that_cannot_be_called_is_refused_with_the_reason(
    name: str, kind: ModelFailure, text: str
) -> None:
    settings = ModelRegistrySettings(openai_compatible=(OpenAiCompatible("mine", "http://127.0.0.1:1/v1", "MY_KEY"),))
    registry = registry_with(settings, ANTHROPIC_API_KEY="bad key", OLLAMA_HOST="ftp://x")
    with pytest.raises(ModelError) as raised:
        registry.model(name)
    assert raised.value.kind is kind
    assert text in str(raised.value)
    assert "bad key" not in str(raised.value)


async def test_a_name_that_a_provider_cannot_have_is_refused_by_the_call() -> None:
    error = await failure_of(registry_with(OPENROUTER_API_KEY=KEY).model("openrouter/no-vendor"))
    assert error.kind is ModelFailure.NOT_FOUND


async def test_without_the_extra_the_error_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MODULES", ("a_package_that_is_not_installed",))
    with pytest.raises(ModelError, match=r"pip install 'parley-a2a\[models\]'"):
        registry_with(OPENAI_API_KEY=KEY).model("openai/x")


def test_the_sdks_are_not_imported_before_a_model_is_called() -> None:
    program = """if True:
        import sys
        from parley.host.models.registry import ModelRegistry
        ModelRegistry(builtin={}, environ={"OPENAI_API_KEY": "a-key"}).model("openai/x")
        sys.exit(any(name in sys.modules for name in ("pydantic_ai", "openai", "anthropic", "google.genai")))
    """
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


async def test_a_model_is_built_once_and_a_built_in_one_is_used_as_it_is() -> None:
    registry = registry_with(OPENAI_API_KEY=KEY)
    first = registry.model("openai/x")
    assert registry.model("openai/x") is first
    for number in range(MAX_CACHED):  # the names are the tenants' choice, and may be any number
        registry.model(f"openai/{number}")
    assert registry.model("openai/x") is not first
    assert await pieces_of(registry.model("parley/router")) == ["Who are you?"]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://localhost:11434/v1"),
        ("10.0.0.5", "http://10.0.0.5:11434/v1"),
        ("gpu:80", "http://gpu/v1"),
        ("https://gpu.example/llm/", "https://gpu.example/llm/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_the_host_of_ollama_is_read_as_ollama_reads_it(text: str, url: str) -> None:
    assert resolve_endpoint(providers_by_prefix()["ollama"], {"OLLAMA_HOST": text}).base_url == url


@pytest.mark.parametrize(
    "arguments", [("openai", "http://x/v1"), ("parley", "http://x/v1"), ("A b", "http://x"), ("mine", "x")]
)
def test_a_provider_with_an_invalid_prefix_or_url_is_refused(arguments: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"[Pp]refix|URL"):
        OpenAiCompatible(*arguments)


def test_two_providers_cannot_share_a_prefix() -> None:
    mine = OpenAiCompatible("mine", "http://127.0.0.1:1/v1")
    with pytest.raises(ValueError, match="mine"):
        registry_with(ModelRegistrySettings(openai_compatible=(mine, mine)))


def test_an_endpoint_does_not_show_its_key() -> None:
    assert KEY not in repr(resolve_endpoint(providers_by_prefix()["openai"], {"OPENAI_API_KEY": KEY}))


def test_the_default_model_is_the_settings_or_the_variables_or_the_offline_one() -> None:
    assert registry_with().default_model() == "parley/router"
    assert registry_with(PARLEY_MODEL="openai/x").default_model() == "openai/x"
    chosen = ModelRegistrySettings(default_model="ollama/y")
    assert registry_with(chosen, PARLEY_MODEL="openai/x").default_model() == "ollama/y"


def test_the_list_of_models_tells_which_can_be_called() -> None:
    known = {model.id: model for model in registry_with(ANTHROPIC_API_KEY=KEY).known()}
    assert known["parley/router"] == KnownModel(id="parley/router", provider="parley", is_ready=True)
    sonnet = known["anthropic/claude-sonnet-5-5"]
    assert (sonnet.provider, sonnet.context_window, sonnet.is_ready) == ("anthropic", 1_000_000, True)
    assert sonnet.prices is not None
    assert not known["openai/gpt-6.1-sol"].is_ready


def test_the_registry_tells_what_a_call_costs() -> None:
    usage = TokenUsage(input_tokens=1_000_000)
    assert registry_with().cost_of("anthropic/claude-sonnet-5-5", usage) == 2
    assert registry_with().cost_of("mine/model-x", usage) is None
