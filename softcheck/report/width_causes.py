"""Causes that widths or shapes have in common: a tile, a block or a path of the kernel."""

import re
from collections.abc import Callable, Sequence

from softcheck.contract import FindingKind
from softcheck.probes.predicate import class_of, sizes_named
from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import describe_shapes
from softcheck.report.evidence import FEWEST_FAILING, FEWEST_WIDTHS, Evidence, cause_of, is_wrong
from softcheck.report.model import Cause, Finding

_FEWEST_FAMILIES = 2
"""Families of cases that must show a class of shapes, since the cases of one may be wrong for their values."""

_OF_SIZES = re.compile(r"\((\d+) of \d+ widths tried")

_ANY = (1, 2, 3, 1000, 2**20)
"""Widths that stand for all beside those of cases."""

_SOME_ROWS = "with some row counts"

_PADDED = "N not a power of two"
"""The class of widths at which a block of a power of two holds lanes beyond the row."""


def of_widths(evidence: Evidence) -> Cause | None:
    """Findings at the widths of one class."""
    wrong = evidence.wrong_cases()
    tried = sorted({case.shape[1] for case in evidence.cases.values() if 0 not in case.shape})
    failing = sorted({case.shape[1] for case in wrong if 0 not in case.shape})
    swept = _swept(evidence)
    values = [f for f in evidence.findings if is_wrong(f)]
    found = None
    if len(tried) >= FEWEST_WIDTHS and len(failing) >= FEWEST_FAILING:
        found = class_of(tried, failing)
        padded = sizes_named(_PADDED)
        # Among widths beside powers of two alone, these are the odd ones too; sums that are too small tell them apart.
        if padded is not None and list(filter(padded, tried)) == failing and any(map(_is_too_small, values)):
            found = (_PADDED, padded)
    words = swept.message.partition(" (")[0] if swept is not None else None if found is None else found[0]
    if words is None or (swept is None and len(failing) < FEWEST_FAILING) or _is_chance(words):
        return None
    named = sizes_named(words)
    holds: Callable[[int], bool] = named or (found[1] if found is not None else lambda n: n in failing)
    explained = [
        f
        for f in values
        if f.case not in evidence.cases or holds(evidence.cases[f.case].shape[1]) or f.probe is not None
    ]
    all_ways = [predicate for f in evidence.of_probes("sizes") if (predicate := _predicate(f)) is not None]
    # What one kind misses another may have: together they can be all widths.
    if (
        words.startswith("all N tried")
        or not explained
        or all(any(way(n) for way in all_ways) for n in (*tried, *_ANY))
    ):
        return None
    meaning, mend = _of_widths(words, explained)
    declare, right_on = _limit_of(words)
    return cause_of(explained, f"wrong at {_every(words)}: {meaning}", mend=mend, declare=declare, right_on=right_on)


def _swept(evidence: Evidence) -> Finding | None:
    """The finding of ``sizes`` that holds at the most widths; None where there is none."""

    def widths(finding: Finding) -> int:
        found = _OF_SIZES.search(finding.message)
        return int(found[1]) if found else 0

    return max((f for f in evidence.of_probes("sizes") if is_wrong(f)), key=widths, default=None)


def _predicate(finding: Finding) -> Callable[[int], bool] | None:
    """Returns the widths at which a finding of ``sizes`` holds, as a function; None for words that are no class and no list of widths."""
    words = finding.message.partition(" (")[0]
    if (named := sizes_named(words)) is not None:
        return named
    if not re.fullmatch(r"N = [\d, and]+", words):
        return None
    listed = frozenset(map(int, re.findall(r"\d+", words)))
    return lambda n: n in listed


def _is_chance(words: str) -> bool:
    """True for ranges of widths at which some calls alone are wrong, and for all inputs of more than one element: these say nothing of widths."""
    return (words.startswith("N in ") and _SOME_ROWS in words) or words in ("elements >= 2", "elements > 1")


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
    mend = "look for the condition that leads there; softcheck regimes names the paths that calls take"
    return cause_of(found, f"wrong at {words}: a path for such shapes", mend=mend)


def _is_too_small(finding: Finding) -> bool:
    return "misses 1 by -" in finding.message


def _every(words: str) -> str:
    return "every width that is no power of two" if words == _PADDED else words


def _limit_of(words: str) -> tuple[str, str]:
    """The declaration of a largest width, where that is what the words say."""
    for sign, step in ((" > ", 0), (" >= ", 1)):
        name, found, number = words.partition(sign)
        if name == "N" and found and number.isdecimal():
            limit = int(number) - step
            return f"max_columns={limit}", f"rows of at most {limit} columns"
    return "", ""


def _of_widths(words: str, findings: Sequence[Finding]) -> tuple[str, str]:
    """The usual fault of a kernel that is wrong at these widths, and the mend."""
    if words == _PADDED:
        if any(map(_is_too_small, findings)):
            return "lanes beyond the row enter the sum", 'load them with mask=column < columns, other=-float("inf")'
        return "lanes beyond the row are computed with", "mask every load, sum and store by column < columns"
    if words.startswith(("N > ", "N >= ")):
        if any(map(_is_too_small, findings)):
            return (
                "the parts of a row do not add up, as where a running sum is not rescaled to a new maximum",
                "multiply the running sum by exp(old maximum - new maximum), and add each part once",
            )
        lost = "never written" if FindingKind.UNWRITTEN_OUTPUT in {f.kind for f in findings} else "left out"
        return f"columns beyond a fixed number are {lost}", "loop over the row, or take a block as wide as the row"
    if words.startswith("odd N") or "% " in words:
        return (
            "the end of a row that fills no vector or tile is lost",
            "mask the last part of the row by column < columns",
        )
    cut = "rows are" if "rows" in words else "the row is"
    return f"the way in which {cut} cut up is wrong there", "look at how many columns each block or loop takes"
