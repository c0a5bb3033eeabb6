"""The arithmetic of a variant's kernels as their PTX shows it, beside what the variant declares.

Reads text, imports neither torch nor triton, and runs nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from softcheck.operations.arithmetic import Arithmetic, DivisionKind, ExpKind
from softcheck.toolchain._ptx_code import parse
from softcheck.toolchain._ptx_reading import Reading


class Kernel(msgspec.Struct, frozen=True):
    """The parts of a compiled kernel that are read; Triton's own have them too."""

    name: str
    asm: dict[str, Any]
    """Code by stage, of which ``ptx`` is read; a target may have none."""


class ObservedArithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arithmetic that the PTX of a variant's kernels shows. Tuples are sorted and hold each entry once."""

    exponentials: tuple[str, ...] = ()
    """Exponentials. Of float32: ex2_approx (after the subtraction), prescaled_ex2_approx, libdevice,
    unshifted_ex2_approx (no maximum is seen to be subtracted), misshifted_ex2_approx (the maximum is that of the logits scaled
    otherwise); of 16 bits: ex2_approx_float16, ex2_approx_bfloat16; of float64: libdevice_float64, prescaled_float64,
    unshifted_float64, misshifted_float64."""
    fused_exponents: bool = False
    """True if a scaling is fused with the subtraction before an exponential."""
    scaled_logits: tuple[str, ...] = ()
    """Factors of the logits before the maximum is subtracted: constant (no power of two), argument (a number that the
    kernel is called with or loads; if it is a power of two, the product is exact), function (of logits that the kernel
    makes by an exponential, as a soft cap's)."""
    divisions: tuple[str, ...] = ()
    """div_full, div_rn, div_approx, reciprocal (1 divided by something), rcp_approx, rcp_rn, div_rn_float64."""
    sums: tuple[str, ...] = ()
    """Types in which values derived from exponentials are added, before any division."""
    narrow_operations: tuple[str, ...] = ()
    """Operations of 16-bit types that round."""
    narrow_roundings: tuple[str, ...] = ()
    """Conversions to 16 bits of computed values that are computed with afterwards."""
    directed_roundings: tuple[str, ...] = ()
    """Conversions to a narrower type that don't round to nearest."""
    flushing: tuple[str, ...] = ()
    """Operations of float32 or bfloat16 that flush subnormal values to zero, but for those inside libdevice's exp."""
    rescales: bool = False
    """True if a sum of exponentials, of this kernel or of one before, is multiplied by another exponential."""
    calls: tuple[str, ...] = ()
    """Functions that are called and so can't be read."""


def read_arithmetic(kernels: Sequence[Kernel]) -> ObservedArithmetic:
    """Reads the arithmetic of kernels from their PTX, taken together.

    The result is empty if no kernel has PTX (a library's kernel, or another target).
    """
    readings = [Reading(parse(text)) for kernel in kernels if isinstance(text := kernel.asm.get("ptx"), str)]
    names = ObservedArithmetic.__struct_fields__
    found = ({name: getattr(reading, name)() for name in names} for reading in readings)
    return merged([msgspec.convert(fields, ObservedArithmetic) for fields in found])


def merged(parts: Iterable[ObservedArithmetic]) -> ObservedArithmetic:
    """Joins several readings into one."""
    together = ObservedArithmetic()
    for part in parts:
        pairs = ((name, getattr(together, name), getattr(part, name)) for name in part.__struct_fields__)
        fields = {name: a or b if isinstance(a, bool) else tuple(sorted({*a, *b})) for name, a, b in pairs}
        together = msgspec.convert(fields, ObservedArithmetic)
    return together


_PRESCALED = "multiplies by log2 e before subtracting the maximum"
_MISSHIFTED = "seems to subtract the maximum of logits that are scaled otherwise"
_UNSEEN = "takes an exponential before which no maximum is seen to be subtracted"

_EXPONENTIALS: dict[str, tuple[ExpKind | None, str, str]] = {
    "ex2_approx": ("ex2_approx", "float32", ""),
    "prescaled_ex2_approx": ("prescaled_ex2_approx", "float32", _PRESCALED),
    "libdevice": ("libdevice", "float32", ""),
    "unshifted_ex2_approx": (None, "float32", _UNSEEN),
    "misshifted_ex2_approx": (None, "float32", _MISSHIFTED),
    "ex2_approx_float16": (None, "float32", "exponentials in float16"),
    "ex2_approx_bfloat16": (None, "float32", "exponentials in bfloat16"),
    "libdevice_float64": ("ex2_approx", "float64", ""),
    "prescaled_float64": ("prescaled_ex2_approx", "float64", _PRESCALED),
    "unshifted_float64": (None, "float64", _UNSEEN),
    "misshifted_float64": (None, "float64", _MISSHIFTED),
}
"""Of each kind the model, the type in which it is computed, and what is weaker than the standard contract."""

