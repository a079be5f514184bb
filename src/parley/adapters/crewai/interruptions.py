"""Plain Python code that is interrupted in the middle: a tool, a model call or a method may report nothing for long."""

from __future__ import annotations

import ctypes
from threading import Lock, get_ident

from crewai.utilities.agent_utils import is_inside_event_loop


class InterruptibleCalls:
    """The calls that the threads of a run are in."""

    def __init__(self) -> None:
        self._threads: dict[object, int] = {}
        self._lock = Lock()  # an exception that comes after the end of its call would hit other code

    def begin(self, key: object) -> None:
        """Note that this thread begins a call. Threads with an event loop are left alone: their tasks are cancelled."""
        if not is_inside_event_loop():
            with self._lock:
                self._threads[key] = get_ident()

    def end(self, key: object) -> None:
        """Note that a call is over."""
        with self._lock:
            self._threads.pop(key, None)

    def interrupt(self, exception: type[BaseException]) -> None:
        """Raise an exception in all threads that are in a call. One that waits in C code raises it afterwards."""
        with self._lock:
            for thread in set(self._threads.values()):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))
