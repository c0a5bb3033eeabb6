"""Groups findings by what they have in common: "wrong at every N not a power of two" rather than 130 elements.

A cause is a set of inputs that explains all findings in it: every input of the set shows one or could not, and no finding
outside the set is of the same kind. What a set suggests about the kernel is said after it, with the usual mend. Findings
that no set explains are grouped by their kind.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.formats import FORMATS, decode
from softcheck.cases.case import Case
from softcheck.contract import WRONG_KINDS, FindingKind
from softcheck.explain import of_kind
from softcheck.probes.predicate import class_of, sizes_named
from softcheck.probes.shape_plan import Shape
from softcheck.probes.shape_predicate import describe_shapes
from softcheck.report.model import Cause, Finding

_FEWEST_WIDTHS = 8
"""Widths that must have been tried for a predicate on them to be more than chance."""

_FEWEST_FAILING = 3

_FEWEST_FAMILIES = 2
"""Families of cases that must show a class of shapes, since the cases of one may be wrong for their values."""

_MOST_ELEMENTS = 2**16
"""Elements of the largest case whose logits are looked at."""

_OF_ONE_VALUE = "every logit of the row is -inf"

_PADDED = "N not a power of two"
"""The class of widths at which a block of a power of two holds lanes beyond the row."""


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Unexplained findings and the cases that were run."""

    findings: Sequence[Finding]
    cases: dict[str, Case]
    rows: Mapping[str, int]
    """Judged rows of each case."""
    by_case: dict[str, list[Finding]] = field(default_factory=dict)

    def without(self, ids: frozenset[str]) -> "_Evidence":
        return _evidence([f for f in self.findings if f.id not in ids], self.cases, self.rows)

    def wrong_cases(self) -> list[Case]:
        """The cases on which values are wrong."""
        return [self.cases[c] for c, found in self.by_case.items() if c in self.cases and any(map(_is_wrong, found))]

    def of_probes(self, *names: str) -> list[Finding]:
        return [f for f in self.findings if f.probe in names]


def causes_of(
    findings: Sequence[Finding], cases: Sequence[Case], rows: Mapping[str, int] | None = None
) -> tuple[Cause, ...]:
    """Returns the causes of one variant's findings in one dtype, the one that explains most first.

    ``cases`` are those that were run, and ``rows`` their numbers of judged rows by id, all rows by default. Findings that a declared defect explains are left out.
    """
    run = {case.id: case for case in cases}
    left = _evidence([f for f in findings if f.known is None], run, rows or {id_: c.shape[0] for id_, c in run.items()})
    found: list[Cause] = []
    for suppose in (
        _offsets,
        _empty_inputs,
        _layouts,
        _masked_rows,
        _magnitudes,
        _widths,
        _shapes,
        _transforms,
        _first_rows,
    ):
        cause = suppose(left)
        if cause is not None and cause.findings:
            found.append(cause)
            left = left.without(frozenset(cause.findings))
    found += _by_kind(left)
    return tuple(sorted(found, key=lambda cause: -len(cause.findings)))


def proposal(causes: Sequence[Cause]) -> str | None:
    """The declaration with which a variant would be right, in words; None if some finding is of another cause."""
    if not causes or not all(cause.declare for cause in causes):
        return None
    declared = dict.fromkeys(cause.declare for cause in causes)
    option = ",".join(
        f"{name}={value.strip('[]').replace(chr(34), '')}" for name, value in (d.split("=", 1) for d in declared)
    )
    right = ", ".join(dict.fromkeys(cause.right_on for cause in causes))
    return f"right on {right}; if that is the contract, declare it: @variant({', '.join(declared)}), or --declare '{option}'"


def _evidence(findings: Sequence[Finding], cases: dict[str, Case], rows: Mapping[str, int]) -> _Evidence:
    found = _Evidence(findings, cases, rows)
    for finding in findings:
        found.by_case.setdefault(finding.case, []).append(finding)
    return found


def _is_wrong(finding: Finding) -> bool:
    return finding.kind in WRONG_KINDS


def _cause(findings: Sequence[Finding], text: str, *, mend: str = "", declare: str = "", right_on: str = "") -> Cause:
    return Cause(text=text, mend=mend, declare=declare, right_on=right_on, findings=tuple(f.id for f in findings))


def _offsets(evidence: _Evidence) -> Cause | None:
    """The cause of what is wrong far away, None if nothing is: a function that refuses every strided input raises there too."""
    far = evidence.of_probes("addresses")
    if all(f.kind is FindingKind.RAISED for f in far):
        return None
    return _cause(
        far,
        "wrong or out of bounds beyond 2^31 elements: offsets are computed in 32 bits",
        mend="convert the row and column numbers with .to(tl.int64) before they are multiplied by strides",
        declare="max_elements=2**31",
        right_on="fewer than 2^31 elements",
    )


