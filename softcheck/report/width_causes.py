"""Causes that widths or shapes have in common: a tile, a block or a path of the kernel."""

import re
from collections.abc import Callable, Sequence

from softcheck.contract import FindingKind
from softcheck.probes.predicate import class_of, sizes_named
from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import describe_shapes
from softcheck.report.error_sizes import as_of_left_out, has_sign, is_far, may_be_rounding, sums_too_small
from softcheck.report.evidence import FEWEST_FAILING, FEWEST_WIDTHS, Evidence, cause_of, is_wrong
from softcheck.report.model import Cause, Finding

_FEWEST_FAMILIES = 2
"""Families of cases that must show a class of shapes, since the cases of one may be wrong for their values."""

_OF_SIZES = re.compile(r"\((\d+) of \d+ widths tried")

_ANY = (1, 2, 3, 1000, 2**20)
"""Widths that stand for all beside those of cases."""

_SOME_ROWS = "with some row counts"

_LEAST_LIMIT = 8
"""The narrowest row that a kernel plausibly takes whole while it loses something of wider ones."""

_NOTHING_ELSE = "such errors show at no other width that was tried"

_LOOP = "loop over the row, or take a block as wide as the row"

_PADDED = "N not a power of two"
"""The class of widths at which a block of a power of two holds lanes beyond the row."""


def of_widths(evidence: Evidence) -> Cause | None:
    """Findings at the widths of one class, where what else was found does not contradict it."""
    wrong = evidence.wrong_cases()
    tried = sorted({case.shape[1] for case in evidence.cases.values() if 0 not in case.shape})
    failing = sorted({case.shape[1] for case in wrong if 0 not in case.shape})
    sweep = swept(evidence)
    values = [f for f in evidence.findings if is_wrong(f)]
    found = None
    if len(tried) >= FEWEST_WIDTHS and len(failing) >= FEWEST_FAILING:
        found = class_of(tried, failing)
        padded = sizes_named(_PADDED)
        # Among widths beside powers of two alone, these are the odd ones too; sums that are too small tell them apart.
        if padded is not None and list(filter(padded, tried)) == failing and sums_too_small(values):
            found = (_PADDED, padded)
    words = _words(sweep) if sweep is not None else None if found is None else found[0]
    if words is None or (sweep is None and len(failing) < FEWEST_FAILING) or _is_chance(words):
        return None
    holds = _predicate(words) or (found[1] if found is not None else lambda n: n in failing)
    outside = [f for f in values if f.case in evidence.cases and not holds(evidence.cases[f.case].shape[1])]
    inside = [f for f in values if f not in outside]
    all_ways = [way for f in evidence.of_probes("sizes") if (way := _predicate(_words(f))) is not None]
    # What one kind misses another may have: together they can be all widths.
    if words.startswith("all N tried") or not inside or all(any(way(n) for way in all_ways) for n in (*tried, *_ANY)):
        return None
    # Errors near their bounds are rounding, which shows at some widths and not at others.
    narrowest = [sweep] if sweep is not None else _at_the_narrowest(inside, evidence)
    if all(map(may_be_rounding, narrowest)):
        return None
    limit = _limit_of(words)
    if limit is not None and limit < _LEAST_LIMIT:
        return None
    meaning, mend = _of_widths(words, limit, inside, narrowest, evidence.operation)
    # Cases of other widths that are wrong in the same way contradict widths; a few may be another fault's.
    contradicting = {f.case for f in outside if f.kind in {g.kind for g in inside}}
    if len(contradicting) >= (1 if meaning == _NOTHING_ELSE else FEWEST_FAILING):
        return None
    is_limit = limit is not None and mend == _LOOP
    return cause_of(
        inside,
        f"wrong at {_every(words)}: {meaning}",
        mend=mend,
        declare=f"max_columns={limit}" if is_limit else "",
        right_on=f"rows of at most {limit} columns" if is_limit else "",
    )


def _at_the_narrowest(findings: Sequence[Finding], evidence: Evidence) -> list[Finding]:
    """The findings of the narrowest cases among them; all where there is no case."""
    widths = {f.id: evidence.cases[f.case].shape[1] for f in findings if f.case in evidence.cases}
    least = min(widths.values(), default=None)
    return [f for f in findings if widths.get(f.id) == least]


