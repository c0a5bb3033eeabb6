"""Comparison of a variant's arithmetic, read off the PTX of its Triton kernels, with its declaration.

On a GPU the kernels are those that Triton launches in an ordinary call. Without a GPU they are compiled for ``TARGET``
in another process, since this process interprets them. A kernel that can't be compiled or read there gives a reason for
skipping, not a finding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import departure
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.base import Probe, Setting, Subject, Trial, skipped_of
from softcheck.probes.helpers import call_on, ordinary_rows
from softcheck.probes.outcome import NOTHING_TO_TRY, Conclusion, KernelArithmetic, Outcome, Shown
from softcheck.toolchain.ptx import (
    Compiled,
    ObservedArithmetic,
    contradictions,
    merged,
    read_arithmetic,
    shown_arithmetic,
    weaknesses,
)
from softcheck.variants.ahead import TARGET, AheadError, CompileRequest, compile_ahead

_ROWS = 5
_COLUMNS = (781, 5000)
"""A width that fits one block, and a width for which several built-in kernels use tiles or more warps. Neither is a
power of two, so that masks are not optimised away."""


_SHIFTED = {"unshifted_ex2_approx": "ex2_approx", "unshifted_float64": "libdevice_float64"}
"""Exponentials of unshifted numbers, and those of differences that err as much."""


@dataclass(frozen=True, slots=True)
class _Reading:
    columns: int
    dtype: str
    declared: Arithmetic | None
    subtracts_maximum: bool
    has_heads: bool
    """Weights may be rounded to the input's type before they meet the values, as matrix products of 16 bits ask for it."""
    scales: bool
    """The operation scales or caps its logits, and its bound has the roundings."""


