"""The process that workers are forked from: it has imported torch and Triton, has opened no device, and runs no variant.

Entry: ``python -m softcheck.run.fork_server DEVICE SOCKET``, the latter the descriptor of a SOCK_SEQPACKET socket. Each
message on it is an ``Order`` with four descriptors: the worker's pipe, the file of its phase, its standard error, and a
pipe for its exit status. The answer is the worker's process ID. The server ends when the socket is closed and its last
worker has ended; if its parent has ended, it ends the workers, which may hang in a call.
"""

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

NUMBER = struct.Struct("=i")
"""A process ID, or an exit status as ``subprocess.Popen.returncode`` gives it."""

MOST_BYTES = 1 << 17
"""Bytes of the largest order, which holds a whole environment."""

_LOOK_SECONDS = 0.2


class Order(msgspec.Struct, frozen=True):
    """The surroundings of one worker."""

    folder: str
    environment: dict[str, str]


def import_all(device: str) -> bool:
    """Imports what a worker needs; returns True if Triton compiles for a GPU, False if it interprets.

    Triton's own functions are decorated while it is imported, so the choice is made before.
    """
    import torch

    for_gpu = device != "interpreter" and torch.version.cuda is not None and Path("/dev/nvidiactl").exists()
    if not for_gpu:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton  # noqa: F401 - a worker finds it imported

    import softcheck.run.worker  # noqa: F401

    return for_gpu


def serve(device: str, orders: socket.socket) -> None:
    """Forks a worker for each order, and passes on the exit status of each."""
    own_folders = {"", str(Path.cwd()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    packages = [folder for folder in sys.path if folder not in own_folders]
    for_gpu = import_all(device)
    parent = os.getppid()
    statuses: dict[int, tuple[int, int]] = {}
    """Of each worker, by a descriptor that can be read once it has ended: its process ID, and where its status goes."""
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        is_open = True
        while is_open or statuses:
            # A parent's sockets are closed before its children get another parent.
            ready = {key.fd for key, _events in selector.select(None if is_open else _LOOK_SECONDS)}
            for worker, _status in statuses.values() if not is_open and os.getppid() != parent else ():
                with contextlib.suppress(ProcessLookupError):
                    # The group has the processes that a variant has started, too.
                    os.killpg(worker, signal.SIGKILL)
            for ended in ready & statuses.keys():
                selector.unregister(ended)
                worker, descriptor = statuses.pop(ended)
                code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
                with contextlib.suppress(OSError):
                    os.write(descriptor, NUMBER.pack(code))
                os.close(ended)
                os.close(descriptor)
            if is_open and orders.fileno() in ready:
                message, descriptors, _flags, _address = socket.recv_fds(orders, MOST_BYTES, 4)
                if not message:
                    is_open = False
                    selector.unregister(orders)
                    continue
                order = msgspec.msgpack.decode(message, type=Order)
                child = os.fork()
                if child == 0:
                    inherited = [selector.fileno(), orders.fileno(), *statuses, *(to for _, to in statuses.values())]
                    _work(device, order, descriptors, packages, inherited, for_gpu=for_gpu)
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                ends = os.pidfd_open(child)
                statuses[ends] = child, descriptors[3]
                selector.register(ends, selectors.EVENT_READ)
                with contextlib.suppress(OSError):
                    orders.send(NUMBER.pack(child))


def _work(
    device: str,
    order: Order,
    descriptors: Sequence[int],
    packages: Sequence[str],
    inherited: Sequence[int],
    *,
    for_gpu: bool,
) -> NoReturn:
    """Becomes a worker, as ``python -m softcheck.run.worker`` is in the order's folder and environment."""
    os.setsid()
    connection, shown, errors, status = descriptors
    os.dup2(errors, 2)
    for descriptor in (errors, status, *inherited):
        os.close(descriptor)
    os.chdir(order.folder)
    for name in os.environ.keys() - order.environment.keys():
        del os.environ[name]
    os.environ.update(order.environment)
    own = [order.folder, *filter(None, order.environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*own, *(folder for folder in packages if folder not in own)]
    import torch

    words = [device, str(connection), str(shown)]
    if for_gpu and not torch.cuda.is_available():
        # A driver without a usable GPU: Triton was imported for the wrong one of the two.
        for descriptor in (connection, shown):
            os.set_inheritable(descriptor, True)
        os.execv(sys.executable, [sys.executable, "-m", "softcheck.run.worker", *words])  # noqa: S606 - our own module
    from softcheck.run import worker

    sys.argv = ["worker", *words]
    code = 1
    try:
        worker.main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - shown as an interpreter shows it before it ends
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        # Not back into the server's loop, whatever was raised.
        os._exit(code)
    raise AssertionError("the process has ended")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[2])) as given:
        serve(sys.argv[1], given)