_RECIPROCAL = "multiplies by a reciprocal"

_DIVISIONS: dict[str, tuple[DivisionKind, str]] = {
    "div_full": ("div_full", ""),
    "div_rn": ("div_rn", ""),
    "reciprocal": ("reciprocal", _RECIPROCAL),
    "rcp_approx": ("reciprocal", "approximate reciprocal (rcp.approx)"),
    "rcp_rn": ("reciprocal", _RECIPROCAL),
    # The PTX ISA defines it as a product with the reciprocal.
    "div_approx": ("reciprocal", "approximate reciprocal (div.approx)"),
}
"""Of each kind the model, and what is weaker than the standard contract."""

_FROM_LEAST = {
    "exp": ("libdevice", "ex2_approx", "prescaled_ex2_approx"),
    "division": ("div_rn", "div_full", "reciprocal"),
    "accumulation": ("float64", "float32", "input"),
    "intermediate": ("float64", "float32", "input"),
    "rescales": (False, True),
    "flush_to_zero": (False, True),
    "scaled_logits": (False, True),
}
"""Values of each field of an arithmetic, from the one that errs least on."""

Step = tuple[str, str | bool, str]
"""A step that the PTX shows: the field of an arithmetic that declares it, its value, and words."""


def _steps(observed: ObservedArithmetic, dtype: str) -> list[Step]:
    """The steps that were seen and have a model. One behind an argument's factor, which may be a power of two, declares nothing."""
    found: list[Step] = []
    kinds = _of_softmax(observed)
    for kind in kinds:
        model, wide, _ = _EXPONENTIALS[kind]
        # Every kind of float64 stands beside the plain one.
        if model is not None and not (kind == "libdevice_float64" and "prescaled_float64" in kinds):
            found.append(("exp", model, f"an exponential is {kind}"))
        found.append(("intermediate", wide, f"an exponential is {kind}"))
    found += [("division", _DIVISIONS[k][0], f"a division is {k}") for k in observed.divisions if k in _DIVISIONS]
    found += [("accumulation", _declared_type(k, dtype), f"exponentials are added in {k}") for k in observed.sums]
    has_narrow_sums = any(kind.endswith("16") for kind in observed.sums)
    narrow = [op for op in observed.narrow_operations if not (has_narrow_sums and op.startswith("add."))]
    for field, value, seen, words in (
        ("intermediate", "input", narrow, f"{_list(narrow)} computes in 16 bits"),
        (
            *("intermediate", "input", observed.narrow_roundings),
            f"{_list(observed.narrow_roundings)} rounds a value that is computed with afterwards",
        ),
        ("flush_to_zero", True, observed.flushing, f"{_list(observed.flushing)} flushes subnormal results to zero"),
        ("rescales", True, observed.rescales, "a sum is rescaled by an exponential"),
        (
            *("scaled_logits", True, "constant" in observed.scaled_logits),
            "logits are multiplied by a constant before the maximum is subtracted",
        ),
    ):
        if seen:
            found.append((field, value, words))
    return found


def _missing(observed: ObservedArithmetic) -> list[Step]:
    """The steps that were not seen in kernels with exponentials."""
    has_any = bool(observed.exponentials)
    return [
        (field, False, words)
        for field, is_missing, words in (
            ("flush_to_zero", _in_float32(observed) and not observed.flushing, "no operation is seen to flush to zero"),
            ("rescales", has_any and not observed.rescales, "no sum is seen to be rescaled by an exponential"),
            (
                *("scaled_logits", has_any and not observed.scaled_logits),
                "no logits are seen to be scaled before the maximum is subtracted",
            ),
        )
        if is_missing
    ]


def contradictions(
    declared: Arithmetic, observed: ObservedArithmetic, dtype: str, *, saw_all: bool = True
) -> list[str]:
    """Lists how a declaration and the PTX disagree for an input dtype: what was seen and expected, and what to do.

    A declaration that is looser than the PTX disagrees too. If a kernel may not have been seen (``saw_all`` is False), or
    a kernel calls what can't be read, a declared step that was not found is no contradiction. Steps that the PTX doesn't
    show, such as a sum of another kernel's exponentials, are no contradiction. A variant without PTX has no contradiction
    at all.
    """
    found = [f"an exponential is {kind}; no model covers it" for kind in _without_model(observed)]
    missing = _missing(observed) if saw_all and not observed.calls else []
    for field, value, words in (*_steps(observed, dtype), *missing):
        said = getattr(declared, field)
        if field in ("accumulation", "intermediate"):
            said = _declared_type(_type(said, dtype), dtype)
        allowed = {said}
        if field == "intermediate" and said == "input":
            allowed.add("float32")
        if field == "exp" and dtype == "float64" and said == "libdevice":
            allowed.add("ex2_approx")
        if value not in allowed:
            told = f"{field}={said}" if isinstance(said, bool) else dtype if said == "input" else said
            found.append(f"{words}, the declaration says {told}; declare {field}={value!r}, or change the kernel")
    found += [
        f"{opcode} does not round to nearest, every model expects it to; store with the default rounding"
        for opcode in observed.directed_roundings
    ]
    return [*found, *(f"{name} is called, and its arithmetic can't be read; inline it" for name in observed.calls)]