class _Arithmetic(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        widths = [columns for columns in _COLUMNS if setting.takes(columns)]
        if not widths:
            limit = setting.declaration.column_limit(setting.dtype)
            widths = [] if limit is None else [limit]
        declared, subtracts = setting.declaration.arithmetic, setting.operation.subtracts_maximum
        given = setting.operation.parameters
        scales = setting.has_heads or given.get("scale", 1.0) != 1 or bool(given.get("softcap", 0.0))
        readings = [_Reading(n, setting.dtype, declared, subtracts, setting.has_heads, scales) for n in widths]
        return [Trial(f"{_ROWS}x{reading.columns}", reading) for reading in readings]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        reading: _Reading = trial.parameters
        try:
            kernels = _kernels(subject, reading)
        except _UnreadError as error:
            # A declaration is shown even without a kernel.
            return Outcome(skipped=str(error), fatal=error.fatal, arithmetic=_read(reading, [], None))
        found = _read(reading, kernels, _target(kernels) if subject.setting.on_gpu else TARGET)
        if found is None or found.observed is None:
            return Outcome(skipped=f"{NOTHING_TO_TRY}launches no Triton kernel with PTX of its own", arithmetic=found)
        return Outcome(arithmetic=found)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one arithmetic for all widths, the one that errs most, and one finding for all contradictions.

        A variant may use another kernel for each width, so only all kernels together can contradict a declaration.
        """
        read = [(trial, o.arithmetic) for trial, o in done if o.arithmetic is not None and o.arithmetic.observed]
        found = _of_all(done)
        findings: tuple[Shown, ...] = ()
        if found is not None and found.declared is not None and found.observed is not None:
            first = read[0][0]
            saw_all = len(read) == len(done)
            messages = contradictions(found.declared, found.observed, first.parameters.dtype, saw_all=saw_all)
            kind = FindingKind.ARITHMETIC_CONTRADICTED
            findings = (Shown(first.label, Violation(kind, "; ".join(messages), len(messages))),) if messages else ()
        return Conclusion(findings=findings, trials=len(read), skipped=skipped_of(done), arithmetic=found)


PROBE = _Arithmetic()


class _UnreadError(Exception):
    """Raised with the reason if there is nothing to read."""

    def __init__(self, reason: str, *, fatal: bool = False) -> None:
        super().__init__(reason)
        self.fatal = fatal


def _kernels(subject: Subject, reading: _Reading) -> Sequence[Compiled]:
    """Returns the compiled kernels of one call."""
    if not subject.setting.on_gpu:
        shape = (_ROWS, reading.columns)
        try:
            return compile_ahead(
                CompileRequest(subject.variant.name, subject.variant.fact, TARGET, reading.dtype, shape)
            )
        except AheadError as error:
            raise _UnreadError(f"not compiled ahead of time: {error}") from None
    # Imports Triton. Without a GPU only the compiling process needs it.
    from softcheck.toolchain.capture import launched

    bits = ordinary_rows(_ROWS, reading.columns, subject.setting.fmt, subject.setting.seed)
    with launched() as kernels:
        called = call_on(subject, bits)
    if called.output is None:
        # The cases report the failure; here it means only that some kernels may not have been seen.
        raise _UnreadError(f"the call failed: {called.violations[0].message}", fatal=called.fatal)
    return kernels


def _target(kernels: Sequence[Compiled]) -> str | None:
    """The GPU that kernels were compiled for, e.g. ``cuda:90``."""
    metadata = getattr(kernels[0], "metadata", None) if kernels else None
    target = getattr(metadata, "target", None)
    return None if target is None else f"{target.backend}:{target.arch}"


def _read(reading: _Reading, kernels: Sequence[Compiled], target: str | None) -> KernelArithmetic | None:
    """The arithmetic that one trial's kernels show; None if nothing is declared and nothing shown."""
    kernels = [kernel for kernel in kernels if "ptx" in kernel.asm]
    observed = read_arithmetic(kernels) if kernels else None
    if observed is not None and not reading.subtracts_maximum:
        observed = msgspec.structs.replace(
            observed, exponentials=tuple(sorted({_SHIFTED.get(kind, kind) for kind in observed.exponentials}))
        )
    if observed is not None and reading.has_heads:
        observed = msgspec.structs.replace(observed, narrow_roundings=())
    if observed is None and reading.declared is None:
        return None
    names = tuple(dict.fromkeys(kernel.name for kernel in kernels))
    return _described(reading, names, target if kernels else None, observed)


def _described(
    reading: _Reading, names: tuple[str, ...], target: str | None, observed: ObservedArithmetic | None
) -> KernelArithmetic:
    dtype = reading.dtype
    shown = None
    # A kernel without exponentials, beside a library's, shows nothing of how softmax is computed.
    if observed is not None and observed.exponentials:
        try:
            shown = shown_arithmetic(observed, dtype)
        except ValueError:
            # It is named among the weaknesses.
            shown = None
    own = shown if reading.declared is None else reading.declared
    told = observed
    if reading.scales:
        own = None if own is None else msgspec.structs.replace(own, scaled_logits=False, exp="ex2_approx")
        told = None if observed is None else _without_scaling(observed)
    elif own is not None and own is shown and not _by_constants(observed):
        # A factor that is an argument may be 1 or another power of two, whose product is exact.
        own = msgspec.structs.replace(own, scaled_logits=False)
    return KernelArithmetic(
        declared=reading.declared,
        kernels=names,
        target=target,
        observed=observed,
        shown=shown,
        weaknesses=() if told is None else tuple(weaknesses(told, dtype)),
        leaves_contract=None if own is None else departure(own, dtype),
    )


def _without_scaling(observed: ObservedArithmetic) -> ObservedArithmetic:
    """The reading without what the bound of scaled logits allows: products before the subtraction, one with log2(e) among them."""
    kinds = tuple(kind for kind in observed.exponentials if not kind.startswith("prescaled"))
    return msgspec.structs.replace(observed, scaled_logits=(), exponentials=kinds)


def _by_constants(observed: ObservedArithmetic | None) -> bool:
    """True if logits are seen to be scaled by a number that is no power of two."""
    return observed is not None and "constant" in observed.scaled_logits


def _of_all(done: Sequence[tuple[Trial, Outcome]]) -> KernelArithmetic | None:
    seen = [(trial.parameters, o.arithmetic) for trial, o in done if o.arithmetic is not None]
    if not seen:
        return None
    readings = [a.observed for _, a in seen if a.observed is not None]
    names = tuple(dict.fromkeys(name for _, a in seen for name in a.kernels))
    target = next((a.target for _, a in seen if a.target is not None), None)
    return _described(seen[0][0], names, target, merged(readings) if readings else None)
