"""Each setting that decides what others compute is named when it changes, and put back; what libraries do is left alone."""

import ctypes
import decimal
import gc
import io
import locale
import math
import os
import random
import resource
import signal
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from softcheck.calling import state
from softcheck.calling.state import Snapshot

ROOT = Path(__file__).parents[2]
GLOBAL = np.random
MATMUL = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    monkeypatch.setattr(state.Snapshot, "is_any_lost", False)


def set_default_device():
    torch.set_default_device("meta")


def swap_numpys_generator():
    GLOBAL.set_bit_generator(np.random.PCG64(1))


def leave_a_lower_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, hard))


def remove_a_folder():
    sys.path.remove(sysconfig.get_path("platlib"))


CHANGES = [
    ("rounding or the flushing of subnormals", lambda: torch.set_flush_denormal(True)),
    ("rounding or the flushing of subnormals", lambda: ctypes.CDLL(None).fesetround(0x400)),
    ("the default device", set_default_device),
    (
        "the filling of uninitialised memory",
        lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
    ),
    ("anomaly detection", lambda: torch.autograd.set_detect_anomaly(True)),
    ("backend flags", lambda: setattr(torch.backends.cudnn, "deterministic", True)),
    ("backend flags", lambda: setattr(torch.backends.mkldnn, "enabled", False)),
    ("backend flags", lambda: setattr(MATMUL, "allow_fp16_reduced_precision_reduction", False)),
    ("matmul precision", lambda: setattr(MATMUL, "allow_tf32", True)),
    ("attention kernels", lambda: torch.backends.cuda.enable_flash_sdp(False)),
    ("autocast", lambda: torch.set_autocast_dtype("cpu", torch.float16)),
    ("autocast", lambda: torch.set_autocast_cache_enabled(False)),
    ("the stance of torch.compile", lambda: torch.compiler.set_stance("force_eager")),
    ("numpy's buffer size", lambda: np.setbufsize(16)),
    ("the handling of signals", lambda: signal.signal(signal.SIGALRM, lambda *_: None)),
    ("the handling of signals", lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)),
    ("timers", lambda: signal.setitimer(signal.ITIMER_REAL, 1000)),
    ("timers", lambda: signal.alarm(1000)),
    ("blocked signals", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])),
    ("functions that trace or profile Python code", lambda: sys.setprofile(lambda *_: None)),
    ("functions that trace or profile Python code", lambda: threading.settrace(lambda *_: None)),
    ("the locale", lambda: locale.setlocale(locale.LC_NUMERIC, "C.UTF-8")),
    ("warnings", lambda: warnings.simplefilter("error", ImportWarning, append=True)),
    ("the decimal context", lambda: setattr(decimal.getcontext(), "prec", 3)),
    ("the decimal context", lambda: decimal.getcontext().traps.update({decimal.Inexact: True})),
    ("garbage collection", gc.disable),
    ("the recursion limit", lambda: sys.setrecursionlimit(sys.getrecursionlimit() - 100)),
    ("limits of resources", leave_a_lower_limit),
    ("standard streams", lambda: setattr(sys, "stdout", io.StringIO())),
    ("the module search path", remove_a_folder),
    ("environment variables", lambda: os.environ.update({"HOME": "/nowhere"})),
    ("environment variables", lambda: os.environ.pop("PATH")),
    ("environment variables", lambda: os.environ.update({"TRITON_F32_DEFAULT": "tf32"})),
    ("the seed of Python's random numbers", lambda: random.seed(5)),
    ("the seed of numpy's random numbers", lambda: GLOBAL.seed(5)),
    ("the seed of numpy's random numbers", swap_numpys_generator),
    ("numpy.exp", lambda: setattr(np, "exp", np.expm1)),
    ("math.exp", lambda: setattr(math, "exp", math.expm1)),
]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_change_is_named_and_put_back(name, change):
    before = Snapshot()
    change()
    (changed,) = before.restore()
    assert changed.partition(" (")[0] == name
    assert before.is_restored
    assert before.restore() == []


def draw_numbers():
    random.random()
    GLOBAL.rand(100_000)


def add_filters():
    warnings.filterwarnings("ignore", category=ImportWarning)
    warnings.simplefilter("default", ImportWarning)


def do_sums():
    with np.errstate(all="ignore"):
        np.divide([1.0, 0.0, 1e-308], [0.0, 0.0, 1e20])
    decimal.Decimal(1) / decimal.Decimal(3)


def work_in_a_child():
    list(torch.utils.data.DataLoader(torch.arange(4), num_workers=1))


ALONE = [
    draw_numbers,
    add_filters,
    do_sums,
    work_in_a_child,
    lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1000),
    lambda: sys.path.append("/nowhere/at/all"),
    lambda: os.environ.update({"PATH": os.environ["PATH"] + ":/usr/local/lazy"}),
    lambda: os.environ.update({"TORCHINDUCTOR_CACHE_DIR": "/tmp/somewhere", "KMP_DUPLICATE_LIB_OK": "TRUE"}),
    lambda: torch.nn.functional.softmax(torch.rand(3, 5, requires_grad=True), -1).sum().backward(),
    lambda: subprocess.run(["true"], check=True),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", ALONE)
def test_what_changes_nothing_that_others_compute_is_left_alone(monkeypatch, change):
    limit = sys.getrecursionlimit()
    monkeypatch.setattr(os, "environ", os.environ)
    kept = dict(os.environ)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        before = Snapshot()
        change()
        environment, path = dict(os.environ), list(sys.path)
        assert before.restore() == []
        assert before.is_restored
        assert (environment, path) == (dict(os.environ), sys.path), "nor is it put back"
    finally:
        sys.setrecursionlimit(limit)
        for name in set(os.environ) - set(kept):
            del os.environ[name]
        os.environ.update(kept)


UNRETURNABLE = {
    "torch.set_num_interop_threads(7)": "the number of threads between operations",
    "sys.stdout.close()": "standard streams",
    "mode = torch.inference_mode(); mode.__enter__()": "inference mode",
    "__import__('os').rmdir(__import__('os').getcwd())": "the working folder",
}


@pytest.mark.parametrize("change", UNRETURNABLE)
def test_what_cannot_be_put_back_is_named_and_loses_the_process(tmp_path, change):
    script = (
        "import sys, torch\nfrom softcheck.calling.state import Snapshot, is_lost\ntorch.set_num_interop_threads(2)\n"
        f"before = Snapshot()\n{change}\nchanged = before.restore()\nprint(changed, is_lost(), file=sys.stderr)\n"
    )
    if "interop" in change:
        script = script.replace("torch.set_num_interop_threads(2)\n", "")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip().endswith("True"), done.stderr
    assert UNRETURNABLE[change] in done.stderr


def test_knob_of_tritons_is_put_back_with_the_variable_that_it_sets():
    import triton

    before = Snapshot()
    triton.knobs.language.default_fp_fusion = False
    assert sorted(changed.partition(" (")[0] for changed in before.restore()) == [
        "Triton's knobs",
        "environment variables",
    ]
    assert "default_fp_fusion" not in vars(triton.knobs.language)
    assert before.restore() == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring comes with Python 3.12")
def test_monitoring_tool_is_taken_away():
    before = Snapshot()
    sys.monitoring.use_tool_id(3, "spy")
    (changed,) = before.restore()
    assert "sys.monitoring" in changed
    assert sys.monitoring.get_tool(3) is None
