"""Causes that values have in common: rows with such values are wrong and no others are, or errors are those of rounding."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from softcheck.cases.case import Case
from softcheck.contract import BOUNDED_KINDS, FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.report.evidence import (
    FEWEST_FAILING,
    FEWEST_WIDTHS,
    Evidence,
    cause_of,
    is_far,
    is_looked_at,
    is_wrong,
    peaks,
    values_of,
)
from softcheck.report.model import Cause, Finding
from softcheck.report.width_causes import of_widths, widest_sweep

_LOW = -32.0
"""The highest number that is plausibly meant to stand for -inf: its exponential is 0 beside ordinary logits in 16 bits."""

_NEAR = 2.0**-6
"""Relative error within which an output is that of equal logits, whatever the format: twice bfloat16's spacing and some rounding."""

_OTHERS = frozenset({"torch_transforms", "first_rows"})
"""Probes that compare a call with one that is right, so that rounding explains none of their findings."""

_OF_OVERFLOW = frozenset({FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH, FindingKind.OUT_OF_RANGE})


def of_magnitudes(evidence: Evidence) -> Cause | None:
    """NaN, infinities or zeros for rows whose largest logit is higher or lower than in any right case, where there is an exponential."""
    if evidence.operation == "softmax_backward":
        return None
    kinds = {f.kind for f in evidence.findings}
    failing, passing = (
        [p for case in cases if (p := peaks(values_of(case))).size] for cases in evidence.wrong_and_right()
    )
    if len(failing) < FEWEST_FAILING or len(passing) < FEWEST_WIDTHS or not kinds & _OF_OVERFLOW:
        return None
    low, high = min(found.min() for found in passing), max(found.max() for found in passing)
    below = [found.min() for found in failing if found.min() < low]
    above = [found.max() for found in failing if found.max() > high]
    if not all(found.min() < low or found.max() > high for found in failing):
        return None
    where = [f"a logit is {min(above):.3g} or more"] if above else []
    where += [f"a row's largest logit is {max(below):.3g} or less"] if below else []
    does = " or ".join([*(["overflows"] if above else []), *(["underflows"] if below else [])])
    return cause_of(
        [f for f in evidence.findings if is_wrong(f)],
        "magnitudes",
        where=" or ".join(where),
        low=low,
        high=high,
        does=does,
    )


def of_rounding(evidence: Evidence) -> Cause | None:
    """Findings of errors, where those of all cases are within what rounding to the input's format allows.

    A sum that may be kept in 16 bits allows nearly everything in wide rows, so that widths come before it where the narrowest row that is wrong errs by
    more than rounding does.
    """
    if evidence.weaker is None or evidence.dtype not in ("float16", "bfloat16"):
        return None
    steps = _rounded(evidence.weaker)
    first = widest_sweep(evidence)
    if not steps or (first is not None and is_far(first) and of_widths(evidence) is not None):
        return None
    found = [
        f
        for f in evidence.findings
        if f.kind in BOUNDED_KINDS and (f.probe is None or (f.probe not in _OTHERS and not is_far(f)))
    ]
    return cause_of(found, "rounding", steps=" and ".join(steps), dtype=evidence.dtype)


def _rounded(arithmetic: Arithmetic) -> list[str]:
    """The steps whose results an arithmetic rounds to the input's format; empty if it rounds none."""
    said = {"intermediate results": arithmetic.intermediate, "sums": arithmetic.accumulation}
    return [words for words, kept_in in said.items() if kept_in == "input"]


def of_masked_rows(evidence: Evidence) -> Cause | None:  # noqa: PLR0911 - one for each kind of evidence
    """Rows of -inf alone, or queries that see no key, that give numbers, where nothing else is wrong or the numbers tell why."""
    masked = [
        f
        for f in evidence.findings
        if f.kind is FindingKind.NAN_MISMATCH
        and f.facts.reason == "hidden_row"
        and f.facts.expected is not None
        and math.isnan(f.facts.expected)
    ]
    if not masked:
        return None
    others = [f for f in evidence.findings if is_wrong(f) and f not in masked]
    who = "queries that see no key" if all(f.facts.query is not None for f in masked) else "rows of -inf alone"
    if all(f.facts.output == 0 for f in masked):
        return cause_of(masked, "masked_zero", who=who)
    counted: list[Finding] = []
    if others and evidence.operation == "attention":
        # An answer outside of all values that a query sees holds some that are hidden from it.
        mixed = [f for f in others if f.kind is FindingKind.OUT_OF_RANGE]
        beside = {f.case for f in mixed}
        if not mixed or any(f.case not in beside for f in others):
            return None
        return cause_of([*masked, *others], "hidden_keys", who=who)
    if others:
        # Equal outputs are those of equal logits, which a finite number in place of -inf makes. A mask that is ignored or the wrong way
        # round shows what it hides, beside ordinary logits too.
        visible = [f for f in others if f.kind is FindingKind.MASKED_NOT_ZERO and f.case in evidence.cases]
        if not _are_equal(masked, evidence) or not all(_is_low(f, evidence.cases[f.case]) for f in visible):
            return None
        beside = {f.case for f in visible}
        counted = [f for f in others if f.case in beside]
        # Of a mask that is the wrong way round, rows without a hidden logit are NaN.
        if any(f.kind is FindingKind.NAN_MISMATCH for f in others if f not in counted):
            return None
    also = ", and beside logits as low" if counted else ""
    return cause_of([*masked, *counted], "finite_mask", who=who, also=also)