def _transforms(evidence: _Evidence) -> Cause:
    return _cause(
        evidence.of_probes("torch_transforms"),
        "right as it stands, and wrong once torch maps the function or the module is copied, saved, cast or in training",
        mend="keep constants as Python numbers and what a copy needs as attributes; in a rule for torch.vmap, move the mapped dimension away",
    )


def _first_rows(evidence: _Evidence) -> Cause:
    return _cause(
        evidence.of_probes("first_rows"),
        "right by themselves, and wrong beside a first row of some kind: one row tells the way for all",
        mend="ask all rows, or let each row take its own way",
    )


def _empty_inputs(evidence: _Evidence) -> Cause | None:
    empty = [
        f
        for f in evidence.findings
        if f.probe == "empties" or (f.case in evidence.cases and 0 in evidence.cases[f.case].shape)
    ]
    return _cause(
        empty,
        "inputs without elements raise or are answered wrongly",
        mend="return the empty output before anything is launched",
        declare="empty=False",
        right_on="non-empty input",
    )


_STRIDED_TRIALS = (
    "probe/layouts/strided/",
    "probe/guard_bands/gaps/",
    "probe/input_untouched/called/padded-rows",
    "probe/input_untouched/called/transposed",
    "probe/input_untouched/called/expanded-rows",
    "probe/addresses/row-stride",
    "probe/addresses/column-stride",
)
"""Beginnings of the names of trials on strided inputs."""


def _layouts(evidence: _Evidence) -> Cause | None:
    """Findings on strided inputs alone: wrong values, reads between the rows, exceptions."""
    kinds = WRONG_KINDS | {FindingKind.RAISED, FindingKind.OUT_OF_BOUNDS_READ}
    shown = [f for f in evidence.findings if f.kind in kinds]
    strided = [f for f in shown if _is_strided(f, evidence)]
    if len(strided) < len(shown):
        return None
    does = "raises" if all(f.kind is FindingKind.RAISED for f in strided) else "wrong"
    return _cause(
        strided,
        f"{does} on strided inputs alone" + (": strides or offsets are ignored" if does == "wrong" else ""),
        mend="index with x.stride(0) and x.stride(1), or begin with x = x.contiguous()",
        declare='layouts=["contiguous"]',
        right_on="contiguous input",
    )


def _is_strided(finding: Finding, evidence: _Evidence) -> bool:
    case = evidence.cases.get(finding.case)
    if case is None:
        return finding.case.startswith(_STRIDED_TRIALS)
    return not case.layout.is_contiguous(case.shape[1])


def _masked_rows(evidence: _Evidence) -> Cause | None:
    """Rows of -inf alone, or queries that see no key, that give numbers, where nothing else is wrong."""
    masked = [
        f
        for f in evidence.findings
        if f.kind is FindingKind.NAN_MISMATCH and f.message.endswith(f"expected nan: {_OF_ONE_VALUE}")
    ]
    if not masked or any(_is_wrong(f) for f in evidence.findings if f not in masked):
        return None
    who = "queries that see no key" if all(", query " in f.message for f in masked) else "rows of -inf alone"
    if not all("output 0 " in f.message for f in masked):
        return _cause(
            masked,
            f"{who} give numbers rather than NaN: a finite number stands for -inf, so that what is hidden counts there",
            mend="fill what is hidden with -inf; or write zeros there, and declare fully_masked=zero",
        )
    return _cause(
        masked,
        f"{who} give 0 rather than NaN",
        mend="leave out the replacement of an empty sum or of a maximum of -inf",
        declare='fully_masked="zero"',
        right_on="rows that are not fully masked",
    )


def _magnitudes(evidence: _Evidence) -> Cause | None:
    """NaN, infinities or zeros for rows whose largest logit is higher or lower than in any right case."""
    wrong = {case.id for case in evidence.wrong_cases()}
    kinds = {f.kind for f in evidence.findings}
    small = [c for c in evidence.cases.values() if 0 not in c.shape and c.shape[0] * c.shape[1] <= _MOST_ELEMENTS]
    peaks = {case.id: found for case in small if (found := _peaks(case)) is not None}
    failing = [found for case_id, found in peaks.items() if case_id in wrong]
    passing = [found for case_id, found in peaks.items() if case_id not in wrong]
    if len(failing) < _FEWEST_FAILING or len(passing) < _FEWEST_WIDTHS or not kinds & _OF_OVERFLOW:
        return None
    low, high = min(found[0] for found in passing), max(found[1] for found in passing)
    below = [lowest for lowest, _ in failing if lowest < low]
    above = [highest for _, highest in failing if highest > high]
    if not all(lowest < low or highest > high for lowest, highest in failing):
        return None
    where = [f"a logit is {min(above):.3g} or more"] if above else []
    where += [f"a row's largest logit is {max(below):.3g} or less"] if below else []
    does = " or ".join([*(["overflows"] if above else []), *(["underflows"] if below else [])])
    return _cause(
        [f for f in evidence.findings if _is_wrong(f)],
        f"wrong wherever {' or '.join(where)}, right where rows' largest logits are {low:.3g} to {high:.3g}: the exponential {does}",
        mend="subtract the row's maximum before the exponential",
    )


