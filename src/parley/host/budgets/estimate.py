"""What a model call can cost at most, before it is made.

    estimate(host.models, "openai/gpt-6-luna", request)  ->  Estimate(tokens=2310, cost=Decimal("0.00064"))

The tokenizers of all providers cut text into pieces of at least one byte, so a prompt has at most as many tokens as its
UTF-8 has bytes; English text has about a quarter of that. The answer has at most `max_tokens`, which providers count
reasoning into. The price is the highest that can apply to so many tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

import msgspec
from msgspec import Struct

from parley.host.models.model import ModelRequest, ModelTool

TOKENS_OF_A_MESSAGE = 16
"""What providers add to each message: its role and its ends. Four are usual."""

TOKENS_OF_A_CALL = 64
"""What providers add to a call: their own instructions, and the beginning of the answer."""

TOKENS_OF_A_TOOL = 64
"""What providers add to each function that a model may call."""

TOKENS_OF_TOOL_USE = 1_024
"""What providers add to a call with functions: instructions of how to call them. Some hundreds are usual."""


class Estimate(Struct, frozen=True):
    """An upper bound. `cost` is in the host's currency; None: the price of the model is not known."""

    tokens: int
    cost: Decimal | None


class Pricing(Protocol):
    """Knows the prices of models; `ModelRegistry` does."""

    def cost_bound(self, model: str, *, input_tokens: int, output_tokens: int) -> Decimal | None:
        """What a call with at most so many tokens costs at most; None if the price is not known."""
        ...


def estimate(prices: Pricing, model: str, request: ModelRequest) -> Estimate:
    """What a call of a model can take at most."""
    read, written = input_bound(request), request.max_tokens
    return Estimate(read + written, prices.cost_bound(model, input_tokens=read, output_tokens=written))


def input_bound(request: ModelRequest) -> int:
    """How many tokens the prompt of a request can have at most."""
    texts = [request.system, *[message.text for message in request.messages]]
    text_bytes = sum([_bytes(text) for text in texts])
    return text_bytes + TOKENS_OF_A_MESSAGE * len(texts) + TOKENS_OF_A_CALL + _tools_bound(request.tools)


def _tools_bound(tools: Sequence[ModelTool]) -> int:
    """How many tokens the descriptions of functions can have at most, in whichever form a provider writes them."""
    if not tools:
        return 0
    described = len(msgspec.json.encode([(tool.name, tool.description, tool.parameters) for tool in tools]))
    return described + TOKENS_OF_A_TOOL * len(tools) + TOKENS_OF_TOOL_USE


def _bytes(text: str) -> int:
    # Half of a surrogate pair cannot be sent as it is; its replacement has three bytes.
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
