"""Ctrl-C that ends a long step early and keeps its findings. Imports no torch."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_LOOK_SECONDS = 0.5


class Interruption:
    """A flag, set by the first Ctrl-C inside ``watching``. The second Ctrl-C raises KeyboardInterrupt as usual."""

    def __init__(self, said: str = "") -> None:
        """``said`` goes to standard error at the first Ctrl-C."""
        self.is_set = False
        self._said = said

    @contextmanager
    def passed_on(self, end: Callable[[], object]) -> Iterator[None]:
        """Calls ``end`` once the flag is set, and again every half second, since a process may not listen yet."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOK_SECONDS):
                if self.is_set:
                    end()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Catches the first Ctrl-C. Only the main thread may enter. If Ctrl-C is ignored already, it stays ignored."""
        before = signal.getsignal(signal.SIGINT)
        if before is signal.SIG_IGN:
            yield
            return

        def note(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            self.is_set = True
            sys.stderr.write(self._said)

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
