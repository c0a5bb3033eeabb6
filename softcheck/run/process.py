"""A worker process as the parent sees it: started with spawn semantics, spoken to over a pipe, replaced when it dies."""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from softcheck.errors import NothingRunError, SoftcheckError
from softcheck.run.protocol import NoDevice, Ready, Reply, Request, decode_reply, encode_request

if TYPE_CHECKING:
    from softcheck.run.calls import Call

DeviceChoice = Literal["auto", "cuda", "interpreter"]

_START_SECONDS = 180.0
"""Importing torch and opening a GPU can take this long on a cold, busy machine."""


class WorkerDiedError(SoftcheckError):
    """The worker process ended, or was ended, in the middle of a request."""

    def __init__(self, message: str, *, timed_out: bool) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Worker:
    """One worker process. Not thread-safe: one thread owns it."""

    def __init__(self, device: DeviceChoice, *, check_heap: bool = False) -> None:
        """Starts the process, with glibc's heap checks where asked for (``can_check_heap`` says whether there are any)."""
        self._connection, theirs = Pipe()
        self._stderr: collections.deque[bytes] = collections.deque(maxlen=40)
        self._process = start(device, theirs, check_heap=check_heap)
        theirs.close()
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()
        first = self._receive(_START_SECONDS)
        if isinstance(first, NoDevice):
            self.close()
            raise NothingRunError(first.message)
        if not isinstance(first, Ready):
            self.close()
            raise SoftcheckError(f"the worker answered {first!r} at its start, expected Ready")
        self.ready = first
        self.loaded: set[str] = set()
        """Variants that were loaded, and called once, in this process."""
        self.calls: list[Call] = []
        """Calls that have begun in this process, in order: each may have left what ends it later."""

    @property
    def served(self) -> set[str]:
        """Variants that have run in this process."""
        return self.loaded | {call.variant for call in self.calls}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, request: Request, *, until: type[Reply] | tuple[type[Reply], ...], seconds: float) -> Iterator[Reply]:
        """Sends a request and yields replies up to and including the first of the ``until`` types.

        ``seconds`` limits the wait for each reply. Raises WorkerDiedError where the process ends or the limit passes; the
        process is dead then.
        """
        try:
            self._connection.send_bytes(encode_request(request))
        except OSError:
            raise self._died(timed_out=False) from None
        while True:
            reply = self._receive(seconds)
            yield reply
            if isinstance(reply, until):
                return

    def interrupt(self) -> None:
        """Asks the process to end its request early, with what it has; most requests take no notice."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        # The whole group: what a variant started must not outlive its worker.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=5.0)
        if self._process.stderr is not None and not self._drain.is_alive():
            self._process.stderr.close()

    def _receive(self, seconds: float) -> Reply:
        try:
            if not self._connection.poll(seconds):
                raise self._died(timed_out=True, seconds=seconds)
            reply: Reply = decode_reply(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._died(timed_out=False) from None
        return reply

    def _died(self, *, timed_out: bool, seconds: float = 0.0) -> WorkerDiedError:
        if not timed_out:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5.0)
        code = self._process.poll()
        self.close()
        if timed_out:
            return WorkerDiedError(f"no answer within {seconds:g} s; the worker was ended", timed_out=True)
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        tail = b"".join(list(self._stderr)).decode(errors="replace").strip().splitlines()
        said = f"; its last words: {' '.join(tail[-1].split())[:200]}" if tail else ""
        return WorkerDiedError(f"the worker process ended with {how}{said}", timed_out=False)

    def _read_stderr(self) -> None:
        """Keeps the last lines only, so that a variant that prints megabytes fills nothing and blocks nothing."""
        stream = self._process.stderr
        assert stream is not None
        while line := stream.readline(4096):
            self._stderr.append(line)


_HEAP_CHECKER = "libc_malloc_debug.so.0"
"""Part of glibc since 2.34. With MALLOC_CHECK_=3 it ends a process that frees memory beside which something was written."""


def can_check_heap() -> bool:
    """Whether glibc's heap checks are there: the checker must lie beside the C library that this process uses."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return False
    libraries = {Path(line.split()[-1]) for line in maps.splitlines() if line.endswith("/libc.so.6")}
    return any(library.with_name(_HEAP_CHECKER).exists() for library in libraries)


def start(device: DeviceChoice, theirs: Connection, *, check_heap: bool) -> subprocess.Popen[bytes]:
    """The process of a worker, in a process group of its own, that answers over ``theirs``; see ``Worker``."""
    environment = dict(os.environ)
    # Triton reads this when a kernel is decorated; "auto" decides in the worker, which knows whether there is a GPU.
    environment.pop("TRITON_INTERPRET", None)
    if check_heap:
        environment["MALLOC_CHECK_"] = "3"
        environment["LD_PRELOAD"] = " ".join(filter(None, [_HEAP_CHECKER, environment.get("LD_PRELOAD")]))
    command = [sys.executable, "-m", "softcheck.run.worker", device, str(theirs.fileno())]
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        # Ctrl-C is the parent's to handle; it still wants the results that are under way.
        start_new_session=True,
    )
