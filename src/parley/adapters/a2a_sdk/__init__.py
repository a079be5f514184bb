"""Executors of a2a-sdk, 1.x and 0.3, as agents: `adapt` makes one of an executor."""

from parley.adapters.a2a_sdk.adapter import adapt as adapt
