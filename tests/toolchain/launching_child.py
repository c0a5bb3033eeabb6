"""Launches planted kernels on a stand-in device, where a launch does nothing, and prints what was captured of each."""

import json
import sys

import torch
import triton

from softcheck.toolchain.compile import launched, stand_in_driver
from softcheck.toolchain.ptx import read_arithmetic
from softcheck.variants.registry import load


def captured(call):
    with launched() as kernels:
        call()
    return [[kernel.name for kernel in kernels], list(read_arithmetic(kernels).exponentials), target_of(kernels)]


def target_of(kernels):
    return [f"{k.metadata.target.backend}:{k.metadata.target.arch}" for k in kernels]


def warmed_up(x):
    """As persistent kernels do: compiled at one moment, launched at another."""
    from softcheck.variants.builtin.one_block import _one_block_kernel as kernel

    arguments = (torch.empty_like(x), x, *x.stride(), x.shape[1])
    compiled = kernel.warmup(*arguments, BLOCK=128, COMPUTE=triton.language.float32, grid=(5, 1, 1))
    return lambda: compiled[5, 1, 1](*arguments, 128, triton.language.float32)


if __name__ == "__main__":
    triton.runtime.driver.set_active(stand_in_driver("cuda:90"))
    x = torch.zeros((5, 100))
    one_block, prescaled = load("one_block").function, load("exp2_prescaled").function
    answers = {
        "first call": captured(lambda: one_block(x)),
        "second call": captured(lambda: (one_block(x), one_block(x))),
        "two kernels": captured(lambda: (one_block(x), prescaled(x))),
        "compiled before": captured(warmed_up(x)),
        "library": captured(lambda: torch.softmax(x, dim=-1)),
    }
    one_block(x)
    sys.stdout.write(json.dumps(answers))
