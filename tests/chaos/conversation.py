"""One conversation of a client with the cluster, over plain JSON-RPC: a task from its first message to its end.

What failed is tried again with the same message id; a stream that broke, or that the client cut off itself, is resumed
from its last number. Everything is noted; nothing is judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Any, TypeVar

from tests.chaos.history import (
    Acknowledged,
    Answered,
    Canceled,
    Frame,
    History,
    Refused,
    Retried,
    Sent,
    Streamed,
    WebhookRegistered,
    now,
)
from tests.chaos.plans import Plan
from tests.chaos.raw_client import CallFailedError, CallRefusedError, RawClient, state_of, text_of_task

T = TypeVar("T")

TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})
WAITING = "input-required"
TASK_NOT_CANCELABLE = -32002
UNSUPPORTED = -32004
ENDED = 2**62
"""After the last number of any task."""


class Conversation:
    """One conversation about one task. `webhook_url` is where the client accepts webhooks."""

    def __init__(
        self, client: str, plan: Plan, raw: RawClient, *, history: History, random: Random, webhook_url: str
    ) -> None:
        self.client = client
        self.plan = plan
        self.task = ""
        self.doing = "nothing"
        """The call under way, for a report of a conversation that did not end."""
        self._raw = raw
        self._history = history
        self._random = random
        self._webhook_url = webhook_url
        self._is_known = asyncio.Event()
        self._cursor: int | None = None
        self._state = "submitted"
        self._streams = random.random() < 0.6
        """Whether it follows the task by streams; otherwise it polls."""

    async def hold(self) -> None:
        """Have it, to the end of the task. Raises CallRefusedError."""
        beside: list[asyncio.Task[None]] = []
        try:
            if self.chance(0.15):
                beside.append(asyncio.create_task(self._register_webhook()))
            if self.plan.hears:
                beside.append(asyncio.create_task(self._remark()))
            if self.plan.is_endless:
                beside.append(asyncio.create_task(self._cancel()))
            await self._begin()
            while self._state not in TERMINAL:
                if self._state == WAITING:
                    await self._answer()
                elif self._streams:
                    await self._follow()
                else:
                    await self._poll()
            await asyncio.gather(*beside)
            await self._read_result()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self._random.random() < probability

    # --- messages -----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Send the message that begins the task, some with a webhook."""
        token = f"w-{self.plan.id}" if self.chance(0.2) else ""
        configuration = {"taskPushNotificationConfig": self._webhook(token)} if token else {}
        is_short = not (self.plan.hears or self.plan.is_endless)  # others do not end without further messages
        await self._send(f"m-{self.plan.id}", self.plan.text, configuration, waits=is_short and self.chance(0.4))
        if token:
            self._history.note(WebhookRegistered(now(), self.client, self.task, token, needs_after=0))

    async def _answer(self) -> None:
        await self._send(f"a-{self.plan.id}", self.plan.answer, {}, waits=self.chance(0.4))

    async def _send(self, message: str, text: str, configuration: dict[str, Any], *, waits: bool) -> None:
        """Send a message by a call or by a stream; some twice at once, as impatient callers do."""
        body: dict[str, Any] = {"messageId": message, "role": "ROLE_USER", "parts": [{"text": text}]}
        if self.task:
            body["taskId"] = self.task
        self._history.note(Sent(now(), self.client, message, "" if self.task else text, self.task))
        if self._streams and self.chance(0.6):
            params = {"message": body, "configuration": configuration}
            await self._until_done("SendStreamingMessage", lambda: self._stream(params, message))
            return
        params = {"message": body, "configuration": {**configuration, "returnImmediately": not waits}}

        async def send() -> Any:
            return await self._until_done("SendMessage", lambda: self._raw.call("SendMessage", params))

        for result in await asyncio.gather(*[send() for _ in range(2 if self.chance(0.3) else 1)]):
            self._acknowledge(message, result["task"]["id"])
            self._state = state_of(result["task"])

    def _acknowledge(self, message: str, task: str) -> None:
        self.task = task
        self._is_known.set()
        self._history.note(Acknowledged(now(), self.client, message, task))

    async def _remark(self) -> None:
        """Say something to the task at work, from wherever it is worked on."""
        await self._is_known.wait()
        await asyncio.sleep(self._random.uniform(0.0, 2.0))
        message = f"r-{self.plan.id}"
        body = {"messageId": message, "taskId": self.task, "role": "ROLE_USER", "parts": [{"text": self.plan.remark}]}
        params = {"message": body, "configuration": {"returnImmediately": True}}
        self._history.note(Sent(now(), self.client, message, "", self.task))
        result = await self._until_done("SendMessage", lambda: self._raw.call("SendMessage", params))
        self._history.note(Acknowledged(now(), self.client, message, result["task"]["id"]))

    async def _cancel(self) -> None:
        """Cancel the task. A repeated cancel finds it canceled already."""
        await self._is_known.wait()
        await asyncio.sleep(self._random.uniform(0.0, 3.0))
        try:
            task = await self._until_done("CancelTask", lambda: self._raw.call("CancelTask", {"id": self.task}))
            if state_of(task) == "canceled":
                self._history.note(Canceled(now(), self.client, self.task))
        except CallRefusedError as error:
            if error.code != TASK_NOT_CANCELABLE:
                raise

    async def _register_webhook(self) -> None:
        """Register a webhook for the task that exists already."""
        await self._is_known.wait()
        await asyncio.sleep(self._random.uniform(0.0, 1.0))
        token = f"v-{self.plan.id}"
        params = {"taskId": self.task, "id": token, **self._webhook(token)}
        method = "CreateTaskPushNotificationConfig"
        await self._until_done(method, lambda: self._raw.call(method, params))
        reached = await self._until_done("SubscribeToTask", self._last_number)
        self._history.note(WebhookRegistered(now(), self.client, self.task, token, needs_after=reached))

    async def _last_number(self) -> int:
        """The number of the last event of the task by now. Raises CallFailedError."""
        frames = self._raw.stream("SubscribeToTask", {"id": self.task}, after=None)
        try:
            async with aclosing(frames) as source:
                async for _, frame in source:
                    return frame.seq
        except CallRefusedError as error:
            if error.code != UNSUPPORTED:
                raise
            return ENDED  # such a stream has nothing to show
        raise CallFailedError("the stream showed nothing")

    def _webhook(self, token: str) -> dict[str, str]:
        return {"url": self._webhook_url, "token": token}

    # --- what the cluster says ----------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Follow the task by a stream, from the last number that was seen, or from anywhere if there is none."""
        after = self._cursor
        if after is None and self.chance(0.5):
            after = 0
        try:
            await self._until_done("SubscribeToTask", lambda: self._stream({"id": self.task}, after=after))
        except CallRefusedError as error:
            if error.code != UNSUPPORTED or after is not None:
                raise
            await self._poll()  # it has ended: a stream without a cursor has nothing to show

    async def _stream(self, params: dict[str, Any], message: str = "", *, after: int | None = None) -> None:
        """One connection of a stream. Raises CallRefusedError, and CallFailedError if the connection showed nothing."""
        method = "SendStreamingMessage" if message else "SubscribeToTask"
        cut_after = self._random.randint(1, 8) if self.chance(0.3) else None
        frames: list[Frame] = []
        ended = "given up"
        try:
            async with aclosing(self._raw.stream(method, params, after=after)) as source:
                async for task, frame in source:
                    if message and not frames:
                        self._acknowledge(message, task)
                    frames.append(frame)
                    self._see(frame)
                    is_waiting = frame.kind == "task" and frame.state == WAITING  # such a stream stays open
                    if len(frames) == cut_after or is_waiting:
                        ended = "cut by the client"
                        break
                else:
                    ended = "complete"
        except CallFailedError as error:
            if not frames:
                raise
            ended = str(error)
            self._history.note(Retried(now(), self.client, method, ended))
        finally:
            if frames or ended == "complete":
                self._history.note(Streamed(now(), self.client, self.task, after, tuple(frames), ended))

    def _see(self, frame: Frame) -> None:
        self._cursor = frame.seq
        if frame.kind != "artifact":
            self._state = frame.state

    async def _poll(self) -> None:
        task = await self._until_done("GetTask", lambda: self._raw.call("GetTask", {"id": self.task}))
        self._state = state_of(task)
        await asyncio.sleep(self._random.uniform(0.2, 1.0))

    async def _read_result(self) -> None:
        """Read the task in the end; some read all of its events again, from the first."""
        task = await self._until_done("GetTask", lambda: self._raw.call("GetTask", {"id": self.task}))
        self._history.note(Answered(now(), self.client, self.task, state_of(task), text_of_task(task)))
        if self.chance(0.2):
            await self._until_done("SubscribeToTask", lambda: self._stream({"id": self.task}, after=0))

    async def _until_done(self, doing: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of a call that is made until the cluster answers. Raises CallRefusedError."""
        self.doing = doing
        while True:
            try:
                return await attempt()
            except CallFailedError as error:
                self._history.note(Retried(now(), self.client, doing, str(error)))
                await asyncio.sleep(self._random.uniform(0.1, 0.6))

    def refusal(self, error: Exception) -> Refused:
        """The entry for an error that ended the conversation."""
        return Refused(
            now(), self.client, self.doing, self.task, getattr(error, "code", 0), f"{type(error).__name__}: {error}"
        )
