"""Workers forked from a process that has imported torch and Triton, so that each starts in a tenth of a second.

Importing both takes 2 to 5 seconds of a core. The server (``softcheck.run.fork_server``) is started with the first
worker and kept as long as this process. Imports no torch.
"""

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

import msgspec

from softcheck.run.fork_server import MOST_BYTES, NUMBER, Order

_START_SECONDS = 180.0
"""Seconds until the server has imported torch and Triton, on a cold, busy machine."""

_READ_AT_IMPORT = (
    *("LD_", "PYTHON", "MALLOC_", "GLIBC_", "LC_", "LANG"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "TORCH", "TRITON_", "CUDA", "NVIDIA_"),
)
"""Prefixes of the environment variables that libraries may read while they are loaded. A server serves one set of their
values."""


class ForkedWorker:
    """The part of ``subprocess.Popen`` that a worker's parent uses, for a process that the server forked."""

    def __init__(self, pid: int, status: int, stderr: BinaryIO) -> None:
        """Takes over ``status``, the descriptor from which the exit status can be read once the process has ended."""
        self.pid = pid
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
                told = os.read(self._status, NUMBER.size)
                # Nothing is told where the server itself was killed, and its workers with it.
                self._code = NUMBER.unpack(told)[0] if told else -signal.SIGKILL
                os.close(self._status)
            return self._code


class _Server:
    """A running fork server."""

    def __init__(self, device: str) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.settimeout(_START_SECONDS)
        self._one = threading.Lock()
        with theirs:
            environment, nothing = for_workers(os.environ), subprocess.DEVNULL
            module = "softcheck.run.fork_server"
            self._process = start_module(module, device, theirs.fileno(), env=environment, stderr=nothing)

    def close(self) -> None:
        """Ends the server. Its workers end as the pipes to their parents are closed."""
        self._orders.close()
        self._process.kill()
        self._process.wait()

    def fork(self, order: Order, descriptors: list[int]) -> int:
        """Returns the process ID of a new worker. Raises OSError if the server gives none."""
        message = msgspec.msgpack.encode(order)
        if len(message) > MOST_BYTES:
            raise OSError(f"the environment takes {len(message)} bytes, at most {MOST_BYTES} can be sent")
        with self._one:
            socket.send_fds(self._orders, [message], descriptors)
            told = self._orders.recv(NUMBER.size)
        if not told:
            raise OSError("the fork server has ended")
        return int(NUMBER.unpack(told)[0])


_servers: dict[tuple[object, ...], _Server | None] = {}
"""Servers by device and by what they were started with; None where one has failed."""

_starts = threading.Lock()


def prepare(device: str) -> None:
    """Starts a server before its first worker is needed, so that its imports run beside other work."""
    _server(device)


def _server(device: str) -> tuple[tuple[object, ...], _Server | None]:
    """Returns the server for a device in the present environment, and its key."""
    environment = for_workers(os.environ)
    read_at_import = sorted((n, value) for n, value in environment.items() if n.startswith(_READ_AT_IMPORT))
    key = (device, sys.executable, os.getpid(), *read_at_import)
    with _starts:
        if key not in _servers:
            if not _servers:
                atexit.register(_close_all, os.getpid())
            can_fork = hasattr(socket, "send_fds") and hasattr(os, "pidfd_open")
            _servers[key] = _Server(device) if can_fork else None
        return key, _servers[key]


def fork_worker(device: str, theirs: Connection, shown: int) -> ForkedWorker | None:
    """Forks a worker that answers over ``theirs`` and shows its phase in the file ``shown``.

    Returns None if no server can be had, as where ``os.pidfd_open`` is missing; a worker is then started from nothing.
    """
    key, server = _server(device)
    if server is None:
        return None
    errors, their_errors = os.pipe()
    status, their_status = os.pipe()
    try:
        order = Order(str(Path.cwd()), for_workers(os.environ))
        pid = server.fork(order, [theirs.fileno(), shown, their_errors, their_status])
    except OSError:
        with _starts:
            _servers[key] = None
        server.close()
        os.close(errors)
        os.close(status)
        return None
    finally:
        os.close(their_errors)
        os.close(their_status)
    return ForkedWorker(pid, status, os.fdopen(errors, "rb"))


def _close_all(pid: int) -> None:
    # A process that this one forked inherits the servers and doesn't own them.
    for server in _servers.values() if os.getpid() == pid else ():
        if server is not None:
            server.close()


def start_module(
    module: str, device: str, *descriptors: int, env: Mapping[str, str], stderr: int
) -> "subprocess.Popen[bytes]":
    """Starts ``python -m MODULE DEVICE DESCRIPTOR...``, which inherits the descriptors."""
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        [sys.executable, "-m", module, device, *map(str, descriptors)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=env,
        # The parent handles Ctrl-C; it still wants the results of requests under way.
        start_new_session=True,
    )


def for_workers(environment: "os._Environ[str]") -> dict[str, str]:
    """The environment without the variable that tells Triton to interpret or to compile, and with one thread for numpy's products.

    Triton reads the former when a kernel is decorated. "auto" is resolved in the worker, which knows whether there is a GPU.
    """
    kept = {name: value for name, value in environment.items() if name != "TRITON_INTERPRET"}
    # There is a worker for each core. OpenBLAS reads this once, when numpy loads it.
    return {"OPENBLAS_NUM_THREADS": "1", **kept}
