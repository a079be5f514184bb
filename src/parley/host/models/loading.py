"""Models of providers that are loaded when they are first called.

Importing the SDKs takes seconds, so it happens in a thread, and a host without such models does not pay for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from parley.host.models.closing import closing_stream
from parley.host.models.endpoints import ModelEndpoint
from parley.host.models.model import ModelError, ModelRequest, Piece

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from parley.host.models.providers import ProviderModel

INSTALL_MODELS = "pip install 'parley-a2a[models]'"
MODULES = ("pydantic_ai", "openai", "anthropic", "google", "google.genai")


def check_installed() -> None:
    """Check that models of providers can be loaded.

    Raises:
        ModelError: the extra is not installed.
    """
    if not all(find_spec(name) for name in MODULES):
        raise ModelError(f"Models of providers are not installed: {INSTALL_MODELS}")


class ProviderLoader:
    """Loads models, which share their connections."""

    def __init__(self, *, connect_seconds: float, silence_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._silence_seconds = silence_seconds
        self._http: AsyncClient | None = None
        self._lock = threading.Lock()

    async def load(self, name: str, endpoint: ModelEndpoint) -> ProviderModel:
        """A model, ready to be called.

        Raises:
            ModelError: the provider has no model with such a name.
        """
        return await asyncio.to_thread(self._load, name, endpoint)

    def _load(self, name: str, endpoint: ModelEndpoint) -> ProviderModel:
        from parley.host.models.providers import build_model, open_connections

        with self._lock:
            if self._http is None:
                self._http = open_connections(
                    connect_seconds=self._connect_seconds, silence_seconds=self._silence_seconds
                )
        return build_model(name, endpoint, http=self._http)

    async def close(self) -> None:
        """Close the connections. Streams that are still open fail."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


class LoadedModel:
    """A model that is loaded by its first call."""

    def __init__(self, name: str, endpoint: ModelEndpoint, loader: ProviderLoader) -> None:
        self._name = name
        self._endpoint = endpoint
        self._loader = loader
        self._model: ProviderModel | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece]:
        """The stream of the model.

        Raises:
            ModelError: the model does not exist, or fails.
        """
        if self._model is None:
            self._model = await self._loader.load(self._name, self._endpoint)
        async with closing_stream(self._model, request) as pieces:
            async for piece in pieces:
                yield piece
