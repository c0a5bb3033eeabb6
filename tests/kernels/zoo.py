"""Variants that harm the process they run in, each in a way of its own, on inputs of three columns; they answer rightly on others."""

import ctypes
import os
import resource
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import torch


def _on_three_columns(harm):
    def variant(x):
        answer = torch.softmax(x, dim=-1)
        if x.shape[1] == 3:
            harm(x)
        return answer

    variant.__name__ = harm.__name__
    return variant


@_on_three_columns
def segfaults(x):
    ctypes.string_at(0)


@_on_three_columns
def exits(x):
    os._exit(0)


@_on_three_columns
def aborts(x):
    os.abort()


@_on_three_columns
def kills_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)


@_on_three_columns
def hangs(x):
    time.sleep(600)


@_on_three_columns
def exhausts_host_memory(x):
    # A limit on the address space stands in for a machine without memory left, so that the others survive the test.
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, limits[1]))
    try:
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@_on_three_columns
def prints_megabytes(x):
    for stream in (sys.stdout, sys.stderr):
        stream.write("x" * 4_000_000 + "\n")
        stream.flush()


@_on_three_columns
def changes_the_default_dtype(x):
    torch.set_default_dtype(torch.float64)


@_on_three_columns
def seeds_and_demands_determinism(x):
    torch.manual_seed(1234)
    torch.use_deterministic_algorithms(mode=False)
    torch.utils.deterministic.fill_uninitialized_memory = False


@_on_three_columns
def patches_torch(x):
    torch.softmax = lambda x, dim: torch.zeros_like(x)
    torch.Tensor.clone = lambda self, *_, **__: self
    torch.empty = torch.zeros


class _Negating(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        return -result if "softmax" in str(function) else result


@_on_three_columns
def enters_a_dispatch_mode(x):
    torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    _Negating().__enter__()


@_on_three_columns
def changes_threads_gradients_and_environment(x):
    torch.set_num_threads(3)
    torch.set_grad_enabled(False)
    os.environ["TRITON_INTERPRET"] = "0"
    os.chdir("/")


@_on_three_columns
def changes_how_numbers_are_rounded(x):
    torch.set_flush_denormal(True)
    # FE_UPWARD on x86 and on Arm; each refuses the other's number.
    fesetround = ctypes.CDLL(None).fesetround
    assert fesetround(0x800) == 0 or fesetround(0x400000) == 0


@_on_three_columns
def leaves_an_alarm_that_raises(x):
    def too_late(number, frame):
        raise TimeoutError("an alarm that someone else set")

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)


@_on_three_columns
def makes_warnings_errors(x):
    warnings.simplefilter("error")


@_on_three_columns
def closes_standard_output(x):
    sys.stdout.close()


@_on_three_columns
def patches_numpy(x):
    np.exp = np.expm1
    np.sum = np.max


@_on_three_columns
def leaves_a_thread_that_writes(x):
    address, size = x.data_ptr(), x.numel() * x.element_size()

    def scribble():
        time.sleep(0.2)
        while True:
            ctypes.memset(address, 0x11, size)
            time.sleep(0)

    threading.Thread(target=scribble, name="scribbler", daemon=True).start()
