"""Compiles variants' kernels ahead of time in a process of its own, for processes in which Triton interprets kernels.

Triton decides when a kernel is decorated whether it will be interpreted or compiled, so no process can do both. The
process is started when it is first needed and kept, because importing torch and Triton takes longer than compiling.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import warnings
from functools import cache
from multiprocessing.connection import Connection, Pipe

from softcheck.errors import SoftcheckError
from softcheck.toolchain.ptx import Kernel
from softcheck.variants.recognised import Recognised

TARGET = "cuda:90"
"""Target that kernels are compiled for without a GPU."""

_START_SECONDS = 120.0
_COMPILE_SECONDS = 60.0

CompileRequest = tuple[str, Recognised | None, str, tuple[int, int]]
"""The arguments of ``compile_ahead``."""

Answer = tuple[Kernel, ...] | str
"""The kernels, or why there are none to look at."""


class AheadError(SoftcheckError):
    """Kernels that could not be compiled ahead of time, with the reason."""


def compile_ahead(spec: str, fact: Recognised | None, dtype: str, shape: tuple[int, int]) -> tuple[Kernel, ...]:
    """Kernels that a variant launches for a contiguous input; empty if it launches none itself. Imports neither torch nor Triton.

    ``fact`` is what trials have shown of its call: nothing can be tried where nothing runs.

    Raises AheadError if the variant can't be loaded or raises, the compiler refuses a kernel, or the process ends or
    takes more than a minute. The next call then starts another process.
    """
    try:
        answer = _process().ask((spec, fact, dtype, shape))
    except AheadError:
        _process().stop()
        _process.cache_clear()
        raise
    if isinstance(answer, str):
        raise AheadError(answer)
    return answer


class _Process:
    """The compiling process."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
        self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
            [sys.executable, "-m", "softcheck.variants.ahead", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=inherited,
        )
        theirs.close()
        atexit.register(self.stop)
        self._limit = _START_SECONDS + _COMPILE_SECONDS

    def ask(self, wanted: CompileRequest) -> Answer:
        limit, self._limit = self._limit, _COMPILE_SECONDS
        try:
            self._connection.send(wanted)
            if not self._connection.poll(limit):
                raise AheadError(f"compiling took more than {limit:g} s")
            answer: Answer = self._connection.recv()
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5.0)
            raise AheadError(f"the compiling process ended with exit status {self._process.poll()}") from None
        return answer

    def stop(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


_process = cache(_Process)


def serve(connection: Connection) -> None:
    """Answers requests until the other end is closed. Imports torch and Triton."""
    import torch

    from softcheck.toolchain.compile import compile_for
    from softcheck.variants.registry import load

    while True:
        try:
            spec, fact, dtype, shape = connection.recv()
        except EOFError:
            return
        answer: Answer
        try:
            compiled = compile_for(load(spec, fact, torch.device("cpu")).function, TARGET, dtype, shape)
            answer = tuple(Kernel(k.name, {s: text for s, text in k.asm.items() if s == "ptx"}) for k in compiled)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a variant raises is a reason
            answer = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        connection.send(answer)


if __name__ == "__main__":
    # The variant's module has given its warnings where it runs.
    warnings.simplefilter("ignore")
    serve(Connection(int(sys.argv[1])))
