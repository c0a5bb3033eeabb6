"""Functions that the tests of the arithmetic in two float32 run in a child process, besides ``device_child``."""

import os
import re
from contextlib import ExitStack
from unittest import mock

import device_child

from softcheck.judge.device.dispatch import VARIABLE


def in_double_float():
    """Called in a child: from then on, its device judge scans in two float32."""
    os.environ[VARIABLE] = "double-float32"


def exponentials(high, low, precise):
    """Both parts of 2^64 exp_minus; as many arguments as a power of two."""
    import torch
    from double_float_kernels import exp_kernel

    out, out_low = torch.empty(len(high)), torch.empty(len(high))
    exp_kernel[(1,)](torch.from_numpy(high), torch.from_numpy(low), out, out_low, precise, len(high))
    return out.numpy(), out_low.numpy()


def binary(kind, a, a_low, b, b_low):
    import torch
    from double_float_kernels import binary_kernel

    out, out_low = torch.empty(len(a)), torch.empty(len(a))
    binary_kernel[(1,)](*map(torch.from_numpy, (a, a_low, b, b_low)), out, out_low, kind, len(a))
    return out.numpy(), out_low.numpy()


def sums(a, a_low, weights, at_once):
    import torch
    from double_float_kernels import sum_kernel

    out = torch.empty(4)
    sum_kernel[(1,)](*map(torch.from_numpy, (a, a_low, weights)), out, at_once, len(a))
    return out.tolist()


def scanned(bits, output, dtype):
    """Rows that both scans left, sorted, and their figures: double-float32's first."""
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import to_tensor
    from softcheck.judge.device import dispatch
    from softcheck.judge.device.constants import Constants
    from softcheck.judge.device.reduction import Numbers
    from softcheck.judge.judge import STANDARD
    from softcheck.operations import bounds

    fmt, device = FORMATS[dtype], torch.device("cpu")
    constants = Constants(fmt, bounds.model(STANDARD, fmt), bits.shape[1])
    x, y = to_tensor(bits, fmt, device), to_tensor(output, fmt, device)
    both = []
    for judged_in in ("double-float32", "float64"):
        found = dispatch.scan_in(judged_in, x, y, constants, masked_gives_zero=False)
        numbers = Numbers(found.copied())
        rows = sorted(found.listed[: int(found.left)].tolist())
        both.append((rows, numbers.passed, numbers.error_sum, numbers.largest))
    return both


def on_gpu(columns):
    """Disagreements of the compiled judge in either arithmetic with numpy's: right, faulty and masked rows."""
    import numpy as np
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import TORCH_DTYPES, to_bits
    from softcheck.judge.device.agreement import disagreements
    from softcheck.judge.device.judge import judge_on_device
    from softcheck.judge.judge import judge

    found = {}
    for dtype in ("float16", "bfloat16", "float32"):
        generator = torch.Generator("cuda").manual_seed(columns)
        logits = torch.randn((257, columns), generator=generator, device="cuda") * 4
        logits[100:140, columns // 2 :] = -np.inf
        x = logits.to(TORCH_DTYPES[dtype])
        y = torch.softmax(x, dim=-1)
        y[3, -1] *= 1.25
        bits = to_bits(x, FORMATS[dtype]), to_bits(y, FORMATS[dtype])
        host = judge(*bits, FORMATS[dtype])
        for judged_in in ("float64", "double-float32"):
            ours = judge_on_device(x, y, FORMATS[dtype], judged_in=judged_in)
            assert ours.judged_in == judged_in
            found[dtype, judged_in] = disagreements(ours, host)
    return found


def with_fault(bits, output, dtype, fault):
    """Measures with a fault planted in the arithmetic: a wrong coefficient, or what makes two float32 of one left out."""
    import triton.language as tl
    from double_float_kernels import rounded_product, rounded_sum

    from softcheck.judge.device import double_float, scan_double_float

    wrong = {
        "coefficient": [(double_float, "_C3", tl.constexpr(double_float._C3.value * (1 + 2.0**-14)))],
        "rests lost": [(module, "two_sum", rounded_sum) for module in (double_float, scan_double_float)],
        "products' remainders lost": [
            (module, "product", rounded_product) for module in (double_float, scan_double_float)
        ],
        "right": [],
    }
    with ExitStack() as stack:
        for module, name, value in wrong[fault]:
            stack.enter_context(mock.patch.object(module, name, value))
        return device_child.measure(bits, output, dtype)


def compiled(dtype, columns, target, *, fused=False):
    """PTX of the scan, its shared memory and warps; ``fused`` leaves the launch option out, a planted fault."""
    import torch

    from oracles.formats import FORMATS
    from softcheck.calling.call import TORCH_DTYPES
    from softcheck.judge.device import scan_double_float
    from softcheck.judge.device.constants import Constants
    from softcheck.judge.judge import STANDARD
    from softcheck.operations import bounds
    from softcheck.toolchain.compile import compiling

    fmt = FORMATS[dtype]
    constants = Constants(fmt, bounds.model(STANDARD, fmt), columns)
    x = torch.zeros((4, columns), dtype=TORCH_DTYPES[dtype])
    with (
        mock.patch.object(scan_double_float, "EXACT", {} if fused else scan_double_float.EXACT),
        compiling(target) as kernels,
    ):
        scan_double_float.scan(x, x, constants)
    found = next(k for k in kernels if k.name == "_scan_kernel")
    return found.asm["ptx"], found.shared_bytes, found.warps


def rates_compiled(target):
    """Kernels that measure rates, as PTX by dtype."""
    import torch

    from softcheck.judge.device import rates
    from softcheck.toolchain.compile import compiling

    with compiling(target) as kernels:
        for dtype in (torch.float32, torch.float64):
            rates.launch(dtype, torch.device("cpu"), 1, 4)
    return ["".join(re.findall(r"fma\.rn\.f\d\d", k.asm["ptx"])) for k in kernels]


def rates_run():
    """Results of the kernel that measures rates, interpreted, by dtype."""
    import torch

    from softcheck.judge.device import rates

    device = torch.device("cpu")
    return [rates.launch(dtype, device, 2, 40).tolist() for dtype in (torch.float32, torch.float64)]
