"""Workers for the suite's sessions, forked from one process that has imported torch and Triton already.

A worker that starts from nothing takes two seconds of a processor, nearly all for these imports, and tests of what ends
workers start hundreds. A forked one runs the same ``softcheck.run.worker`` on the same pipe. Reports that tests run as a
command start theirs as everywhere, and so does whatever needs a GPU or glibc's heap checks.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

import pytest

from softcheck.run import process

PRELOADED = ["softcheck.run.worker", "triton", "forked_workers"]
_HAS_GPU = Path("/dev/nvidiactl").exists()


from_nothing = process.start
"""Starts a worker without forking, for tests of what workers do to their memory: a forked heap holds other blocks."""


@contextlib.contextmanager
def forked():
    """Within it, sessions on the interpreter fork their workers."""

    def start(device, theirs, shown, *, check_heap):
        if check_heap or (_HAS_GPU and device != "interpreter"):
            return from_nothing(device, theirs, shown, check_heap=check_heap)
        return Forked(device, theirs, shown)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start", start)
        yield


_BEGUN: list[BaseContext] = []
_BEGINS = threading.Lock()


def fork_server():
    """Starts the process that is forked, once. It sees what Triton reads as its functions are decorated."""
    with _BEGINS:
        if not _BEGUN:
            context = get_context("forkserver")
            context.set_forkserver_preload(PRELOADED)
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TRITON_INTERPRET", "1")
                patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
                forkserver.ensure_running()
            _BEGUN.append(context)
    return _BEGUN[0]


class Forked:
    """As much of ``subprocess.Popen`` as a worker's parent asks for."""

    def __init__(self, device, theirs, shown):
        context = fork_server()
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading, "rb")
        # As connections, since those are what a process that is forked elsewhere can be sent.
        with Connection(writing, readable=False) as stderr, Connection(os.dup(shown)) as activity:
            arguments = (device, theirs, stderr, activity, dict(os.environ))
            self._child = context.Process(target=_serve, args=arguments)
            self._child.start()
        self.pid = self._child.pid

    def poll(self):
        return self._child.exitcode

    def wait(self, timeout=None):
        self._child.join(timeout)
        if self._child.exitcode is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        return self._child.exitcode

    def send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def _serve(device, connection, stderr, activity, environment):
    """The child: ends as the process of ``python -m softcheck.run.worker`` would."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, standard in ((nothing, 0), (nothing, 1), (stderr.fileno(), 2)):
        os.dup2(number, standard)
    os.close(nothing)
    stderr.close()
    os.environ.clear()
    os.environ.update({name: value for name, value in environment.items() if name != "TRITON_INTERPRET"})
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)

    from softcheck.run import worker

    sys.argv = ["worker", device, str(os.dup(connection.fileno())), str(os.dup(activity.fileno()))]
    connection.close()
    activity.close()
    sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - as long as the process
    worker.main()