def shown_arithmetic(observed: ObservedArithmetic, dtype: str) -> Arithmetic:
    """Returns the arithmetic for a variant that declares none: of each kind of step, the one seen that errs most.

    Raises ValueError if a step that was seen has no model: an exponential of 16 bits, an exponential from which nothing
    or another maximum was subtracted, another 16-bit type than the input's, a conversion that doesn't round to nearest,
    or a call.
    """
    unknown = [*_without_model(observed), *observed.directed_roundings, *observed.calls]
    # "input" is the only 16-bit type that a model has.
    unknown += [f"sums in {kind}" for kind in observed.sums if kind.endswith("16") and kind != dtype]
    narrow = (*observed.narrow_operations, *observed.narrow_roundings)
    unknown += [op for op in narrow if dtype != ("bfloat16" if ".bf16" in op else "float16")]
    if unknown:
        raise ValueError(
            f"the PTX shows {_list(unknown)}, for which there is no proven bound; expected exponentials of shifted float32 or "
            "float64 values that are rounded to nearest; judge against the standard contract"
        )
    wide = "float32" if _in_float32(observed) or not observed.exponentials else "float64"
    shown: dict[str, Any] = {"scaled_logits": bool(observed.scaled_logits), "intermediate": wide, "accumulation": wide}
    seen = _steps(observed, dtype)
    for field, order in _FROM_LEAST.items():
        if values := [value for name, value, _ in seen if name == field]:
            shown[field] = max(values, key=order.index)
    return msgspec.convert(shown, Arithmetic)


def _without_model(observed: ObservedArithmetic) -> list[str]:
    return [kind for kind in _of_softmax(observed) if _EXPONENTIALS[kind][0] is None]


def _declared_type(kind: str, dtype: str) -> str:
    """A type as a declaration for an input dtype names it."""
    return "input" if kind == dtype and kind.endswith("16") else kind


def weaknesses(observed: ObservedArithmetic, dtype: str) -> list[str]:
    """Points in which the PTX is weaker than the standard contract for an input dtype, each in a few words."""
    full = "float64" if dtype == "float64" else "float32"
    found = [
        f"sums in {kind}" for kind in observed.sums if kind.endswith("16") or (kind, full) == ("float32", "float64")
    ]
    if full == "float64" and _in_float32(observed):
        found.append("exponentials in float32")
    for kind in observed.exponentials:
        if words := _EXPONENTIALS[kind][2]:
            is_gate = kind in _UNSHIFTED and kind not in _of_softmax(observed)
            found.append(words + (", as in a sigmoid; others subtract one" if is_gate else ""))
    found += [_WEAK_SCALING[kind] for kind in ("constant", "argument") if kind in observed.scaled_logits][:1]
    found += dict.fromkeys(words for kind in observed.divisions if (words := _DIVISIONS.get(kind, ("", ""))[1]))
    # Additions and exponentials of 16 bits have been named above.
    steps = [op for op in observed.narrow_operations if not op.startswith(("add.", "ex2."))]
    for operations, what in (
        (steps, "computes in 16 bits"),
        (observed.narrow_roundings, "rounds to 16 bits before the end"),
        (observed.directed_roundings, "does not round to nearest"),
        (observed.flushing, "flushes subnormal values to zero"),
        (observed.calls, "calls what can't be read"),
    ):
        if operations:
            found.append(f"{what} ({_list(operations)})")
    return found


_UNSHIFTED = ("unshifted_ex2_approx", "unshifted_float64")
_WEAK_SCALING = {
    "constant": "scales logits before subtracting the maximum",
    "argument": "scales logits before subtracting the maximum, exactly only by powers of two",
}


def _of_softmax(observed: ObservedArithmetic) -> tuple[str, ...]:
    """The exponentials that may be a softmax's: where some subtract a maximum, others may be of a gate or a sigmoid."""
    shifted = [kind for kind in observed.exponentials if kind not in _UNSHIFTED]
    if "unshifted_float64" in observed.exponentials:
        # It stands beside every kind of float64.
        shifted = [kind for kind in shifted if kind != "libdevice_float64"]
    return tuple(shifted) or observed.exponentials


def _in_float32(observed: ObservedArithmetic) -> bool:
    return any(_EXPONENTIALS[kind][1] == "float32" for kind in observed.exponentials)


def _type(declared: str, dtype: str) -> str:
    """The type that a declared one means for an input dtype; float64 input always computes in float64."""
    if dtype == "float64":
        return "float64"
    return dtype if declared == "input" else declared


def _list(entries: Iterable[str]) -> str:
    return ", ".join(entries)
