"""Every causal mask up to 130 x 130, or every scale of float16, for one variant of softmax or log-softmax.

    python benchmarks/every_option.py masks VARIANT [--dtype float32] [--every N] [--device auto]
    python benchmarks/every_option.py scales VARIANT [--dtype float32] [--every N] [--device auto]

VARIANT is a name or FILE:FUNCTION, as ``softcheck report`` takes it, that declares a causal mask or takes a scale. ``masks`` runs all
16900 pairs of queries and keys, with NaN and infinities behind the mask; ``scales`` all 31743 positive finite numbers of
float16, on telling rows. ``--every N`` takes each N-th of them. The last line counts them; exits 1 where an output breaks a promise.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracles.formats import FLOAT16, FORMATS, decode, encode

LARGEST = 130


def masks(every: int, alignment: str) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The promises of each mask, and two matrices of scores as rows, [2, queries * keys]."""
    from softcheck.operations.causal import visible

    random = np.random.default_rng(0)
    for number in range(0, LARGEST * LARGEST, every):
        queries, keys = number // LARGEST + 1, number % LARGEST + 1
        scores = random.normal(0, 3, (2, queries, keys))
        hidden = ~visible(queries, keys, alignment)
        scores[0][hidden] = np.resize([np.nan, np.inf, 1e4, -np.inf], hidden.sum())
        yield f"queries={queries}", scores.reshape(2, queries * keys)


def scales(every: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The promises of each scale, and telling rows, [8, 33]."""
    random = np.random.default_rng(0)
    rows = random.normal(0, 1, (8, 33)) * np.array([1e-3, 1, 1, 10, 100, 1, 1, 1000])[:, None]
    rows[1], rows[2], rows[5, ::3], rows[6, 4] = 0.5, np.linspace(-20, 0, 33), -np.inf, 60.0
    for bits in range(1, 0x7C00, every):
        yield f"scale={float(decode(np.array([bits], np.uint16), FLOAT16)[0])!r}", rows


def broken(spec: str, dtype: str, promises: str, values: NDArray[np.float64]) -> list[str]:
    """The kinds of promises that an output for these values breaks, of a variant that is declared with further promises."""
    import torch

    from softcheck.calling.call import call, place
    from softcheck.cases.case import PACKED
    from softcheck.judge.judge import judge
    from softcheck.operations.arithmetic import Arithmetic
    from softcheck.variants.registry import load, with_declared

    variant, fmt = load(with_declared(spec, promises)), FORMATS[dtype]
    device = torch.device("cuda" if os.environ.get("TRITON_INTERPRET") != "1" else "cpu")
    bits = encode(values, fmt)
    called = call(variant.function, place(bits, fmt, PACKED, device), variant.operation)
    found = [*called.violations]
    if called.output is not None:
        declared = variant.declaration
        found += judge(
            bits,
            called.output,
            fmt,
            fully_masked=declared.fully_masked,
            arithmetic=declared.arithmetic or Arithmetic(),
            operation=variant.operation,
        ).violations
    return [f"{promises}, {values.shape[1]} columns: {each.kind}: {each.message}" for each in found]


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", choices=("masks", "scales"))
    parser.add_argument("variant")
    parser.add_argument("--dtype", default="float32", choices=("float16", "bfloat16", "float32"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "interpreter"))
    asked = parser.parse_args()
    import torch

    if asked.device == "interpreter" or (asked.device == "auto" and not torch.cuda.is_available()):
        os.environ["TRITON_INTERPRET"] = "1"
    from softcheck.variants.registry import load

    if asked.domain == "masks":
        alignment = str(load(asked.variant).declaration.parameters.get("causal", ""))
        if not alignment:
            parser.error(f"{asked.variant} declares no causal mask; write {asked.variant}@causal=top-left")
        points = masks(asked.every, alignment)
    else:
        points = scales(asked.every)
    count, wrong = 0, 0
    for promises, values in points:
        found = broken(asked.variant, asked.dtype, promises, values)
        count, wrong = count + 1, wrong + bool(found)
        if found and wrong <= 10:
            print(found[0])
    print(f"{count} {asked.domain} of {asked.variant} in {asked.dtype}: {wrong} with a broken promise")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
