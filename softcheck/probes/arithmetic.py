"""Comparison of a variant's arithmetic, read off the PTX of its Triton kernels, with its declaration.

On a GPU the kernels are those that Triton launches in an ordinary call. Without a GPU they are compiled for ``TARGET``
in another process, since this process interprets them. A kernel that can't be compiled or read there gives a reason for
skipping, not a finding.
"""

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import departure
from softcheck.probes.base import Probe, Setting, Subject, Trial, skipped_of
from softcheck.probes.helpers import call_on, ordinary_rows
from softcheck.probes.outcome import NOTHING_TO_TRY, Conclusion, KernelArithmetic, Outcome, Shown
from softcheck.toolchain.ptx import (
    Kernel,
    ObservedArithmetic,
    contradictions,
    merged,
    read_arithmetic,
    shown_arithmetic,
    weaknesses,
)
from softcheck.variants.ahead import TARGET, AheadError, compile_ahead

_ROWS = 5
_COLUMNS = (781, 5000)
"""A width that fits one block, and a width for which several built-in kernels use tiles or more warps. Neither is a
power of two, so that masks are not optimised away."""


_SHIFTED = {"unshifted_ex2_approx": "ex2_approx", "unshifted_float64": "libdevice_float64"}
"""Exponentials of unshifted numbers, and those of differences that err as much."""


class _Arithmetic(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        widths = [columns for columns in _COLUMNS if setting.takes(columns)]
        if not widths:
            limit = setting.declaration.column_limit(setting.dtype)
            widths = [] if limit is None else [limit]
        return [Trial(f"{_ROWS}x{columns}", (columns, setting)) for columns in widths]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        declared, (columns, setting) = subject.setting.declaration.arithmetic, trial.parameters
        try:
            kernels = [kernel for kernel in _kernels(subject, columns) if "ptx" in kernel.asm]
        except _UnreadError as error:
            # A declaration is shown even without a kernel.
            shown = None if declared is None else KernelArithmetic(declared=declared)
            return Outcome(skipped=str(error), fatal=error.fatal, arithmetic=shown)
        found = KernelArithmetic(
            declared=declared,
            kernels=tuple(dict.fromkeys(kernel.name for kernel in kernels)),
            target=None if not kernels else _target(kernels[0]) if subject.setting.on_gpu else TARGET,
            observed=_observed(kernels, setting) if kernels else None,
        )
        if not kernels:
            why = f"{NOTHING_TO_TRY}launches no Triton kernel with PTX of its own"
            return Outcome(skipped=why, arithmetic=None if declared is None else found)
        return Outcome(arithmetic=found)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one arithmetic for all widths, the one that errs most, and one finding for all contradictions.

        A variant may use another kernel for each width, so only all kernels together can contradict a declaration.
        """
        read = [trial for trial, o in done if o.arithmetic is not None and o.arithmetic.observed]
        found = _of_all(done)
        findings: tuple[Shown, ...] = ()
        if found is not None and found.declared is not None and found.observed is not None:
            first, saw_all = read[0], len(read) == len(done)
            messages = contradictions(found.declared, found.observed, first.parameters[1].dtype, saw_all=saw_all)
            kind = FindingKind.ARITHMETIC_CONTRADICTED
            findings = (Shown(first.label, Violation(kind, "; ".join(messages), len(messages))),) if messages else ()
        return Conclusion(findings=findings, trials=len(read), skipped=skipped_of(done), arithmetic=found)


PROBE = _Arithmetic()


class _UnreadError(Exception):
    """Raised with the reason if there is nothing to read."""

    def __init__(self, reason: str, *, fatal: bool = False) -> None:
        super().__init__(reason)
        self.fatal = fatal


def _kernels(subject: Subject, columns: int) -> Sequence[Kernel]:
    """Returns the compiled kernels of one call."""
    setting, variant = subject.setting, subject.variant
    if not setting.on_gpu:
        try:
            return compile_ahead(variant.name, variant.fact, setting.dtype, (_ROWS, columns))
        except AheadError as error:
            raise _UnreadError(f"not compiled ahead of time: {error}") from None
    # Imports Triton. Without a GPU only the compiling process needs it.
    from softcheck.toolchain.compile import launched

    bits = ordinary_rows(_ROWS, columns, setting.fmt, setting.seed)
    with launched() as kernels:
        called = call_on(subject, bits)
    if called.output is None:
        # The cases report the failure; here it means only that some kernels may not have been seen.
        raise _UnreadError(f"the call failed: {called.violations[0].message}", fatal=called.fatal)
    return kernels


def _target(kernel: Kernel) -> str | None:
    """The GPU that a kernel was compiled for, e.g. ``cuda:90``."""
    target = getattr(getattr(kernel, "metadata", None), "target", None)
    return None if target is None else f"{target.backend}:{target.arch}"


def _observed(kernels: Sequence[Kernel], setting: Setting) -> ObservedArithmetic:
    """The arithmetic that kernels show, less what is the operation's own."""
    observed = read_arithmetic(kernels)
    if not setting.operation.subtracts_maximum:
        kinds = tuple(sorted({_SHIFTED.get(kind, kind) for kind in observed.exponentials}))
        observed = msgspec.structs.replace(observed, exponentials=kinds)
    # Weights may be rounded to the input's type before they meet the values, as matrix products of 16 bits ask for it.
    return msgspec.structs.replace(observed, narrow_roundings=()) if setting.has_heads else observed


def _of_all(done: Sequence[tuple[Trial, Outcome]]) -> KernelArithmetic | None:
    """All readings together, with the model that they show, and where it leaves the contract."""
    seen = [outcome.arithmetic for _, outcome in done if outcome.arithmetic is not None]
    if not seen:
        return None
    setting: Setting = done[0][0].parameters[1]
    dtype, declared, given = setting.dtype, seen[0].declared, setting.operation.parameters
    readings = [each.observed for each in seen if each.observed is not None]
    observed, shown = merged(readings) if readings else None, None
    # A kernel without exponentials, beside a library's, shows nothing of how softmax is computed.
    if observed is not None and observed.exponentials:
        # Where no model covers it, it is named among the weaknesses.
        with suppress(ValueError):
            shown = shown_arithmetic(observed, dtype)
    own, told = shown if declared is None else declared, observed
    # The operation scales or caps its logits, and its bound has the roundings.
    if setting.has_heads or given.get("scale", 1.0) != 1 or given.get("softcap", 0.0):
        own = None if own is None else msgspec.structs.replace(own, scaled_logits=False, exp="ex2_approx")
        told = None if observed is None else _without_scaling(observed)
    elif own is not None and own is shown and not (observed is not None and "constant" in observed.scaled_logits):
        # A factor that is an argument may be 1 or another power of two, whose product is exact.
        own = msgspec.structs.replace(own, scaled_logits=False)
    return KernelArithmetic(
        declared=declared,
        kernels=tuple(dict.fromkeys(name for each in seen for name in each.kernels)),
        target=next((each.target for each in seen if each.target is not None), None),
        observed=observed,
        shown=shown,
        weaknesses=() if told is None else tuple(weaknesses(told, dtype)),
        leaves_contract=None if own is None else departure(own, dtype),
    )


def _without_scaling(observed: ObservedArithmetic) -> ObservedArithmetic:
    """The reading without what the bound of scaled logits allows: products before the subtraction, one with log2(e) among them."""
    kinds = tuple(kind for kind in observed.exponentials if not kind.startswith("prescaled"))
    return msgspec.structs.replace(observed, scaled_logits=(), exponentials=kinds)
