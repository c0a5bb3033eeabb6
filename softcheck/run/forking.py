"""Workers forked from a process that has imported torch and Triton, so that each starts in a tenth of a second.

Importing both takes 2 to 5 seconds of a core. The server is one of ``multiprocessing``, started with the first worker and kept
as long as this process. What it forks is no ``multiprocessing.Process``: a worker has an environment and a standard
error of its own, and imports no ``__main__``. Imports no torch.
"""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

DEVICE_VARIABLE = "SOFTCHECK_FORKS_FOR"
"""Tells a new server the device of its workers."""

_READ_AT_IMPORT = (
    *("LD_", "PYTHON", "MALLOC_", "GLIBC_", "LC_", "LANG"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "TORCH", "TRITON_", "CUDA", "NVIDIA_"),
)
"""Prefixes of the environment variables that libraries may read while they are loaded. A server serves one set of their
values."""

_servers: dict[tuple[object, ...], forkserver.ForkServer] = {}
"""Servers by device and by what they were started with."""

_starts = threading.Lock()

_UNABLE = (OSError, EOFError, RuntimeError)
"""Raised where there is no server: it can't be started, has ended, or this process is itself just being spawned."""


class ForkedWorker:
    """The part of ``subprocess.Popen`` that a worker's parent uses, for a process that a server forked."""

    def __init__(self, status: int, stderr: BinaryIO) -> None:
        """Takes over ``status``, from which the process ID can be read, and the exit status once the process has ended."""
        self.pid: int = forkserver.read_signed(status)
        self.stderr = stderr
        self._status = status
        self._code: int | None = None
        self._reads = threading.Lock()

    def poll(self) -> int | None:
        """Returns the exit status, None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the exit status. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        with self._reads:
            if self._code is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("worker", timeout or 0.0)
                # Nothing is told where the server itself was killed, and its workers with it.
                self._code = -signal.SIGKILL
                with contextlib.suppress(EOFError):
                    self._code = forkserver.read_signed(self._status)
                os.close(self._status)
            return self._code


@dataclass(frozen=True, slots=True)
class _Order:
    """The surroundings of one worker, sent to the server in place of a process."""

    device: str
    folder: str
    environment: dict[str, str]

    def _bootstrap(self, sentinel: int) -> int:
        """Becomes a worker, as ``python -m softcheck.run.worker`` is in this folder and environment; returns its exit status."""
        os.setsid()
        # A worker that hangs in a call ends with the server, which ends with its parent.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        inherited = forkserver.get_inherited_fds()
        assert inherited is not None
        connection, shown, errors = inherited
        nothing = os.open(os.devnull, os.O_RDWR)
        for given, standard in ((nothing, 0), (nothing, 1), (errors, 2)):
            os.dup2(given, standard)
        # With its end of this pipe the server would live as long as the worker.
        alive = forkserver._forkserver._forkserver_alive_fd  # type: ignore[attr-defined]  # noqa: SLF001
        for descriptor in (nothing, errors, sentinel, alive):
            os.close(descriptor)
        import torch

        from softcheck.run import forked, worker

        own = [self.folder, *filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep))]
        sys.path[:] = [*own, *(folder for folder in sys.path if folder not in ("", *own))]
        os.chdir(self.folder)
        interpreted = {} if forked.for_gpu else {"TRITON_INTERPRET": "1"}
        for name in os.environ.keys() - self.environment.keys():
            del os.environ[name]
        os.environ.update(self.environment | interpreted)
        words = [self.device, str(connection), str(shown)]
        if forked.for_gpu and not torch.cuda.is_available():
            # A driver without a usable GPU: Triton was imported for the wrong one of the two.
            for descriptor in (connection, shown):
                os.set_inheritable(descriptor, True)
            os.execv(sys.executable, [sys.executable, "-m", "softcheck.run.worker", *words])  # noqa: S606 - our own module
        sys.argv = ["worker", *words]
        try:
            worker.main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - shown as an interpreter shows it before it ends
            sys.excepthook(*sys.exc_info())
            return 1
        return 0


_PR_SET_PDEATHSIG = 1
"""Source: sys/prctl.h of Linux."""


def prepare(device: str) -> None:
    """Starts the server for a device before its first worker is needed, so that its imports run beside other work."""
    with contextlib.suppress(*_UNABLE):
        _server(device)


def _server(device: str) -> forkserver.ForkServer:
    """Returns the running server for a device in the present environment."""
    read_at_import = sorted((n, value) for n, value in os.environ.items() if n.startswith(_READ_AT_IMPORT))
    key = (device, sys.executable, os.getpid(), *read_at_import)
    with _starts:
        if key not in _servers:
            _servers[key] = forkserver.ForkServer()
            _servers[key].set_forkserver_preload(["softcheck.run.forked"])
        os.environ[DEVICE_VARIABLE] = device
        try:
            _servers[key].ensure_running()
        finally:
            del os.environ[DEVICE_VARIABLE]
        return _servers[key]


def fork_worker(device: str, environment: Mapping[str, str], theirs: Connection, shown: int) -> ForkedWorker | None:
    """Forks a worker that answers over ``theirs`` and shows its phase in the file ``shown``.

    Returns None if no server can be had, as where Linux is missing; a worker is then started from nothing.
    """
    errors, their_errors = os.pipe()
    try:
        status, order = _server(device).connect_to_new_process([theirs.fileno(), shown, their_errors])
        with os.fdopen(order, "wb") as file:
            pickle.dump({}, file)
            pickle.dump(_Order(device, str(Path.cwd()), dict(environment)), file)
        return ForkedWorker(status, os.fdopen(errors, "rb"))
    except _UNABLE:
        os.close(errors)
        return None
    finally:
        os.close(their_errors)
