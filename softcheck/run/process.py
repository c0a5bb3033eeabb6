"""A worker process as the parent sees it: spawned, addressed over a pipe, and replaced when it dies."""

import collections
import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

from softcheck.calling import activity
from softcheck.calling.activity import Phase
from softcheck.contract import FindingKind, Violation
from softcheck.errors import NothingRunError, SoftcheckError
from softcheck.run.forking import ForkedWorker, fork_worker
from softcheck.run.protocol import (
    LAST,
    Call,
    Failed,
    Measured,
    Ready,
    Reply,
    Request,
    Started,
    TrialDone,
    decode_reply,
    encode_request,
    is_fatal,
)
from softcheck.variants.recognised import Recognised

DeviceChoice = Literal["auto", "cuda", "interpreter"]

_START_SECONDS = 180.0
"""Seconds until a worker is ready. Importing torch and opening a GPU can take this long on a cold, busy machine."""


PREPARING_SECONDS = 60.0
"""Seconds for an import, a variant's first call in a process, or a compilation. If a call may take less than a fifth of
that, the limit is ``_TIMES`` as long as for a call."""

_TIMES = 5.0

OWN_SECONDS = 120.0
"""Seconds for softcheck's own work between two calls."""

_LOOK_SECONDS = 0.25

_LONGER = 1.2
"""Multiple of its limit from which on a wait is told to be longer for the machine's load."""


@dataclass(eq=False)
class WorkerDiedError(SoftcheckError):
    """Raised if the worker process ended, or was ended, in the middle of a request."""

    message: str
    _: KW_ONLY
    timed_out: bool = False
    waited: float = 0.0
    """Seconds waited until the timeout; 0 if there was none."""
    was_preparing: bool = False
    """True if the timeout came during an import, a compilation, or a first call, which may do either."""
    is_of_host: bool = False
    """True if all processes of the device ended with it, so that another's call may be the cause."""
    reply: Measured | TrialDone | None = None
    """The last answer of a process that still answered, but can't use its device any more. It tells more of the crash than the
    message does, such as the sizes of the trial."""

    @property
    def kind(self) -> FindingKind:
        """The kind of finding that the end is."""
        return FindingKind.TIMEOUT if self.timed_out else FindingKind.CRASH

    def violation(self, expected: str = "expected an output") -> Violation:
        """Returns the end as a broken promise of the variant that ran."""
        return Violation(self.kind, f"{self}; {expected}")


class Waits(NamedTuple):
    """Seconds that each phase of a worker may take, by its number; more on a machine with more tasks than cores."""

    own: float
    calling: float
    preparing: float


Limits = Callable[[str | None], Waits]
"""The limits while a variant runs, or None: softcheck's own work alone. They are asked for before each reply."""


def waits(seconds: float) -> Waits:
    """Returns the limits for requests of which a call may take ``seconds``."""
    preparing = max(seconds, min(PREPARING_SECONDS, _TIMES * seconds))
    return Waits(calling=seconds, preparing=preparing, own=max(OWN_SECONDS, seconds))


