"""A child process in which Triton interprets kernels, and what the device judge's tests ask of it.

Whether Triton interprets or compiles is decided when the kernels are decorated, and other tests share this process.
"""

import functools
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import forkserver, get_context
from unittest import mock

import pytest


def pool(*, interpret):
    """One child. Interpreting ones are forked where torch and Triton are imported already, for an interpreter."""
    if interpret:
        return ProcessPoolExecutor(1, _fork_server(), _interpret)
    return ProcessPoolExecutor(1, get_context("spawn"), _compile)


@functools.cache
def _fork_server():
    context = get_context("forkserver")
    context.set_forkserver_preload(["softcheck.run.worker", "triton"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def _interpret():
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    from softcheck.toolchain import interpreter

    torch.set_num_threads(1)
    interpreter.correct()
    warnings.simplefilter("error")


def _compile():
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"


def exponentials(distances, degree):
    """exp_minus of float64 values, a multiple of 1024 of them."""
    import torch
    from device_kernels import exp_kernel

    d = torch.from_numpy(distances)
    out = torch.empty_like(d)
    exp_kernel[(len(d) // 1024,)](d, out, degree, 1024)
    return out.numpy()


def leading(values):
    """``leading`` of float64 values, a power of two of them."""
    import torch
    from device_kernels import leading_kernel

    out = torch.empty(len(values), dtype=torch.float32)
    leading_kernel[(1,)](torch.from_numpy(values), out, len(values))
    return out.numpy()


def measure(
    bits,
    output,
    dtype,
    *,
    layout=None,
    fully_masked="nan",
    output_strided=False,
    patches=(),
    fault=None,
    arithmetic=None,
):
    """The device judge's measurement, input placed as the layout says; ``patches`` are (dotted name, value)."""
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import place
    from softcheck.cases.case import Layout
    from softcheck.judge.device.judge import judge_on_device

    fmt = FORMATS[dtype]
    device = torch.device("cpu")
    x = place(bits, fmt, layout or Layout(), device).view
    theirs = Layout(row_stride=1, column_stride=len(bits), offset=1) if output_strided else Layout()
    y = place(output, fmt, theirs, device).view
    if fault == "short":
        x, y = x[:, :-1], y[:, :-1]
    with _patched([*patches, *_tolerant()] if fault == "tolerant" else patches):
        given = {} if arithmetic is None else {"arithmetic": arithmetic}
        return judge_on_device(x, y, fmt, fully_masked=fully_masked, **given)


def _tolerant():
    """A planted fault: sixteen times as many additions as the contract allows."""
    from softcheck.judge.device import constants, scan
    from softcheck.judge.device.constants import Constants

    original = Constants.vector

    def vector(own, degree, margin=None):
        found = original(own, degree, margin)
        found[2] *= 16
        return found

    return [
        ("softcheck.judge.device.constants.Constants.vector", vector),
        ("softcheck.judge.device.constants._scalars", constants._scalars.__wrapped__),
        ("softcheck.judge.device.scan._settings", scan._settings.__wrapped__),
    ]


def trusted(bits, output, dtype, fully_masked="nan", constants=(), functions=(), *, scans=True):
    """The trusted judge's measurement, with compile-time constants and functions replaced; DistrustedError passes through."""
    import torch
    import triton.language as tl

    from oracles.formats import FORMATS
    from softcheck.calling.call import to_tensor
    from softcheck.judge.device import trust

    fmt = FORMATS[dtype]
    x, y = (to_tensor(b, fmt, torch.device("cpu")) for b in (bits, output))
    trust._found.clear()
    replaced = [(f"softcheck.judge.device.{name}", tl.constexpr(value)) for name, value in constants]
    with _patched([*replaced, *functions]):
        return trust.judge_trusted(x, y, fmt, fully_masked=fully_masked, scans=scans)


def judged_twice(bits, dtype):
    """Number of runs of the kernels while the trusted judge judges two outputs of one width."""
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import to_tensor
    from softcheck.judge.device import trust

    fmt = FORMATS[dtype]
    x = to_tensor(bits, fmt, torch.device("cpu"))
    trust._found.clear()
    with mock.patch.object(trust, "judge_on_device", wraps=trust.judge_on_device) as judged:
        for _ in range(2):
            trust.judge_trusted(x, x, fmt)
    return judged.call_count


def tables(bits, output, dtype):
    """The largest error if flushed, and the row numbers of each table of one judgement."""
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import to_tensor
    from softcheck.judge.device import table
    from softcheck.judge.device.judge import judge_on_device

    fmt = FORMATS[dtype]
    x, y = (to_tensor(bits, fmt, torch.device("cpu")) for bits in (bits, output))
    with mock.patch.object(table, "tabulate", wraps=table.tabulate) as tabulated:
        found = judge_on_device(x, y, fmt)
    return found.max_ulp_ftz, [sorted(c.args[3].tolist()) for c in tabulated.call_args_list]


def _constants(dtype, columns):
    """Constants of the standard contract."""
    from oracles.formats import FORMATS
    from softcheck.judge.device.constants import Constants
    from softcheck.judge.judge import STANDARD
    from softcheck.operations import bounds

    fmt = FORMATS[dtype]
    return Constants(fmt, bounds.model(STANDARD, fmt), columns)


def _compilable(dtype, columns):
    """A tensor that kernels are compiled for, and its constants."""
    import torch

    from softcheck.calling.call import TORCH_DTYPES

    return torch.zeros((4, columns), dtype=TORCH_DTYPES[dtype]), _constants(dtype, columns)


def left(bits, output, dtype, fully_masked="nan"):
    """Numbers of the rows that the scan left, sorted."""
    import torch

    from softcheck.calling.call import to_tensor
    from softcheck.judge.device import dispatch

    constants = _constants(dtype, bits.shape[1])
    x, y = (to_tensor(b, constants.fmt, torch.device("cpu")) for b in (bits, output))
    found = dispatch.scan_in("float64", x, y, constants, masked_gives_zero=fully_masked == "zero")
    return sorted(found.listed[: int(found.left)].tolist())


@contextmanager
def _patched(patches):
    with ExitStack() as stack:
        for target, value in patches:
            stack.enter_context(mock.patch(target, value))
        yield


def shared(dtype, columns, target):
    """Bytes of shared memory that a program of the scan takes beside its table of counts, and the most that there are."""
    from softcheck.judge.device import scan
    from softcheck.toolchain import compile as variants_compile

    x, constants = _compilable(dtype, columns)
    with variants_compile.compiling(target) as kernels:
        scan.scan(x, x, constants)
    taken = next(k.shared_bytes for k in kernels if k.name == "_scan_kernel")
    return taken, variants_compile._DEVICES[target].shared_bytes


def compiled(dtype, columns, target="cuda:90"):
    """PTX of the kernels and their warps, by name."""
    import torch

    from softcheck.judge.device import bins, dispatch, table
    from softcheck.toolchain.compile import compiling

    x, constants = _compilable(dtype, columns)
    with compiling(target) as kernels:
        dispatch.scan_in("float64", x, x, constants, masked_gives_zero=False)
        counts = torch.zeros(bins.ALL, dtype=torch.int64)
        table.tabulate(x, x, constants, torch.arange(4), counts, masked_gives_zero=False)
    return {k.name: (k.asm["ptx"], k.warps) for k in kernels}


def table_kernels(dtype, columns):
    """Number of kernels for tables of lists of rows, of one and of sixteen, at even and odd addresses."""
    import torch

    from softcheck.judge.device import bins, table
    from softcheck.toolchain.compile import compiling

    x, constants = _compilable(dtype, columns)
    counts = torch.zeros(bins.ALL, dtype=torch.int64)
    lists = [torch.arange(first, last) for first, last in ((0, 1), (0, 5), (0, 16))]
    lists += [rows.repeat(2)[len(rows) :] for rows in lists]
    with compiling("cuda:90") as kernels:
        for rows in lists:
            for counted in (None, torch.ones(2, dtype=torch.int64)[1:]):
                table.tabulate(x, x, constants, rows, counts, masked_gives_zero=False, counted=counted)
    return len(kernels)
