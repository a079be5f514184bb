"""What calls cost."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from parley.host.models.model import TokenUsage
from parley.host.models.prices import PriceFileError, load_prices

CALL = TokenUsage(input_tokens=1_000, output_tokens=100)
DAY = date(2026, 11, 30)


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("anthropic/claude-sonnet-5-5", CALL, "0.003"),
        ("anthropic/claude-sonnet-5-5-20260901", CALL, "0.003"),
        ("google/gemini-3.5-flash-lite", CALL, "0.00055"),
        ("gemini/gemini-3.5-flash-lite", CALL, "0.00055"),
        ("anthropic/claude-sonnet-5-5", TokenUsage(1_000, 0, 600, 100), "0.00091"),
        ("openai/gpt-5-mini", TokenUsage(1_000_000, 0, 0, 1_000_000), "0.25"),
        ("openai/gpt-6.1-sol", TokenUsage(272_000, 1_000_000), "10.544"),
        ("openai/gpt-6.1-sol", TokenUsage(272_001, 1_000_000), "16.088004"),
        ("parley/router", CALL, "0"),
        ("ollama/qwen3.8:27b", CALL, "0"),
    ],
    ids=[
        "plain",
        "dated",
        "google",
        "alias",
        "cached tokens are part of the input",
        "writes to the cache cost as much as input by default",
        "the longest prompt at the usual price",
        "a long prompt",
        "built in",
        "local",
    ],
)
def test_a_call_costs_what_its_tokens_cost(model: str, usage: TokenUsage, dollars: str) -> None:
    assert load_prices().cost_of(model, usage, day=DAY) == Decimal(dollars)


def test_the_cost_of_an_unknown_model_is_unknown() -> None:
    assert load_prices().cost_of("mine/model-x", CALL, day=DAY) is None


def test_a_file_replaces_and_adds_models(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('["openai/gpt-5-mini"]\ninput = 1\noutput = 0\n["mine/model-x"]\ninput = 0\noutput = 0.1\n')
    prices = load_prices(file)
    assert prices.cost_of("openai/gpt-5-mini", CALL, day=DAY) == Decimal("0.001")
    assert prices.cost_of("mine/model-x", CALL, day=DAY) == Decimal("0.00001")
    assert prices.cost_of("anthropic/claude-sonnet-5-5", CALL, day=DAY) == Decimal("0.003")


def test_prices_of_a_file_apply_from_their_day_and_those_before_stay(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        '[["openai/gpt-5-mini"]]\neffective = 2027-01-01\ninput = 3\noutput = 0\n'
        '[["openai/gpt-5-mini"]]\neffective = 2026-12-01\ninput = 2\noutput = 0\n'
        '["mine/model-x"]\neffective = 2026-12-01\ninput = 1\noutput = 0\n'
    )
    prices, days = load_prices(file), (DAY, date(2026, 12, 1), date(2027, 5, 5))
    costs = [prices.cost_of("openai/gpt-5-mini", CALL, day=day) for day in days]
    assert costs == [Decimal("0.00045"), Decimal("0.002"), Decimal("0.003")]
    assert [prices.cost_of("mine/model-x", CALL, day=day) is None for day in days] == [True, False, False]
    assert "mine/model-x" not in prices.models(DAY)


def test_a_file_in_another_currency_replaces_the_whole_table(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('currency = "EUR"\n["mine/model-x"]\ninput = 1\noutput = 1\n')
    prices = load_prices(file)
    assert (load_prices().currency, prices.currency) == ("USD", "EUR")
    assert prices.cost_of("mine/model-x", CALL, day=DAY) == Decimal("0.0011")
    assert prices.cost_of("openai/gpt-5-mini", CALL, day=DAY) is None


@pytest.mark.parametrize(
    ("model", "input_tokens", "cost"),
    [("openai/gpt-6.1-sol", 272_000, "0.69"), ("openai/gpt-6.1-sol", 272_001, "1.375005"), ("parley/router", 9, "0")],
    ids=["all input may be written to the cache", "a long prompt", "built in"],
)
def test_the_bound_of_a_call_has_the_highest_price_that_may_apply(model: str, input_tokens: int, cost: str) -> None:
    bound = load_prices().cost_bound(model, input_tokens=input_tokens, output_tokens=1_000, day=DAY)
    assert bound == Decimal(cost)


@pytest.mark.parametrize(
    "text",
    [
        "[",
        '["a/b"]\ninput = 1',
        '["a/b"]\ninput = -1\noutput = 1',
        '["a/b"]\ninput = 1e99\noutput = 1',
        '["a/b"]\ninput = 1\noutput = 1\ncached = 1',
        '["a/b"]\ninput = 1\noutput = 1\neffective = "soon"',
        '[["a/b"]]\ninput = 1\noutput = 1\n[["a/b"]]\ninput = 2\noutput = 1',
        'currency = "euro"',
        "input = 1",
        None,
    ],
    ids=[
        "not TOML",
        "no output",
        "negative",
        "too much",
        "unknown key",
        "no date",
        "two at once",
        "no currency",
        "no model",
        "no file",
    ],
)
def test_an_invalid_file_is_refused_with_its_name(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "prices.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PriceFileError, match=r"prices\.toml"):
        load_prices(file)


def test_every_model_of_the_table_has_a_context_window_and_sensible_prices() -> None:
    for name, model in load_prices().models(DAY).items():
        assert model.context_window, name
        assert 0 < model.input < model.output, name
        assert model.cache_read is None or model.cache_read < model.input, name
        assert model.long_prompt is None or model.long_prompt.input > model.input, name
