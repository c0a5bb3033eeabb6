"""Compiles one kernel for a GPU that need not be there, and prints what the meter says: kernels, seconds, whether unknown."""

import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from softcheck.toolchain import compile_seconds


@triton.jit
def kernel(output, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    exponentials = tl.exp(tl.load(x + at, mask=inside, other=-float("inf")))
    tl.store(output + at, exponentials / tl.sum(exponentials, axis=0), mask=inside)


def main():
    if sys.argv[1:] != ["unmetered"]:
        compile_seconds.install()
    source = ASTSource(
        kernel, {"output": "*fp32", "x": "*fp32", "columns": "i32", "BLOCK": "constexpr"}, {"BLOCK": 2048}
    )
    compile_seconds.METER.begin()
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
    meter = compile_seconds.METER
    sys.stdout.write(f"{meter.kernels} {meter.seconds} {meter.has_unknown}\n")


if __name__ == "__main__":
    main()
