"""The worker process: opens the device, and serves the requests of the process that started it (``run.process``)."""

import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from softcheck.calling import activity
from softcheck.calling.call import is_out_of_memory
from softcheck.errors import SoftcheckError, TooLittleMemoryError
from softcheck.run.protocol import Failed, Ready, Reply, Request, decode_request, encode_reply, is_fatal
from softcheck.run.serving import Server
from softcheck.toolchain import compile_seconds


def _open_device(choice: str) -> tuple[torch.device, Ready] | Failed:
    """Opens the requested device. Sets TRITON_INTERPRET before any kernel is decorated."""
    has_gpu = torch.cuda.is_available()
    if choice == "cuda" and not has_gpu:
        return Failed(
            "--device cuda: torch sees no CUDA device. Run on a machine with a GPU and a CUDA build of torch, "
            "or ask for --device interpreter, which checks logic but not GPU arithmetic"
        )
    on_gpu = has_gpu and choice != "interpreter"
    if not on_gpu:
        os.environ["TRITON_INTERPRET"] = "1"
    import triton

    if on_gpu:
        compile_seconds.install()
    name = torch.cuda.get_device_name(0) if on_gpu else f"{platform.machine()} CPU"
    ready = Ready(
        backend="cuda" if on_gpu else "interpreter",
        device=name,
        torch=str(torch.__version__),
        triton=str(triton.__version__),
        python=platform.python_version(),
        driver=_driver_version() if on_gpu else None,
        memory_bytes=torch.cuda.get_device_properties(0).total_memory if on_gpu else None,
    )
    return torch.device("cuda" if on_gpu else "cpu"), ready


def _driver_version() -> str | None:
    """The NVIDIA kernel driver's version, as Linux shows it."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdigit() and "." in word), None)


def _serve(connection: Connection, answer: Callable[[Request], Iterator[Reply]]) -> None:
    while True:
        try:
            message = connection.recv_bytes()
        except EOFError:
            return
        try:
            for reply in answer(decode_request(message)):
                connection.send_bytes(encode_reply(reply))
                if is_fatal(reply):
                    return
        except SoftcheckError as error:
            connection.send_bytes(encode_reply(Failed(str(error), isinstance(error, TooLittleMemoryError))))
        except torch.OutOfMemoryError as error:
            # Ended by it, the worker would leave the blame with the variant that ran last.
            connection.send_bytes(encode_reply(Failed(f"too little device memory: {error}", for_memory=True)))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            connection.send_bytes(encode_reply(Failed(f"out of host memory: {error}")))


def main() -> None:
    """Entry of the process: ``python -m softcheck.run.worker DEVICE PIPE ACTIVITY``, the last two file descriptors."""
    choice, descriptor = sys.argv[1], int(sys.argv[2])
    connection = Connection(descriptor)
    activity.show_in(int(sys.argv[3]))
    # Ctrl-C is for the parent, which ends this process itself.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    # Two workers on two cores: torch's own thread pool would only make them fight.
    torch.set_num_threads(1)
    opened = _open_device(choice)
    if isinstance(opened, Failed):
        connection.send_bytes(encode_reply(opened))
        return
    device, ready = opened
    connection.send_bytes(encode_reply(ready))
    _serve(connection, Server(device).answer)


if __name__ == "__main__":
    main()