_OF_OVERFLOW = frozenset({FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH, FindingKind.OUT_OF_RANGE})


def _peaks(case: Case) -> tuple[float, float] | None:
    """The lowest and the highest largest finite logit of a case's rows; None where no logit is finite."""
    values = decode(case.bits(case.shape[0]), FORMATS[case.dtype])
    peaks = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
    peaks = peaks[np.isfinite(peaks)]
    return (float(peaks.min()), float(peaks.max())) if peaks.size else None


def _widths(evidence: _Evidence) -> Cause | None:
    """Findings at the widths of one class."""
    wrong = evidence.wrong_cases()
    tried = sorted({case.shape[1] for case in evidence.cases.values() if 0 not in case.shape})
    failing = sorted({case.shape[1] for case in wrong if 0 not in case.shape})
    swept = next((f for f in evidence.of_probes("sizes") if _is_wrong(f)), None)
    values = [f for f in evidence.findings if _is_wrong(f)]
    found = None
    if len(tried) >= _FEWEST_WIDTHS and len(failing) >= _FEWEST_FAILING:
        found = class_of(tried, failing)
        padded = sizes_named(_PADDED)
        # Among widths beside powers of two alone, these are the odd ones too; sums that are too small tell them apart.
        if padded is not None and list(filter(padded, tried)) == failing and any(map(_is_too_small, values)):
            found = (_PADDED, padded)
    words = swept.message.partition(" (")[0] if swept is not None else None if found is None else found[0]
    if words is None or (swept is None and len(failing) < _FEWEST_FAILING):
        return None
    named = sizes_named(words)
    holds: Callable[[int], bool] = named or (found[1] if found is not None else lambda n: n in failing)
    explained = [
        f
        for f in values
        if f.case not in evidence.cases or holds(evidence.cases[f.case].shape[1]) or f.probe is not None
    ]
    if words.startswith("all N tried") or not explained:
        return None
    meaning, mend = _of_widths(words, explained)
    declare, right_on = _limit_of(words)
    return _cause(explained, f"wrong at {_every(words)}: {meaning}", mend=mend, declare=declare, right_on=right_on)


def _shapes(evidence: _Evidence) -> Cause | None:
    """Findings of the cases of one class of shapes, each of which is wrong, as a predicate over rows and columns."""
    shapes = {
        id_: Shape(evidence.rows[id_], case.shape[1]) for id_, case in evidence.cases.items() if 0 not in case.shape
    }
    wrong = {case.id for case in evidence.wrong_cases()} & shapes.keys()
    failing, passing = {shapes[id_] for id_ in wrong}, {shapes[id_] for id_ in shapes.keys() - wrong}
    few = len(failing) < _FEWEST_FAILING or len(passing) < _FEWEST_WIDTHS
    if few or failing & passing or len({id_.partition("/")[0] for id_ in wrong}) < _FEWEST_FAMILIES:
        return None
    words = describe_shapes(failing | passing, failing)
    if not words.startswith(("rows >", "rows <", "elements >", "elements <")) or " or " in words:
        return None
    found = [f for f in evidence.findings if f.case in wrong and _is_wrong(f)]
    mend = "look for the condition that leads there; softcheck regimes names the paths that calls take"
    return _cause(found, f"wrong at {words}: a path for such shapes", mend=mend)


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


def _by_kind(evidence: _Evidence) -> Iterator[Cause]:
    kinds: dict[FindingKind, list[Finding]] = {}
    for finding in evidence.findings:
        kinds.setdefault(finding.kind, []).append(finding)
    # A wrong value breaks several promises on the same inputs.
    for kind, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        where = {f.case for f in found}
        if kind not in WRONG_KINDS or not kinds[kind]:
            continue
        for other in sorted(WRONG_KINDS & kinds.keys() - {kind}):
            if kinds[other] and {f.case for f in kinds[other]} <= where:
                kinds[kind] += kinds[other]
                kinds[other] = []
    for kind, found in kinds.items():
        if not found:
            continue
        explanation = of_kind(kind)
        yield _cause(found, explanation.meaning, mend=explanation.mend)
