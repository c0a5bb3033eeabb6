"""Compiles a variant's kernels: (spec, target, dtype, shape) to [(kernel, stages of code, shared bytes, ttir)]."""

from child_loop import serve

from softcheck.toolchain.compile import compile_for
from softcheck.variants.registry import load


def run(spec, target, dtype, shape):
    kernels = compile_for(load(spec).function, target, dtype, shape)
    return [(k.name, set(k.asm), k.metadata.shared, k.asm["ttir"]) for k in kernels]


if __name__ == "__main__":
    serve(run)