def busy() -> float:
    """Factor by which a process may take longer now than on an idle machine: tasks per core, from 1 to 2."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return min(2.0, max(1.0, load / (os.cpu_count() or 1)))


class Worker:
    """One worker process. Not thread-safe: one thread owns it."""

    facts: Mapping[str, Recognised] = MappingProxyType({})
    """What is known of variants' calls, by name; each request says it of the variants that it runs."""

    def __init__(
        self, device: DeviceChoice, *, check_heap: bool = False, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Starts the process with these variables beside its parent's. With ``check_heap``, glibc checks its heap (``can_check_heap`` tells whether it can)."""
        self._connection, theirs = Pipe()
        self._stderr: collections.deque[bytes] = collections.deque(maxlen=40)
        with tempfile.TemporaryFile() as shown:
            shown.truncate(activity.SIZE)
            self._activity = mmap.mmap(shown.fileno(), activity.SIZE)
            # There is a worker for each core, and OpenBLAS reads its variable once, when numpy loads it. Triton reads its own when a
            # kernel is decorated; the worker sets it, which knows whether there is a GPU.
            given = {"OPENBLAS_NUM_THREADS": "1", **os.environ, **environment}
            given.pop("TRITON_INTERPRET", None)
            # Forked where one has imported torch already, unless its heap is to be checked.
            forked = None if check_heap else fork_worker(device, given, theirs, shown.fileno())
            self._process: subprocess.Popen[bytes] | ForkedWorker
            self._process = forked or _started(device, theirs, shown.fileno(), given, check_heap=check_heap)
        theirs.close()
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()
        first = self._receive(Waits(_START_SECONDS, _START_SECONDS, _START_SECONDS))
        if isinstance(first, Failed):
            self.close()
            raise NothingRunError(first.message)
        if not isinstance(first, Ready):
            self.close()
            raise SoftcheckError(f"the worker answered {first!r} at its start, expected Ready")
        self.begin(first)

    def begin(self, ready: Ready) -> None:
        """Sets the record of a process in which nothing has run yet."""
        self.ready = ready
        self.place = 0
        """Number of the device among those of the pool."""
        self.loaded: set[str] = set()
        """Variants that were loaded, and called once, in this process."""
        self.calls: list[Call] = []
        """Calls that have begun in this process, in order: each may have left damage that ends it later."""
        self.running: str | None = None
        """The variant that runs, as far as the replies to the latest request tell."""
        self.is_doubted = False
        """True if the process may not serve another request, since a variant may have left something behind."""

    @property
    def served(self) -> set[str]:
        """Variants that have run in this process."""
        return self.loaded | {call.variant for call in self.calls}

    def ask(self, request: Request, limits: Limits) -> Iterator[Reply]:
        """Sends a request and yields the replies to it, of which the last is one of ``LAST`` or fatal.

        Raises WorkerDiedError if the process ends or a limit passes; the process is then dead. Raises it in place of a
        reply that reports a crash which the process outlived but can't continue after, as an illegal access on a GPU ends.
        """
        self.running = first_running(request)
        try:
            self._connection.send_bytes(encode_request(self.informed(request)))
        except OSError:
            raise self._died() from None
        while True:
            reply = self._receive(limits(self.running))
            if isinstance(reply, Measured | TrialDone) and reply.fatal:
                for violation in reply.result.violations:
                    if violation.kind is FindingKind.CRASH:
                        raise WorkerDiedError(violation.message.removesuffix("; expected an output"), reply=reply)
            self.note(reply)
            yield reply
            if isinstance(reply, LAST) or is_fatal(reply):
                return

    def informed(self, request: Request) -> Request:
        """Returns the request with what is known of the calls of its variants."""
        known = {name: self.facts[name] for name in named_in(request) if name in self.facts}
        return msgspec.structs.replace(request, facts=known) if known else request

    def note(self, reply: Reply) -> None:
        """Keeps what a reply tells of the variant that runs."""
        if isinstance(reply, Started):
            self.running = reply.variant
        elif isinstance(reply, Measured):
            self.running = None

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        # The whole group is killed: processes that a variant started must not outlive its worker.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=5.0)
        if self._process.stderr is not None and not self._drain.is_alive():
            self._process.stderr.close()

    def _receive(self, limits: Waits) -> Reply:
        try:
            self._wait(limits)
            reply: Reply = decode_reply(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise self._died() from None
        return reply

    def _wait(self, limits: Waits) -> None:
        """Returns when there is something to receive. The limit holds for each phase, not for all phases together."""
        seen, since = activity.state_in(self._activity), time.monotonic()
        while True:
            now = activity.state_in(self._activity)
            if now != seen:
                seen, since = now, time.monotonic()
            limit = limits[seen[1]]
            passed = time.monotonic() - since
            if self._connection.poll(min(_LOOK_SECONDS, max(0.0, limit - passed))):
                return
            passed = time.monotonic() - since
            if passed >= limit * busy() and activity.state_in(self._activity) == seen:
                raise self._timed_out(seen[1], passed, limit)
            if passed >= limit:
                time.sleep(0.05)

    def _timed_out(self, phase: Phase, waited: float, limit: float) -> WorkerDiedError:
        self.close()
        is_preparing = phase is Phase.PREPARING
        where = " while it was imported or first called or a kernel was compiled" if is_preparing else ""
        longer = "" if waited < _LONGER * limit else f" (the limit is {limit:.3g} s, more on a busy machine)"
        return WorkerDiedError(
            f"no answer within {waited:.3g} s{where}{longer}; the worker was ended",
            timed_out=True,
            waited=waited,
            was_preparing=is_preparing,
        )

    def _died(self) -> WorkerDiedError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5.0)
        code = self._process.poll()
        self.close()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        if code == -signal.SIGKILL:
            how += ", as Linux ends a process where memory runs out"
        tail = b"".join(list(self._stderr)).decode(errors="replace").strip().splitlines()
        said = f"; its last words: {' '.join(tail[-1].split())[:200]}" if tail else ""
        return WorkerDiedError(f"the worker process ended with {how}{said}")

    def _read_stderr(self) -> None:
        """Keeps the last lines only, so that a variant that prints megabytes neither fills memory nor blocks."""
        stream = self._process.stderr
        assert stream is not None
        while line := stream.readline(4096):
            self._stderr.append(line)


def first_running(request: Request) -> str | None:
    """The variant that a request runs first, if it names only one."""
    return getattr(request, "variant", None)


def named_in(request: Request) -> tuple[str, ...]:
    """The variants that a request runs."""
    first = first_running(request)
    return (first,) if first is not None else getattr(request, "variants", ())


_HEAP_CHECKER = "libc_malloc_debug.so.0"
"""Part of glibc since 2.34. With MALLOC_CHECK_=3 it ends a process that frees memory beside which a write was out of
bounds."""


def can_check_heap() -> bool:
    """True if glibc's heap checker lies beside the C library that this process uses."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    except OSError:
        return False
    libraries = {Path(line.split()[-1]) for line in maps.splitlines() if line.endswith("/libc.so.6")}
    return any(library.with_name(_HEAP_CHECKER).exists() for library in libraries)


def _started(
    device: DeviceChoice, theirs: Connection, shown: int, environment: dict[str, str], *, check_heap: bool
) -> "subprocess.Popen[bytes]":
    """Starts a worker as a new Python process, in a process group of its own, that answers over ``theirs``; see ``Worker``.

    ``shown`` is the descriptor of the file in which the worker shows its current phase (``softcheck.calling.activity``).
    """
    if check_heap:
        preloaded = " ".join(filter(None, [_HEAP_CHECKER, environment.get("LD_PRELOAD")]))
        environment = {**environment, "MALLOC_CHECK_": "3", "LD_PRELOAD": preloaded}
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        [sys.executable, "-m", "softcheck.run.worker", device, str(theirs.fileno()), str(shown)],
        pass_fds=(theirs.fileno(), shown),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        # The parent handles Ctrl-C; it still wants the results of requests under way.
        start_new_session=True,
    )
