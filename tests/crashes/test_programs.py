"""Random handlers that crash at every write: what they say is what a model says of an undisturbed run.

`make chaos SEEDS=` tries more of them.
"""

import logging
import os
from typing import Any

import pytest

from parley.protocol.tasks import TaskState
from parley.stores.memory import MemoryStore
from parley.testing.conversation import Conversation, Crash, crashable
from parley.testing.crashes import check_readers
from tests.crashes.programs import RandomProgram
from tests.suspending import suspending

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(float(os.environ.get("PARLEY_TEST_SECONDS", "180")))]

SEEDS = int(os.environ.get("PARLEY_PROGRAM_SEEDS", "12"))


async def perform(program: RandomProgram, *crashes: Crash, **options: Any) -> int:
    """Hold the conversation with these crashes, compare it with the model, and return how many writes it had."""
    async with crashable(program.agent(), others=[program.helper()], **options) as client:
        conversation = Conversation(client, ["go"], program.answers.__getitem__, crashes)
        await conversation.hold()
        check_readers(conversation)
        assert (conversation.task.status.state, program.mismatches(conversation.task)) == (TaskState.COMPLETED, {})
        return conversation.writes


async def test_what_a_random_handler_says_is_the_text_of_one_run_wherever_it_crashes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "parley")
    for seed in range(SEEDS):
        program = RandomProgram(seed)
        crashes: tuple[Crash, ...] = ()
        try:
            writes = await perform(program)
            for number in range(1, writes + 1):
                for side in ("before", "after"):
                    crashes = (Crash(side, number),)
                    await perform(program, *crashes)
            for unwritten_events in (1, 256):
                numbers = program.random.sample(range(1, writes + 9), 3)
                crashes = tuple([Crash("after", number) for number in numbers])
                store = suspending(MemoryStore(), program.random)
                await perform(program, *crashes, store=store, unwritten_events=unwritten_events)
        except BaseException:
            print(f"RandomProgram({seed}) with {crashes}: {dict(program.patterns)}")
            raise
