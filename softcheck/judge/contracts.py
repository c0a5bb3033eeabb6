"""The arithmetic by which a variant is judged, the standard contract's or a weaker one, and what weaker ones allow beyond that.

Derived in docs/bounds.md#which-bound-decides. Imports neither torch nor Triton.
"""

import math

import msgspec
import numpy as np

from oracles.formats import FORMATS, Format
from oracles.reference import Reference
from softcheck.judge.judge import STANDARD, reference
from softcheck.numbers.model import WARP
from softcheck.operations import ulp
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.bounds import bounds


def contract_of(declared: Arithmetic | None, *, of_cpu_library: bool = False, over_another: bool = False) -> Arithmetic:
    """Returns the arithmetic whose bound an output must keep.

    ``declared`` may weaken the standard contract and never tightens it: a kernel that divides with IEEE rounding may
    err as much as one that does not. ``of_cpu_library`` is True if a call ran on a CPU without any Triton kernel. The
    sum is then a library's, whose lanes depend on the processor. ``over_another`` is True if it reduces another dimension
    than the last: torch then keeps differences and exponentials in the input's type (aten/src/ATen/native/cpu/SoftMaxKernel.cpp).
    """
    own = STANDARD if declared is None else _no_stricter(declared)
    if not of_cpu_library:
        return own
    return msgspec.structs.replace(own, lanes=1, intermediate="input" if over_another else own.intermediate)


def _no_stricter(declared: Arithmetic) -> Arithmetic:
    return msgspec.structs.replace(
        declared,
        exp="prescaled_ex2_approx" if declared.exp == "prescaled_ex2_approx" else STANDARD.exp,
        division="reciprocal" if declared.division == "reciprocal" else STANDARD.division,
        accumulation="input" if declared.accumulation == "input" else STANDARD.accumulation,
        intermediate="input" if declared.intermediate == "input" else STANDARD.intermediate,
        lanes=min(WARP, declared.lanes),
    )


def weaker_by_design(declared: Arithmetic | None, dtype: str) -> str | None:
    """Words for what a declaration allows beyond the standard contract for a dtype; None if it allows nothing more.

    A running sum that is rescaled has a term of its own in the bound and is not called weaker.
    """
    if declared is None:
        return None
    narrow = dtype in ("float16", "bfloat16")
    said = [
        (declared.exp == "prescaled_ex2_approx", "logits scaled before the maximum is subtracted"),
        (declared.scaled_logits, "logits scaled by a factor before the maximum is subtracted"),
        (declared.division == "reciprocal", "products with a reciprocal"),
        (narrow and declared.intermediate == "input", f"differences and exponentials rounded to {dtype}"),
        (narrow and declared.accumulation == "input", f"sums in {dtype}"),
        (declared.products == "tf32" and not narrow, "factors of matrix products rounded to TF32"),
        (declared.flush_to_zero, "subnormal values flushed to zero"),
        (declared.lanes < WARP, f"rows summed in {declared.lanes} part{'' if declared.lanes == 1 else 's'}"),
    ]
    words = [text for applies, text in said if applies]
    return ", ".join(words) if words else None


_OF_ANY_WIDTH = (
    Arithmetic(flush_to_zero=True),
    Arithmetic(division="reciprocal"),
    Arithmetic(scaled_logits=True),
    Arithmetic(lanes=1),
    Arithmetic(exp="prescaled_ex2_approx"),
    Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True),
)
_OF_16_BITS = (
    Arithmetic(intermediate="input"),
    Arithmetic(accumulation="input"),
    Arithmetic(accumulation="input", intermediate="input"),
)


def candidates(width: int) -> tuple[Arithmetic, ...]:
    """Arithmetics that a declaration may name for a format of ``width`` bits, beginning with those that allow less."""
    return (*_OF_ANY_WIDTH, *(_OF_16_BITS if width == 16 else (Arithmetic(products="tf32"),)))


def in_words(arithmetic: Arithmetic) -> str:
    """Returns the argument of ``@variant`` that declares the arithmetic, without fields that equal the defaults."""
    fields = (name for name in arithmetic.__struct_fields__ if getattr(arithmetic, name) != getattr(STANDARD, name))
    return f"arithmetic=Arithmetic({', '.join(f'{name}={getattr(arithmetic, name)!r}' for name in fields)})"


COLUMNS = 1025
"""Columns of the rows on which |x| is searched for. 1/1025 lies just below a power of two, where an ULP is smallest
beside the value."""

FACTOR = 2.0
"""Multiple of the standard bound that counts as outside it. A kernel that uses half of its own bound, as adversarial
rows do (docs/bounds.md#measured), is there beyond the standard bound."""

_WIDEST = 2**12


def departure(arithmetic: Arithmetic, dtype: str) -> str | None:
    """Words for the place where an arithmetic leaves the standard contract; None if it leaves it nowhere.

    Only 16-bit sums or intermediate values, and logits scaled before the maximum is subtracted, leave it.
    """
    fmt = FORMATS[dtype]
    if fmt.width == 16 and "input" in (arithmetic.accumulation, arithmetic.intermediate):
        columns = columns_beyond(arithmetic, fmt)
        what = "sums" if arithmetic.accumulation == "input" else "intermediate values"
        return None if columns is None else f"from {columns} columns on: {what} in {dtype}"
    if arithmetic.exp != "prescaled_ex2_approx" and not arithmetic.scaled_logits:
        return None
    magnitude = magnitude_beyond(arithmetic, fmt)
    if magnitude is None:
        return None
    return f"beyond |x| \N{ALMOST EQUAL TO} {_two_digits(magnitude)}: logits scaled before the maximum is subtracted"


def magnitude_beyond(arithmetic: Arithmetic, fmt: Format) -> float | None:
    """Largest |x|, to a percent, at which the bound is at most ``FACTOR`` times the standard one; None if every |x| is.

    The rows are ``COLUMNS`` logits equal to x, up to the format's largest finite number.
    """
    exact = reference(np.zeros((1, COLUMNS)), fmt)
    standard = _bound(STANDARD, fmt, exact, 0.0)

    def outside(magnitude: float) -> bool:
        return _bound(arithmetic, fmt, exact, magnitude) > FACTOR * standard

    inside, beyond = 2.0**-20, fmt.max
    if not outside(beyond):
        return None
    while beyond > 1.01 * inside:
        middle = math.sqrt(inside) * math.sqrt(beyond)
        inside, beyond = (inside, middle) if outside(middle) else (middle, beyond)
    return inside


def columns_beyond(arithmetic: Arithmetic, fmt: Format) -> int | None:
    """Fewest columns of equal logits on which the bound is over ``FACTOR`` times the standard one; None up to 4096."""
    for columns in range(2, _WIDEST + 1):
        exact = reference(np.zeros((1, columns)), fmt)
        if _bound(arithmetic, fmt, exact, 0.0) > FACTOR * _bound(STANDARD, fmt, exact, 0.0):
            return columns
    return None


def _bound(arithmetic: Arithmetic, fmt: Format, exact: Reference, magnitude: float) -> float:
    """Largest error in ULP that an arithmetic allows on a row of logits equal to ``magnitude``."""
    values = np.full(exact.high.shape, magnitude)
    return float(bounds(values, ulp.scaled(exact, fmt), exact.values, model(arithmetic, fmt)).elements[0, 0])


def _two_digits(value: float) -> str:
    """A figure to two significant digits, without an exponent up to 100000."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e5 else f"{rounded:g}"
