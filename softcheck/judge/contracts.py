"""Choice of the arithmetic by which a variant is judged: the standard contract's, or a weaker one that it may use.

Derived in docs/bounds.md, section 13. Imports neither torch nor Triton.
"""

import msgspec

from softcheck.judge.judge import STANDARD
from softcheck.operations.arithmetic import WARP, Arithmetic


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