def _is_low(finding: Finding, case: Case) -> bool:
    """True if the logits of a finding's row are as low as a number that is to stand for -inf."""
    if finding.row is None or not is_looked_at(case):
        return False
    highest = peaks(values_of(case)[finding.row : finding.row + 1])
    return bool((highest <= _LOW).all())


def _are_equal(findings: Sequence[Finding], evidence: Evidence) -> bool:
    """True if the outputs of all cases are those of a row of equal logits, and some row has two or more."""
    widths = [(f, evidence.cases[f.case].shape[1]) for f in findings if f.case in evidence.cases]
    return any(columns > 1 for _, columns in widths) and all(
        _is_of_equal_logits(f, columns, evidence.operation) for f, columns in widths
    )


def _is_of_equal_logits(finding: Finding, columns: int, operation: str) -> bool:
    expected = {"softmax": 1.0 / columns, "log_softmax": -math.log(columns)}.get(operation)
    output = finding.facts.output
    return expected is not None and output is not None and math.isclose(output, expected, rel_tol=_NEAR)


class _Feature(NamedTuple):
    """A number that the rows of a case have, the largest of all rows."""

    words: str
    """Words for rows with such a number or a larger one, with a place for it."""
    size: float
    sign: float = 1.0
    """-1 where rows of smaller numbers are meant."""


def of_values(evidence: Evidence) -> Cause | None:
    """Findings of cases whose rows hold certain values, where all of these are wrong and all others right."""
    failing, passing = evidence.wrong_and_right()
    if len(failing) < FEWEST_FAILING or len(passing) < FEWEST_WIDTHS:
        return None
    of_failing = [list(_features(case, evidence)) for case in failing]
    of_passing = [list(_features(case, evidence)) for case in passing]
    for place, feature in enumerate(of_failing[0]):
        least = min(found[place].size for found in of_failing)
        most = max(found[place].size for found in of_passing)
        if least > most:
            where = feature.words.format(f"{feature.sign * least:.3g}")
            to = f", to {feature.sign * most:.3g}" if "{}" in feature.words and np.isfinite(most) else ""
            found = [f for f in evidence.findings if is_wrong(f)]
            return cause_of(found, "values", where=where, failing=len(failing), passing=len(passing), to=to)
    return None


def _features(case: Case, evidence: Evidence) -> Iterator[_Feature]:
    """The numbers of a case, the same for all cases and in the same order."""
    values = values_of(case)
    finite = np.isfinite(values)
    high, low = np.where(finite, values, -np.inf).max(axis=1), np.where(finite, values, np.inf).min(axis=1)
    is_some = finite.any(axis=1)

    def largest(numbers: np.ndarray) -> float:
        return float(numbers[is_some].max(initial=-np.inf))

    yield _Feature("a target equals ignore_index", float(_ignores(case)))
    cap = evidence.parameters.get("softcap", 0.0)
    per_cap = largest(np.maximum(np.abs(high), np.abs(low))) / cap if isinstance(cap, float) and cap else -np.inf
    yield _Feature("a logit is {} times the cap or more", per_cap)
    yield _Feature("a row holds a NaN", float(np.isnan(values).any()))
    yield _Feature("a row holds a +inf", float(np.isposinf(values).any()))
    yield _Feature("a row holds nothing but -inf", float(np.isneginf(values).all(axis=1).any()))
    yield _Feature("a row holds a -inf", float(np.isneginf(values).any()))
    with np.errstate(invalid="ignore"):
        yield _Feature("the logits of a row are {} or more apart", largest(high - low))
    yield _Feature("a logit is {} or more", largest(high))
    yield _Feature("a logit is {} or less", largest(-low), sign=-1.0)


def _ignores(case: Case) -> bool:
    operands = case.operands
    targets: Sequence[int] = () if operands is None or operands.target is None else operands.target
    return operands is not None and operands.parameters.get("ignore_index", -100) in targets