def swept(evidence: Evidence) -> Finding | None:
    """The finding of ``sizes`` that holds at the most widths; None where there is none."""

    def widths(finding: Finding) -> int:
        found = _OF_SIZES.search(finding.message)
        return int(found[1]) if found else 0

    return max((f for f in evidence.of_probes("sizes") if is_wrong(f)), key=widths, default=None)


def _words(finding: Finding) -> str:
    """The words for the widths at which a finding of ``sizes`` holds."""
    return finding.message.partition(" (")[0]


def _predicate(words: str) -> Callable[[int], bool] | None:
    """Returns the widths that words name, as a function; None for words that are no class and no list of widths."""
    if (named := sizes_named(words)) is not None:
        return named
    if not re.fullmatch(r"N = [\d, and]+", words):
        return None
    listed = frozenset(map(int, re.findall(r"\d+", words)))
    return lambda n: n in listed


def _is_chance(words: str) -> bool:
    """True for ranges and for two classes together, which are what is left where no class of widths is wrong, and for all inputs of more than one element."""
    return words.startswith("N in ") or " or " in words or words in ("elements >= 2", "elements > 1")


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
    words = describe_shapes(failing | passing, failing)
    if not words.startswith(("rows >", "rows <", "elements >", "elements <")) or " or " in words:
        return None
    found = [f for f in evidence.findings if f.case in wrong and is_wrong(f)]
    few_elements = re.match(r"elements >=? (\d+)", words)
    # Rounding shows where there is more to round, and what is wrong everywhere shows in all but the smallest rows.
    if all(map(may_be_rounding, found)) or (few_elements is not None and int(few_elements[1]) <= _LEAST_LIMIT):
        return None
    mend = "look for the condition that leads there; softcheck regimes names the paths that calls take"
    return cause_of(found, f"wrong at {words}: a path for such shapes", mend=mend)


def _every(words: str) -> str:
    return "every width that is no power of two" if words == _PADDED else words


def _limit_of(words: str) -> int | None:
    """The largest width that is right, where that is what the words say; of some row counts alone too."""
    found = re.fullmatch(rf"N (>=?) (\d+)(?: {_SOME_ROWS})?", words)
    return None if found is None else int(found[2]) - (found[1] == ">=")


def _of_widths(
    words: str, limit: int | None, findings: Sequence[Finding], narrowest: Sequence[Finding], operation: str
) -> tuple[str, str]:
    """The usual fault of a kernel that is wrong at these widths, and the mend."""
    if words == _PADDED:
        if sums_too_small(findings):
            return "lanes beyond the row enter the sum", 'load them with mask=column < columns, other=-float("inf")'
        return "lanes beyond the row are computed with", "mask every load, sum and store by column < columns"
    if words.startswith("odd N") or "% " in words:
        return (
            "the end of a row that fills no vector or tile is lost",
            "mask the last part of the row by column < columns",
        )
    known = None if limit is None or _SOME_ROWS in words else _beyond(limit, findings, narrowest, operation)
    return known or (
        _NOTHING_ELSE,
        "look for what changes there, such as a block, a loop or a path; softcheck regimes names the paths that calls take",
    )


def _beyond(
    limit: int, findings: Sequence[Finding], narrowest: Sequence[Finding], operation: str
) -> tuple[str, str] | None:
    """The same of a kernel that is wrong at widths beyond a limit; None if the errors speak of no such fault."""
    if sums_too_small(findings):
        return (
            "the parts of a row do not add up, as where a running sum is not rescaled to a new maximum",
            "multiply the running sum by exp(old maximum - new maximum), and add each part once",
        )
    if FindingKind.UNWRITTEN_OUTPUT in {f.kind for f in findings}:
        return "columns beyond a fixed number are never written", _LOOP
    # Where the sign tells nothing, the size must.
    if as_of_left_out(findings, limit, operation) and (has_sign(operation) or any(map(is_far, narrowest))):
        what = "keys" if operation.startswith("attention") else "columns"
        return f"{what} beyond a fixed number are left out", _LOOP
    return None
