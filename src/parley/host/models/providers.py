"""Models of providers, through pydantic-ai: the only module that imports it.

Importing it takes a second or two, and the SDKs of Anthropic and Google as long again: `loading` imports this module in
a thread when a model is first called, and those SDKs are imported with their first model. Only text goes in and out;
calls of functions become commands (`tool_calls`). Errors are translated here, once: their texts hold no key and no
header. Retries are ours; those of the SDKs are off.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Sequence

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import messages as chat
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.models import Model as ChatModel
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openrouter import OpenRouterModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.providers.openrouter import OpenRouterProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from parley.host.models.endpoints import ModelEndpoint
from parley.host.models.model import ModelError, ModelFailure, ModelMessage, ModelRequest, Piece, TokenUsage
from parley.host.models.provider_calls import ProviderCallError
from parley.host.models.tool_calls import command_lines
from parley.safe_text import printable_line

MAX_QUOTED = 300
"""Longest quotation from a provider's error."""

_CREDENTIALS = re.compile(r"\b(?:(?:sk|org|proj|user)[-_]|AIza)[\w*-]{6,}")
"""Keys, also shortened ones, and the names of accounts, which providers quote in errors."""

# The first class that an error is an instance of decides.
_KINDS: Sequence[tuple[type[ModelAPIError], ModelFailure]] = (
    (ModelAuthenticationError, ModelFailure.AUTH_FAILED),
    (ModelNotFoundError, ModelFailure.NOT_FOUND),
    (ModelContextWindowExceededError, ModelFailure.REQUEST_TOO_LARGE),
    (ModelRequestRejectedError, ModelFailure.INVALID_REQUEST),
    (ModelQuotaExceededError, ModelFailure.RATE_LIMITED),
    (ModelRateLimitError, ModelFailure.RATE_LIMITED),
)

_PHRASES = {
    ModelFailure.RATE_LIMITED: "the provider's limit is reached",
    ModelFailure.INVALID_REQUEST: "the provider rejected the request",
    ModelFailure.NOT_FOUND: "the provider does not have this model",
    ModelFailure.REQUEST_TOO_LARGE: "the conversation is too long for this model",
    ModelFailure.PROVIDER_ERROR: "the provider failed",
}


def open_connections(*, connect_seconds: float, silence_seconds: float) -> httpx2.AsyncClient:
    """The connections that models of all providers share. They are the caller's to close."""
    limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=100)
    return httpx2.AsyncClient(timeout=httpx2.Timeout(silence_seconds, connect=connect_seconds), limits=limits)


def build_model(name: str, endpoint: ModelEndpoint, *, http: httpx2.AsyncClient) -> ProviderModel:
    """The model of a provider with this name, which has no prefix.

    Raises:
        ModelError: the provider has no model with such a name.
    """
    try:
        return ProviderModel(_chat_model(name, endpoint, http), endpoint)
    except UserError as error:
        raise ModelError(f"{endpoint.provider}/{name}: {printable_line(str(error))}", ModelFailure.NOT_FOUND) from None


def _chat_model(name: str, endpoint: ModelEndpoint, http: httpx2.AsyncClient) -> ChatModel:
    url, key = endpoint.base_url, endpoint.api_key
    match endpoint.protocol:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(name, provider=AnthropicProvider(api_key=key, base_url=url, http_client=http))
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(name, provider=GoogleProvider(api_key=key, base_url=url, http_client=http))
        case "openai":
            profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
            provider = OpenAIProvider(base_url=url, api_key=key, http_client=http)
            return OpenAIChatModel(name, provider=provider, profile=profile)
        case "openrouter":
            client = AsyncOpenAI(base_url=url, api_key=key, http_client=http)
            return OpenRouterModel(name, provider=OpenRouterProvider(openai_client=client))
        case "openai-compatible":
            assert url is not None
            # Ollama and others know only the older of OpenAI's two names of this limit.
            profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
            compatible = OpenAICompatibleProvider(endpoint.provider, base_url=url, api_key=key, http_client=http)
            return OpenAIChatModel(name, provider=compatible, profile=profile)


