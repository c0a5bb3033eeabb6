"""Causes that values have in common: every case with such a row is wrong, and no other case is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from softcheck.cases.case import Case
from softcheck.report.evidence import FEWEST_FAILING, FEWEST_WIDTHS, Evidence, cause_of, is_wrong
from softcheck.report.logits import is_looked_at, values_of
from softcheck.report.model import Cause


@dataclass(frozen=True, slots=True)
class _Feature:
    """A number that the rows of a case have, the largest of all rows."""

    words: str
    """Words for rows with such a number or a larger one, with a place for it."""
    size: float
    sign: float = 1.0
    """-1 where rows of smaller numbers are meant."""


def of_values(evidence: Evidence) -> Cause | None:
    """Findings of cases whose rows hold certain values, where all of these are wrong and all others right."""
    wrong = {case.id for case in evidence.wrong_cases()}
    looked_at = [case for case in evidence.cases.values() if is_looked_at(case)]
    failing = [case for case in looked_at if case.id in wrong]
    passing = [case for case in looked_at if case.id not in wrong]
    if len(failing) < FEWEST_FAILING or len(passing) < FEWEST_WIDTHS:
        return None
    of_failing = [list(_features(case, evidence)) for case in failing]
    of_passing = [list(_features(case, evidence)) for case in passing]
    for place, feature in enumerate(of_failing[0]):
        least = min(found[place].size for found in of_failing)
        most = max(found[place].size for found in of_passing)
        if least > most:
            where = feature.words.format(f"{feature.sign * least:.3g}")
            return cause_of(
                [f for f in evidence.findings if is_wrong(f)],
                f"wrong wherever {where} ({len(failing)} cases), right in the {len(passing)} other cases"
                + _up_to(feature, most),
            )
    return None


def _up_to(feature: _Feature, most: float) -> str:
    return f", to {feature.sign * most:.3g}" if "{}" in feature.words and np.isfinite(most) else ""


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
