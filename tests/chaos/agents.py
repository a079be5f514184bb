"""The agent that replicas serve while faults are injected: it does what the plan in the message says.

It streams words, takes steps, asks, sleeps, waits for a remark, or works until it is canceled. Each run has a random
id, its nonce. Notes with the nonce and the worker go into the log beside the words, and the result of each step holds
the nonce. So the log itself says which run wrote what, and the text stays the same whoever wrote it.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

from parley import Agent, Turn
from parley.agents.turn import run_of
from tests.chaos.plans import read_plan
from tests.chaos.side_file import SideFile

RUN_NOTE = "chaos-run"
"""The name of the notes that say which run wrote the events around them."""

MANY_ATTEMPTS = 10_000
"""A run may be killed any number of times before it has made progress; that is not the agent's fault."""


def chaos_agent(side_file: SideFile) -> Agent:
    """The agent."""
    agent = Agent("Chaos", description="Does what a plan says.", run_attempts=MANY_ATTEMPTS)

    @agent.on_message
    async def work(turn: Turn) -> Any:
        plan, run = read_plan(turn.text), run_of(turn)
        nonce, worker, task = uuid4().hex[:12], run.engine.lease.worker, turn.task_id
        side_file.run_began(task, nonce, worker)

        def note() -> None:
            run.emissions.note(RUN_NOTE, {"run": nonce, "worker": worker})

        async def take_step(name: str) -> dict[str, str]:
            side_file.effect_done(task, name, nonce)
            return {"run": nonce, "step": name}

        note()
        for number in range(plan.words):
            if number == plan.ask:
                answer = (await turn.ask(f"What now, {plan.id}?")).text
                yield f"({answer}) "
            if number == plan.sleep:
                await turn.sleep(1.5)
            if number in plan.steps:
                name = f"step-{number}"
                assert (await turn.step(name, take_step, name))["step"] == name
            await asyncio.sleep(plan.pause)
            note()
            yield plan.word(number)
        while plan.is_endless:
            await asyncio.sleep(0.5)
            note()
        if plan.hears:
            expected = 2 if plan.ask is None else 3
            while len(turn.history) < expected:
                await asyncio.sleep(0.05)
            yield f"[{turn.history[-1].text}]"

    return agent
