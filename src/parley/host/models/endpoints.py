"""The providers by the prefix of a model's name, and what a call of each needs: a protocol, a URL and a key.

URLs and keys come from the environment of the process; `OpenAiCompatible` adds a provider. This module calls nothing
and knows no SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from parley.host.models.model import ModelError, ModelFailure
from parley.network.urls import InvalidUrlError, parse_url

WireProtocol: TypeAlias = Literal["anthropic", "google", "openai", "openrouter", "openai-compatible"]

BUILTIN_PREFIX = "parley"
ALIASES = {"gemini": "google"}
"""Other spellings of prefixes."""

OLLAMA_PORT = 11434

_PREFIX = re.compile(r"[a-z][a-z0-9_-]*")
_KEY = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class OpenAiCompatible:
    """A provider that speaks the OpenAI protocol: `OpenAiCompatible("myllm", "http://10.0.0.5:8000/v1")` makes
    `myllm/model-x` a model.

    Raises:
        ValueError: the prefix or the URL is invalid.
    """

    prefix: str
    base_url: str
    key_env: str | None = None
    """The environment variable that holds the key; None if the provider needs none."""

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ValueError(f"Invalid prefix: {self.prefix!r}. Use lower-case letters, digits, - and _.")
        if self.prefix in RESERVED_PREFIXES:
            raise ValueError(f"The prefix {self.prefix!r} already has a meaning.")
        try:
            parse_url(self.base_url)
        except InvalidUrlError as error:
            raise ValueError(f"{self.prefix}: {error.message}") from None


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider before its URL and key are known."""

    prefix: str
    protocol: WireProtocol
    key_variables: tuple[str, ...] = ()
    """The variables that may hold the key, the preferred one first; empty if there is no key."""
    url_variable: str | None = None
    """The variable with a URL to call instead of `base_url`."""
    base_url: str | None = None
    """None for the URL that the provider's SDK knows."""

    def api_key(self, environ: Mapping[str, str]) -> str | None:
        """The key in the environment; None if there is none, or none is needed."""
        return next((key for name in self.key_variables if (key := environ.get(name, "").strip())), None)


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """Where the models of a provider are called."""

    provider: str
    protocol: WireProtocol
    base_url: str | None
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]


PROVIDERS = (
    Provider("anthropic", "anthropic", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    Provider("openai", "openai", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    Provider("google", "google", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
    Provider(
        "openrouter", "openrouter", ("OPENROUTER_API_KEY",), "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"
    ),
    Provider("ollama", "openai-compatible", (), "OLLAMA_HOST", f"http://localhost:{OLLAMA_PORT}/v1"),
)

RESERVED_PREFIXES = {BUILTIN_PREFIX, *ALIASES, *(provider.prefix for provider in PROVIDERS)}


def providers_by_prefix(compatible: Iterable[OpenAiCompatible] = ()) -> dict[str, Provider]:
    """All providers.

    Raises:
        ValueError: two have the same prefix.
    """
    providers = {provider.prefix: provider for provider in PROVIDERS}
    for added in compatible:
        if added.prefix in providers:
            raise ValueError(f"Two providers have the prefix {added.prefix!r}.")
        key = () if added.key_env is None else (added.key_env,)
        providers[added.prefix] = Provider(added.prefix, "openai-compatible", key, base_url=added.base_url)
    return providers


def canonical_name(name: str) -> str:
    """The name of a model with the prefix that its provider goes by: `gemini/x` becomes `google/x`."""
    prefix, slash, rest = name.partition("/")
    return f"{ALIASES.get(prefix, prefix)}{slash}{rest}"


def resolve_endpoint(provider: Provider, environ: Mapping[str, str]) -> ModelEndpoint:
    """Where a provider is called, with the key from the environment.

    Raises:
        ModelError: the key is missing or malformed, or the environment holds an invalid URL.
    """
    key = provider.api_key(environ)
    names = " or ".join(provider.key_variables)
    if provider.key_variables and key is None:
        raise ModelError(f"Models of {provider.prefix} need a key: set {names}.", ModelFailure.AUTH_FAILED)
    if key is not None and not _KEY.fullmatch(key):  # errors of HTTP libraries would quote it
        raise ModelError(f"The key in {names} has characters that no key has.", ModelFailure.AUTH_FAILED)
    return ModelEndpoint(provider.prefix, provider.protocol, _base_url(provider, environ), key, provider.key_variables)


def _base_url(provider: Provider, environ: Mapping[str, str]) -> str | None:
    variable = provider.url_variable
    if variable is None or not (text := environ.get(variable, "").strip()):
        return provider.base_url
    try:
        if variable == "OLLAMA_HOST":
            return _ollama_url(text)
        parse_url(text)
    except InvalidUrlError as error:
        raise ModelError(f"{variable}: {error.message}") from None
    return text


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` as Ollama itself reads it: without a scheme, the port is 11434 unless it is given."""
    url = parse_url(host if "://" in host else f"http://{host}")
    has_default_port = "://" not in host and not url.has_port
    authority = f"{url.authority}:{OLLAMA_PORT}" if has_default_port else url.authority
    return f"{url.scheme}://{authority}{url.path.rstrip('/')}/v1"