class ProviderModel:
    """A model that a provider runs."""

    def __init__(self, model: ChatModel, endpoint: ModelEndpoint) -> None:
        self._model = model
        self._endpoint = endpoint

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        """Text as the provider sends it, and in the end the tokens.

        Raises:
            ModelError: the provider refuses the call, fails, or breaks the stream off.
        """
        try:
            async with model_request_stream(
                self._model,
                _chat_messages(request),
                model_settings=self._settings(request),
                model_request_parameters=_functions(request),
                instrument=False,
            ) as response:
                said: list[str] = []
                async for event in response:
                    if text := _text_of(event):
                        said.append(text)
                        yield text
                if not _has_ended(response):
                    raise self._call_error("it ended the stream too early")
                if commands := command_lines("".join(said), _calls_of(response), request.tools):
                    yield commands
                yield _tokens_of(response.usage)
        # `from None`: what an SDK raises holds the response, which may repeat the key.
        except AgentRunError as error:
            raise self._translated(error) from None
        except httpx2.HTTPError as error:
            raise self._call_error(type(error).__name__) from None

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings(max_tokens=request.max_tokens, max_retries=0)
        profile = self._model.profile
        # Models that reason reject a temperature.
        if not (profile.get("openai_supports_reasoning") or profile.get("anthropic_disallows_sampling_settings")):
            settings["temperature"] = request.temperature
        return settings

    def _translated(self, error: AgentRunError) -> ProviderCallError:
        """An error of pydantic-ai as ours."""
        status = error.status_code if isinstance(error, ModelHTTPError) and not error.in_stream else None
        kind = _kind_of(error)
        if kind is ModelFailure.AUTH_FAILED:
            names = " or ".join(self._endpoint.key_variables)
            text = f"{self._endpoint.provider} refused the key{f' in {names}' if names else ''}."
        else:
            text = self._text(kind, _quotable(error), status)
        is_final = isinstance(error, ModelQuotaExceededError)  # the account has no credit left
        retry_after = error.retry_after if isinstance(error, ModelAPIError) else None
        return ProviderCallError(text, kind, status=status, retry_after=math.inf if is_final else retry_after)

    def _call_error(self, reason: str) -> ProviderCallError:
        return ProviderCallError(self._text(ModelFailure.PROVIDER_ERROR, reason), ModelFailure.PROVIDER_ERROR)

    def _text(self, kind: ModelFailure, quotation: str, status: int | None = None) -> str:
        name = f"{self._endpoint.provider}/{self._model.model_name}"
        phrase = f"{_PHRASES[kind]} ({status})" if status is not None else _PHRASES[kind]
        key = self._endpoint.api_key
        quoted = quotation.replace(key, "…") if key else quotation
        quoted = printable_line(_CREDENTIALS.sub("…", quoted))[:MAX_QUOTED]
        return f"{name}: {phrase}: {quoted}" if quoted else f"{name}: {phrase}."


def _chat_messages(request: ModelRequest) -> list[chat.ModelMessage]:
    return [_chat_message(message, request.system or None) for message in request.messages]


def _chat_message(message: ModelMessage, system: str | None) -> chat.ModelMessage:
    if message.role == "assistant":
        return chat.ModelResponse(parts=[chat.TextPart(message.text)])
    return chat.ModelRequest(parts=[chat.UserPromptPart(message.text)], instructions=system)


def _functions(request: ModelRequest) -> ModelRequestParameters:
    """The functions that the model may call."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)


def _calls_of(response: StreamedResponse) -> list[tuple[str, object]]:
    """The functions that the model has called, with their arguments."""
    return [(part.tool_name, part.args) for part in response.get().parts if isinstance(part, chat.ToolCallPart)]


def _text_of(event: chat.ModelResponseStreamEvent) -> str:
    match event:
        case chat.PartStartEvent(part=chat.TextPart(content=text)):
            return text
        case chat.PartDeltaEvent(delta=chat.TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""


def _has_ended(response: StreamedResponse) -> bool:
    """Whether the provider said why it stopped. Without that, a proxy may have cut the stream."""
    return bool(response.finish_reason or (response.provider_details or {}).get("finish_reason"))


def _tokens_of(usage: RequestUsage) -> TokenUsage:
    return TokenUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_create_tokens=usage.cache_write_tokens,
    )


def _kind_of(error: AgentRunError) -> ModelFailure:
    for category, kind in _KINDS:
        if isinstance(error, category):
            return kind
    match error.status_code if isinstance(error, ModelHTTPError) else None:
        case 413:
            return ModelFailure.REQUEST_TOO_LARGE
        case int(status) if 400 <= status < 500 and status not in (408, 409):  # timeout, conflict
            return ModelFailure.INVALID_REQUEST
        case _:
            return ModelFailure.PROVIDER_ERROR


def _quotable(error: AgentRunError) -> str:
    """What the provider itself says about an error; the error's own text would quote the whole response."""
    if not isinstance(error, ModelHTTPError):
        return error.message
    match error.body:
        case {"error": {"message": str(text)}} | {"message": str(text)} | {"error": str(text)}:
            return text
        case _:
            return ""
