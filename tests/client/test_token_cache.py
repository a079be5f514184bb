"""Tokens in memory: for whom they are fetched, and how long they are kept."""

from __future__ import annotations

import asyncio

import pytest

from parley.client.credentials.token_cache import TokenCache
from parley.client.credentials.token_store import Tokens
from parley.client.errors import CredentialsError


def test_one_cache_serves_one_event_loop_after_another() -> None:
    """As a program has it that calls asyncio.run for each job."""
    cache = TokenCache(lambda: 100.0)
    fetched = 0

    async def fetch() -> Tokens:
        nonlocal fetched
        fetched += 1
        await asyncio.sleep(0)
        return Tokens("t", 0.0)  # which nobody can use, so that all fetch

    async def job() -> None:
        await asyncio.gather(*(cache.get(("key",), fetch, refused=None) for _ in range(3)))

    for _ in range(2):
        asyncio.run(job())
    assert fetched == 6


@pytest.mark.anyio
async def test_all_who_wait_for_a_server_that_fails_hear_of_one_failure() -> None:
    cache = TokenCache(lambda: 100.0)
    asked: list[str] = []

    async def fetch() -> Tokens:
        asked.append("asked")
        await asyncio.sleep(0)
        raise CredentialsError("The server is away")

    getting = [cache.get(("key",), fetch, refused=None) for _ in range(3)]
    outcomes = await asyncio.gather(*getting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["The server is away"] * 3
    assert asked == ["asked"]


@pytest.mark.anyio
async def test_tokens_that_have_ended_are_not_kept() -> None:
    now = 0.0
    cache = TokenCache(lambda: now)

    async def fetch() -> Tokens:
        return Tokens("t", now + 60)

    for _ in range(5):
        await cache.get((str(now),), fetch, refused=None)
        now += 100
    assert len(cache._tokens) == 1
