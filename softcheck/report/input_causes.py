"""Causes that inputs have in common: rows with such values, widths or shapes are wrong and no others are, or errors are those of rounding."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from softcheck.cases.case import Case
from softcheck.contract import BOUNDED_KINDS, FindingKind
from softcheck.facts import Sizes, Sweep, Where
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.predicate import PADDED, Shape, class_of, shapes_where
from softcheck.report.evidence import (
    FEWEST_FAILING,
    FEWEST_WIDTHS,
    Evidence,
    as_of_left_out,
    cause_of,
    is_far,
    is_looked_at,
    is_wrong,
    may_be_rounding,
    peaks,
    sums_too_small,
    values_of,
)
from softcheck.report.model import Cause, Finding

_LOW = -32.0
"""The highest number that is plausibly meant to stand for -inf: its exponential is 0 beside ordinary logits in 16 bits."""

_NEAR = 2.0**-6
"""Relative error within which an output is that of equal logits, whatever the format: twice bfloat16's spacing and some rounding."""

OF_TRANSFORMS, OF_SPECIAL_ROWS = ("module", "vmap"), ("rows like",)
"""Axes of what a function is right without, so that rounding explains none of their findings."""

_OF_OVERFLOW = frozenset({FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH, FindingKind.OUT_OF_RANGE})


