"""Compiles what a file of requests asks for: [[spec, dtype, columns, target, cuda:90 if left out]] to [[declared arithmetic, [[kernel, ptx]]]]."""

import json
import sys
from pathlib import Path

import msgspec

from softcheck.toolchain.compile import compile_for
from softcheck.variants.registry import load


def compiled(spec, dtype, columns, target="cuda:90"):
    variant = load(spec)
    kernels = compile_for(variant.function, target, dtype, (5, columns))
    declared = msgspec.to_builtins(variant.declaration.arithmetic)
    return [declared, [[kernel.name, kernel.asm["ptx"]] for kernel in kernels]]


if __name__ == "__main__":
    requests, answers = Path(sys.argv[1]), Path(sys.argv[2])
    answers.write_text(json.dumps([compiled(*request) for request in json.loads(requests.read_text())]))
