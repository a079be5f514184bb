"""Processes to kill: servers that deliver what the outbox of a database file holds, and die at a step that is named.

    python delivering_process.py FILE

For each number in a line of its input, it forks a server and prints its process id, and when that has ended how. The
steps of the server's deliveries are counted, before and after each call of the store and of the webhook; at the one
with the number it kills itself with SIGKILL (0: never). It ends when the outbox is empty. Forking spares the imports.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from parley import Agent, Turn
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy

LIMITS = DeliveryLimits(first_pause=0.01, longest_pause=0.02, attempts=100_000)


class Steps:
    """Counts steps, and ends the process at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._count = 0

    def step(self) -> None:
        self._count += 1
        if self._count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The same call, with a step before it and one after it."""

        async def counted(*values: Any, **named: Any) -> Any:
            self.step()
            result = None
            try:
                result = await call(*values, **named)
            finally:
                self.step()
            return result

        return counted


def cook() -> Agent:
    agent = Agent("Cook")

    @agent.on_message
    async def answer(turn: Turn) -> str:
        return "done"

    return agent


async def main(file: str, last: int) -> None:
    app = App(cook(), store=f"sqlite:///{file}", webhooks=WebhookPolicy(allow_private=True), delivery_limits=LIMITS)
    steps, outbox = Steps(last), app.store.outbox
    for name in ("undelivered", "claim", "webhooks", "note_failure", "mark_delivered"):
        setattr(outbox, name, steps.around(getattr(outbox, name)))
    sender: Any = app._sender  # pyright: ignore[reportPrivateUsage]
    sender.send = steps.around(sender.send)
    async with app.running():
        while await outbox.backlog():
            await asyncio.sleep(0.01)


def fork_servers(file: str) -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(main(file, int(line)))
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    fork_servers(sys.argv[1])
