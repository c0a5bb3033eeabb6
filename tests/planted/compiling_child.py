"""Compiles the kernels of every ``parts``-th planted file from number ``part`` on for a GPU, in a process that interprets none.

    python compiling_child.py PART PARTS

Prints a line for each that fails.
"""

import math
import sys

import torch
from planted import all_bugs, all_controls

from softcheck.errors import SoftcheckError
from softcheck.toolchain.compile import compile_for, compiling
from softcheck.variants.registry import load

TARGET = "cuda:90"
SHAPE = (5, 781)


def compiled_backward(function, dtype):
    """The kernels of a function's gradient."""
    x = torch.linspace(-1.0, 1.0, math.prod(SHAPE)).view(SHAPE).to(getattr(torch, dtype)).requires_grad_()
    with compiling(TARGET) as kernels:
        y = function(x)
        if y.requires_grad:
            torch.autograd.grad(y, x, torch.ones_like(y))
    return kernels


def main() -> None:
    compiled = 0
    part, parts = map(int, sys.argv[1:])
    for planted in (*all_bugs(), *all_controls())[part::parts]:
        function = load(planted.spec).function
        try:
            kernels = compile_for(function, TARGET, planted.dtypes[0], SHAPE)
        except SoftcheckError as error:
            sys.stdout.write(f"{planted.name}: {error}\n")
            continue
        has_kernels = "@triton.jit" in planted.path.read_text(encoding="utf-8")
        if not kernels and has_kernels:
            kernels = compiled_backward(function, planted.dtypes[0])
        if not kernels and has_kernels:
            sys.stdout.write(f"{planted.name}: launched no kernel\n")
        compiled += len(kernels)
    sys.stdout.write(f"{compiled} compiled\n")


if __name__ == "__main__":
    main()
