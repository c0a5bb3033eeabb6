"""Causes that widths or shapes have in common: a tile, a block or a path of the kernel."""

from collections.abc import Sequence

from softcheck.contract import FindingKind
from softcheck.facts import Sizes, Sweep, Where
from softcheck.probes.predicate import PADDED, class_of
from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import shapes_where
from softcheck.report.evidence import (
    FEWEST_FAILING,
    FEWEST_WIDTHS,
    Evidence,
    as_of_left_out,
    cause_of,
    is_wrong,
    may_be_rounding,
    sums_too_small,
)
from softcheck.report.model import Cause, Finding

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
    groups = where.any_of
    only = groups[0][0] if len(groups) == 1 and len(groups[0]) == 1 and not where.negated else None
    if only is None or only.of != "columns" or only != Sizes(least=only.least) or only.least is None:
        return None
    return only.least - 1 if sweep.right is None else sweep.right


def _seen_there(where: Where, limit: int | None, findings: Sequence[Finding], evidence: Evidence) -> tuple[str, str]:
    """What findings at these widths show of the fault, and the fix where they show enough for one."""
    if FindingKind.UNWRITTEN_OUTPUT in {f.kind for f in findings} and limit is not None:
        return "columns beyond a fixed number are never written", _LOOP
    if limit is not None and not where.partly and as_of_left_out(findings, limit, evidence.operation):
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