def of_magnitudes(evidence: Evidence) -> Cause | None:
    """NaN, infinities or zeros for rows whose largest logit is higher or lower than in any right case, where there is an exponential."""
    if not evidence.computed.takes_exponentials:
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
    """Findings of errors that rounding to the input's format allows, unless a width is to blame for errors that are larger at first."""
    if evidence.weaker is None or evidence.dtype not in ("float16", "bfloat16"):
        return None
    steps = _rounded(evidence.weaker)
    first = widest_sweep(evidence)
    if not steps or (first is not None and is_far(first) and of_widths(evidence) is not None):
        return None
    found = [
        f
        for f in evidence.findings
        if f.kind in BOUNDED_KINDS
        and (f.probe is None or not (is_far(f) or f.facts.way.keys() & {*OF_TRANSFORMS, *OF_SPECIAL_ROWS}))
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
    if others and evidence.computed.range_of is not None:
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
    shown = [(evidence.cases[f.case].shape[1], f.facts.output) for f in findings if f.case in evidence.cases]

    def equal(columns: int) -> float:
        return evidence.answer(np.zeros(columns), 0) if evidence.is_of_logits else math.nan

    return any(columns > 1 for columns, _ in shown) and all(
        output is not None and math.isclose(output, equal(columns), rel_tol=_NEAR) for columns, output in shown
    )


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


_FEWEST_FAMILIES = 2
"""Families of cases that must show a class of shapes, since the cases of one may be wrong for their values."""

_ANY = (1, 2, 3, 1000, 2**20)
"""Widths that stand for all beside those of cases."""

_LEAST_LIMIT = 8
"""The narrowest row that a kernel plausibly takes whole while it loses something of wider ones."""

_NOTHING_ELSE = "such errors show at no other width that was tried"

_LOOK = (
    "look for what changes there, such as a block, a loop or a path; softcheck regimes names the paths that calls take"
)
_LOOP = "loop over the row, or take a block as wide as the row"


def of_widths(evidence: Evidence) -> Cause | None:
    """Findings at the widths of one class, where what else was found does not contradict it."""
    wrong = evidence.wrong_cases()
    tried = sorted({case.shape[1] for case in evidence.cases.values() if 0 not in case.shape})
    failing = sorted({case.shape[1] for case in wrong if 0 not in case.shape})
    values = [f for f in evidence.findings if is_wrong(f)]
    of_probe = widest_sweep(evidence)
    if of_probe is not None:
        where, sweep = of_probe.facts.where, of_probe.facts.sweep
    else:
        where, sweep = _of_cases(tried, failing, values)
    if where is None or sweep is None or where.is_chance or _is_nearly_all(where):
        return None
    holds = (
        where.only.holds if where.only is not None and where.only.of == "columns" else frozenset(failing).__contains__
    )
    outside = [f for f in values if f.case in evidence.cases and not holds(evidence.cases[f.case].shape[1])]
    inside = [f for f in values if f not in outside]
    all_ways = [f.facts.where.only for f in evidence.of_probes("sizes") if f.facts.where is not None]
    # What one kind misses another may have: together they can be all widths.
    if not inside or all(any(way is not None and way.holds(n) for way in all_ways) for n in (*tried, *_ANY)):
        return None
    # Errors near their bounds are rounding, which shows at some widths and not at others.
    narrowest = [of_probe] if of_probe is not None else _at_the_narrowest(inside, evidence)
    if all(map(may_be_rounding, narrowest)):
        return None
    limit = _limit_of(where, sweep)
    if limit is not None and limit < _LEAST_LIMIT:
        return None
    meaning, mend = _seen_there(where, limit, inside, evidence)
    # Cases of other widths that are wrong in the same way contradict widths; a few may be another fault's.
    contradicting = {f.case for f in outside if f.kind in {g.kind for g in inside}}
    if len(contradicting) >= (1 if mend != _LOOP else FEWEST_FAILING):
        return None
    is_limit = limit is not None and not where.partly
    name, at = "largest_width" if is_limit else "widths", _at(where, sweep, limit)
    return cause_of(inside, name, where=at, meaning=meaning, mend=mend, limit=limit)


def _of_cases(
    tried: Sequence[int], failing: Sequence[int], values: Sequence[Finding]
) -> tuple[Where | None, Sweep | None]:
    """The class of the widths at which cases are wrong, and their extent; none where a class would be chance."""
    if len(tried) < FEWEST_WIDTHS or len(failing) < FEWEST_FAILING:
        return None, None
    found = class_of(tried, failing)
    # Among widths beside powers of two alone, these are the odd ones too; sums that are too small tell them apart.
    if list(filter(PADDED.holds, tried)) == failing and sums_too_small(values):
        found = PADDED
    return (None if found is None else Where(any_of=((found,),))), Sweep.among(tried, failing, "widths of cases")


def _is_nearly_all(where: Where) -> bool:
    """True for all widths, all but a few, and all inputs of more than one element."""
    only = where.only
    return (where.partly is False and where.any_of == ((),)) or (
        only is not None and (only.is_everything or only == Sizes(of="elements", least=2))
    )


def _at_the_narrowest(findings: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """The findings of the narrowest cases among them; all where there is no case."""
    widths = {f.id: evidence.cases[f.case].shape[1] for f in findings if f.case in evidence.cases}
    least = min(widths.values(), default=None)
    return [f for f in findings if widths.get(f.id) == least]


def widest_sweep(evidence: Evidence) -> Finding | None:
    """The finding of ``sizes`` that holds at the most widths; None where there is none."""
    found = [f for f in evidence.of_probes("sizes") if is_wrong(f) and f.facts.sweep is not None]
    return max(found, key=lambda f: f.facts.sweep.failing if f.facts.sweep is not None else 0, default=None)


def of_shapes(evidence: Evidence) -> Cause | None:
    """Findings of the cases of one class of shapes, each of which is wrong, as a predicate over rows and columns."""
    shapes = {
        id_: Shape(evidence.rows[id_], case.shape[1]) for id_, case in evidence.cases.items() if 0 not in case.shape
    }
    wrong = {case.id for case in evidence.wrong_cases()} & shapes.keys()
    failing, passing = {shapes[id_] for id_ in wrong}, {shapes[id_] for id_ in shapes.keys() - wrong}
    few = len(failing) < FEWEST_FAILING or len(passing) < FEWEST_WIDTHS
    if few or failing & passing or len({id_.partition("/")[0] for id_ in wrong}) < _FEWEST_FAMILIES:
        return None
    where = shapes_where(failing | passing, failing)
    first = where.any_of[0][0] if len(where.any_of) == 1 and where.any_of[0] and not where.negated else None
    if first is None or first.of == "columns" or not first.is_interval or None not in (first.least, first.most):
        return None
    found = [f for f in evidence.findings if f.case in wrong and is_wrong(f)]
    # Rounding shows where there is more to round, and what is wrong everywhere shows in all but the smallest rows.
    is_all_but_small = first.of == "elements" and first.least is not None and first.least - 1 <= _LEAST_LIMIT
    if all(map(may_be_rounding, found)) or is_all_but_small:
        return None
    return cause_of(found, "shapes", where=where.words(), failing=len(failing), tried=len(failing | passing))


def _at(where: Where, sweep: Sweep, limit: int | None) -> str:
    """The widths at which calls were wrong, and no others."""
    if limit is not None and not where.partly:
        right = "" if sweep.right is None else f", right at {sweep.right}"
        if sweep.failing == len(sweep.wrong):
            return f"{_listed(sweep.wrong)}{right}"
        return f"each of {sweep.failing} widths tried from {sweep.wrong[0]} to {sweep.wrong[-1]}{right}"
    words = "every width that is no power of two" if where.only == PADDED else where.words("N")
    return f"{words} ({sweep.words()})"


def _listed(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}" if others else last


def _limit_of(where: Where, sweep: Sweep) -> int | None:
    """The largest width that was right, where all wider ones were wrong; of some row counts alone too."""
    only = where.one
    if only is None or only.of != "columns" or only != Sizes(least=only.least) or only.least is None:
        return None
    return only.least - 1 if sweep.right is None else sweep.right


def _seen_there(where: Where, limit: int | None, findings: Sequence[Finding], evidence: Evidence) -> tuple[str, str]:
    """The fault that findings at these widths show, and the fix where they show enough for one."""
    if FindingKind.UNWRITTEN_OUTPUT in {f.kind for f in findings} and limit is not None:
        return "columns beyond a fixed number are never written", _LOOP
    if limit is not None and not where.partly and as_of_left_out(findings, limit, evidence.computed.sum_sign):
        return "the answers are those without the columns beyond a fixed number", _LOOP
    ends = None if where.only is None else _last_part(where.only, findings, evidence)
    if ends is not None:
        return ends, "mask the last part of the row by column < columns in every load, sum and store"
    if sums_too_small(findings):
        return f"the outputs' sums are too small there, and {_NOTHING_ELSE}", _LOOK
    return _NOTHING_ELSE, _LOOK


def _last_part(only: Sizes, findings: Sequence[Finding], evidence: Evidence) -> str | None:
    """Words for a part of a vector or tile at the end of rows, where all elements that are wrong lie in it; else None."""
    modulus = only.modulus
    if modulus is None or modulus == 1:
        return None
    places = [(f.column, evidence.cases[f.case].shape[1]) for f in findings if f.case in evidence.cases]
    known = [(column, columns) for column, columns in places if column is not None]
    if len(known) < FEWEST_FAILING or any(column < columns // modulus * modulus for column, columns in known):
        return None
    return f"the wrong elements lie in the last part of the row, which fills no {modulus} columns"
