"""Every causal mask up to 130 x 130, every scale of float16, or every combination of a cross-entropy's options, for one variant.

    python benchmarks/every_option.py masks VARIANT [--dtype float32] [--every N] [--device auto]
    python benchmarks/every_option.py scales VARIANT [--dtype float32] [--every N] [--device auto]
    python benchmarks/every_option.py losses VARIANT [--dtype float32] [--every N] [--device auto]

VARIANT is a name or FILE:FUNCTION, as ``softcheck report`` takes it: a softmax or log-softmax that declares a causal mask or takes a
scale, or a cross-entropy that takes options. ``masks`` runs all 16900 pairs of queries and keys, with NaN and infinities behind the
mask; ``scales`` all 31743 positive finite numbers of float16, on adversarial rows; ``losses`` the product of the options that the function
has a parameter for, on adversarial rows of 15, 127 and 1024 logits, and judges the gradient too where there is one. ``--every N`` takes
each N-th of them. The last line counts them; exits 1 where an output breaks a promise.
"""
# ruff: noqa: INP001, T201 - a script, not a package; it prints

import argparse
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracles.formats import FLOAT16, FORMATS, decode, encode

if TYPE_CHECKING:
    import torch

    from softcheck.variants.registry import LoadedVariant

LARGEST = 130
OPTIONS: dict[str, tuple[str, ...]] = {
    "ignore_index": ("-100", "1"),
    "label_smoothing": ("", "0.1"),
    "weight": ("", "1"),
    "z_loss": ("", "1e-2"),
    "softcap": ("", "8"),
    "reduction": ("", "mean", "sum"),
}
"""Values of the options of a cross-entropy; an empty one leaves an option out. The target 1 is a column that is ignored."""
LOGITS = (15, 127, 1024)
"""Widths of the rows: three matrices of [3, 5], [1, 127] and [32, 32] for a mean or a sum."""


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
    """The promises of each scale, and adversarial rows, [8, 33]."""
    random = np.random.default_rng(0)
    rows = random.normal(0, 1, (8, 33)) * np.array([1e-3, 1, 1, 10, 100, 1, 1, 1000])[:, None]
    rows[1], rows[2], rows[5, ::3], rows[6, 4] = 0.5, np.linspace(-20, 0, 33), -np.inf, 60.0
    for bits in range(1, 0x7C00, every):
        yield f"scale={float(decode(np.array([bits], np.uint16), FLOAT16)[0])!r}", rows


def losses(every: int, function: Callable[..., object]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The promises of each combination of options that a function has parameters for, and adversarial rows of one width, [8, columns].

    Where it has no reduction, NaN for targets that are no columns is an option more.
    """
    from softcheck.variants.meanings import PARAMETERS

    names = inspect.signature(function).parameters
    known = {one.parameter for one in PARAMETERS for name in names if one.is_of(name)}
    offered = {name: values for name, values in OPTIONS.items() if name in known}
    random = np.random.default_rng(0)
    chosen = [
        {name: value for name, value in zip(offered, values, strict=True) if value}
        for values in product(*offered.values())
    ]
    chosen += [{**each, "invalid_target": "nan"} for each in chosen if "reduction" not in each]
    for each in chosen[::every]:
        for columns in LOGITS:
            rows = random.normal(0, 1, (8, columns)) * np.array([1e-3, 1, 12, 300, 1, 1, 1, 1])[:, None]
            rows[4], rows[5, 0], rows[6], rows[7, 1] = (
                -0.75 * math.log(columns),
                60,
                np.linspace(-20, 0, columns),
                -np.inf,
            )
            yield ",".join(f"{name}={value}" for name, value in each.items()), rows


def broken(spec: str, dtype: str, promises: str, values: NDArray[np.float64]) -> list[str]:
    """The kinds of promises that an output for these values breaks, of a variant that is declared with further promises."""
    import torch

    from softcheck.calling.call import call, place
    from softcheck.cases.case import PACKED
    from softcheck.judge.judge import judge
    from softcheck.operations.arithmetic import Arithmetic
    from softcheck.variants.registry import load, with_declared

    variant, fmt = load(with_declared(spec, promises) if promises else spec), FORMATS[dtype]
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
    said = [f"{each.kind}: {each.message}" for each in found]
    if called.output is not None and variant.declaration.operation == "cross_entropy":
        said += wrong_gradients(variant, values, dtype, device)
    return [f"{promises or 'no option'}, {values.shape[1]} columns: {each}" for each in said]


def wrong_gradients(
    variant: "LoadedVariant", values: NDArray[np.float64], dtype: str, device: "torch.device"
) -> list[str]:
    """A sentence on the gradient that is furthest beyond its bound, of rows without infinities; none where a function has no gradient."""
    import torch

    from softcheck.calling.call import to_tensor
    from softcheck.operations.arithmetic import Arithmetic
    from softcheck.probes.base import Setting, Subject
    from softcheck.probes.judged_gradients import judged

    fmt, declared = FORMATS[dtype], variant.declaration
    bits = encode(values[np.isfinite(values).all(axis=1)], fmt)
    x = to_tensor(bits, fmt, device).requires_grad_()
    answer = variant.function(x)
    if variant.operation.gradient is None or not answer.requires_grad:
        return []
    g = torch.linspace(-2, 3, answer.numel(), device=device).view(answer.shape).to(answer.dtype)
    (gradient,) = torch.autograd.grad(answer, x, g)
    arithmetic = declared.arithmetic or Arithmetic()
    setting = Setting(declaration=declared, dtype=dtype, backend="cuda" if device.type == "cuda" else "interpreter")
    subject = Subject(variant, setting, device)
    wrong = judged(subject, bits, gradient, g.view(len(bits), -1), arithmetic, "gradient of a call on ordinary rows")
    return [] if wrong is None else [f"{wrong.kind}: {wrong.message}"]


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", choices=("masks", "scales", "losses"))
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
    elif asked.domain == "losses":
        points = losses(asked.every, load(asked.variant).function)
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
