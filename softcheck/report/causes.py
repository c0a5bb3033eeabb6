"""Groups findings by what they have in common: "wrong at every N not a power of two" rather than 130 elements.

A cause is a set of inputs that explains all findings in it: every input of the set shows one or could not, and no finding
outside the set is of the same kind. A fix is named where the facts of the findings show it. Findings that no set explains are grouped by their
kinds, and those of wrong values have no fix.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from softcheck.cases.case import Case
from softcheck.contract import VALUE_KINDS, WRONG_KINDS, FindingKind
from softcheck.explain import of_kind
from softcheck.facts import Reason
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Parameter
from softcheck.probes.registry import MEETINGS, SLICES
from softcheck.report.computed_causes import of_computed
from softcheck.report.evidence import FEWEST_FAILING, FEWEST_WIDTHS, Evidence, cause_of, evidence_of, is_wrong
from softcheck.report.logits import is_looked_at, peaks
from softcheck.report.masked_causes import of_masked_rows
from softcheck.report.memory_causes import of_memory
from softcheck.report.model import Cause, Finding
from softcheck.report.rounding_cause import of_rounding
from softcheck.report.value_causes import of_values
from softcheck.report.width_causes import of_shapes, of_widths


def causes_of(
    findings: Sequence[Finding],
    cases: Sequence[Case],
    rows: Mapping[str, int] | None = None,
    *,
    operation: str = "softmax",
    weaker: Arithmetic | None = None,
    computing: str = "",
    parameters: Mapping[str, Parameter] | None = None,
    dtype: str = "",
) -> tuple[Cause, ...]:
    """Returns the causes of one variant's findings in one dtype, writes out of bounds first, then the one that explains most.

    ``cases`` are those that were run, and ``rows`` their numbers of judged rows by id, all rows by default. ``operation`` is the one
    by which the variant was judged, and ``weaker`` an arithmetic that it does not declare and that allows the errors of all cases.
    ``computing`` has the options that name another operation whose answers the variant gives, which explains all wrong values; empty if
    there is none. ``parameters`` are the operation's, and ``dtype`` is the input's, by default that of the cases. Findings that a declared defect explains are left out.
    """
    unexplained = [f for f in findings if f.known is None]
    left = evidence_of(unexplained, cases, rows, operation=operation, weaker=weaker, parameters=parameters, dtype=dtype)
    other = _other_operation(left, computing)
    left = left.without(frozenset(other.findings))
    targets = _invalid_targets(left)
    left = left.without(frozenset(targets.findings))
    memory = tuple(of_memory(left))
    left = left.without(frozenset(id_ for cause in memory for id_ in cause.findings))
    found: list[Cause] = []
    for suppose in (
        _offsets,
        _empty_inputs,
        _layouts,
        of_computed,
        of_masked_rows,
        _magnitudes,
        of_rounding,
        of_widths,
        of_values,
        of_shapes,
        _transforms,
        _ignored_dimensions,
        _first_rows,
        _meetings,
    ):
        # Rows of any numbers overflow on the way to what a slip foretells; a comparison with what comes out of it is false.
        with np.errstate(all="ignore"):
            cause = suppose(left)
        if cause is not None and cause.findings:
            found.append(cause)
            left = left.without(frozenset(cause.findings))
    found += _by_kind(left)
    found.sort(key=lambda cause: -len(cause.findings))
    # Damaged memory may be behind anything else. What a loss does with targets that its callers may never give comes last.
    return tuple(cause for cause in (*memory, other, *found, targets) if cause.findings)


def _other_operation(evidence: Evidence, computing: str) -> Cause:
    kinds = VALUE_KINDS | {FindingKind.WRONG_GRADIENT}
    return cause_of(
        [f for f in evidence.findings if computing and f.kind in kinds],
        f"its answers are those of another operation ({computing}), as a small trial shows",
        mend=f"add {computing} if that is what it is to compute",
    )


def proposal(causes: Sequence[Cause]) -> str | None:
    """The declaration with which a variant would be right, in words; None if some finding is of another cause."""
    if not causes or not all(cause.declare for cause in causes):
        return None
    declared = dict.fromkeys(cause.declare for cause in causes)
    option = ",".join(_as_option(*d.split("=", 1)) for d in declared)
    right = ", ".join(dict.fromkeys(cause.right_on for cause in causes))
    return f"right on {right}; if that is the contract, declare it: @variant({', '.join(declared)}), or --declare '{option}'"


def _as_option(name: str, value: str) -> str:
    """A declaration as ``--declare`` takes it."""
    if name == "parameters":
        return ",".join(f"{one}={number}" for one, number in ast.literal_eval(value).items())
    return f"{name}={value.strip('[]').replace(chr(34), '')}"


def _offsets(evidence: Evidence) -> Cause | None:
    """The cause of what is wrong far away, None if nothing is: a function that refuses every strided input raises there too."""
    far = evidence.of_probes("addresses")
    if all(f.kind is FindingKind.RAISED for f in far):
        return None
    return cause_of(
        far,
        "wrong or out of bounds beyond 2^31 elements: offsets are computed in 32 bits",
        mend="convert the row and column numbers with .to(tl.int64) before they are multiplied by strides",
        declare="max_elements=2**31",
        right_on="fewer than 2^31 elements",
    )


def _transforms(evidence: Evidence) -> Cause:
    return cause_of(
        _of_values(evidence.of_probes("torch_transforms")),
        "right as it stands, and wrong once torch maps the function or the module is copied, saved, cast or in training",
        mend="keep constants as Python numbers and what a copy needs as attributes; in a rule for torch.vmap, move the mapped dimension away",
    )


def _of_values(findings: Sequence[Finding]) -> list[Finding]:
    """Findings that tell something of values: not those of a process that ended, whatever it computed."""
    return [f for f in findings if f.kind not in _ENDED]


_ENDED = frozenset({FindingKind.CRASH, FindingKind.TIMEOUT, FindingKind.OUT_OF_MEMORY})
"""Kinds of calls that came to no answer."""


def _meetings(evidence: Evidence) -> Cause | None:
    """The smallest meeting of circumstances, where a function is right with any one of these as usual."""
    found = sorted(_of_values(evidence.of_probes(MEETINGS)), key=lambda f: len(f.facts.way))
    if not found:
        return None
    first, *others = (" and ".join(f"{axis} {value}" for axis, value in f.facts.way.items()) for f in found)
    is_one = len(found[0].facts.way) == 1
    said = (
        f"wrong with {first} alone" if is_one else f"wrong where {first} meet, and right with any one of them as usual"
    )
    return cause_of(found, said + (f"; so with {others[0]}" if others else ""))


def _ignored_dimensions(evidence: Evidence) -> Cause | None:
    """Answers over another dimension that are those over the last one."""
    found = [f for f in evidence.of_probes("torch_options") if f.facts.way.get("answers_of") == "the last dimension"]
    options = dict.fromkeys(f.facts.way["option"] for f in found)
    return cause_of(
        found,
        f"{' and '.join(options)} is ignored: whatever dimension is asked for, the answers are those over the last one",
        mend="move the dimension that is asked for to the end and back, or refuse any other than the last",
    )


def _invalid_targets(evidence: Evidence) -> Cause:
    return cause_of(
        evidence.of_probes("invalid_targets"),
        "targets that are no columns, such as -1, make it write memory outside of its tensors",
        mend="mask what is stored at the target by (target >= 0) & (target < columns), and give NaN or ignore the row",
        declare='parameters={"invalid_target": "undefined"}',
        right_on="targets that are columns",
    )


def _first_rows(evidence: Evidence) -> Cause:
    return cause_of(
        _of_values(evidence.of_probes("first_rows")),
        "right by themselves, and wrong beside a first row of some kind: one row tells the way for all",
        mend="ask all rows, or let each row take its own way",
    )


def _empty_inputs(evidence: Evidence) -> Cause | None:
    empty = [
        f
        for f in evidence.findings
        if f.probe == "empties" or (f.case in evidence.cases and 0 in evidence.cases[f.case].shape)
    ]
    return cause_of(
        empty,
        "inputs without elements raise or are answered wrongly",
        mend="return the empty output before anything is launched",
        declare="empty=False",
        right_on="non-empty input",
    )


_STRIDED_TRIALS = (
    "probe/guard_bands/gaps/",
    "probe/addresses/row-stride",
    "probe/addresses/column-stride",
)
"""Beginnings of the names of trials on strided inputs."""


def _layouts(evidence: Evidence) -> Cause | None:
    """Findings on strided inputs alone: wrong values, reads between the rows, exceptions."""
    kinds = WRONG_KINDS | {FindingKind.RAISED, FindingKind.OUT_OF_BOUNDS_READ}
    shown = [f for f in evidence.findings if f.kind in kinds]
    strided = [f for f in shown if _is_strided(f, evidence)]
    if len(strided) < len(shown):
        return None
    does = "raises" if all(f.kind is FindingKind.RAISED for f in strided) else "wrong"
    return cause_of(
        strided,
        f"{does} on strided inputs alone" + (": strides or offsets are ignored" if does == "wrong" else ""),
        mend="index with x.stride(0) and x.stride(1), or begin with x = x.contiguous()",
        declare='layouts=["contiguous"]',
        right_on="contiguous input",
    )


def _is_strided(finding: Finding, evidence: Evidence) -> bool:
    case = evidence.cases.get(finding.case)
    if case is None:
        is_laid = finding.probe in {MEETINGS, *SLICES} and not {"layout", "offset"}.isdisjoint(finding.facts.way)
        return is_laid or finding.case.startswith(_STRIDED_TRIALS)
    return not case.layout.is_contiguous(case.shape[1])


def _magnitudes(evidence: Evidence) -> Cause | None:
    """NaN, infinities or zeros for rows whose largest logit is higher or lower than in any right case, where there is an exponential."""
    if evidence.operation == "softmax_backward":
        return None
    wrong = {case.id for case in evidence.wrong_cases()}
    kinds = {f.kind for f in evidence.findings}
    small = [case for case in evidence.cases.values() if is_looked_at(case)]
    highest = {case.id: found for case in small if (found := peaks(case)) is not None}
    failing = [found for case_id, found in highest.items() if case_id in wrong]
    passing = [found for case_id, found in highest.items() if case_id not in wrong]
    if len(failing) < FEWEST_FAILING or len(passing) < FEWEST_WIDTHS or not kinds & _OF_OVERFLOW:
        return None
    low, high = min(found[0] for found in passing), max(found[1] for found in passing)
    below = [lowest for lowest, _ in failing if lowest < low]
    above = [highest for _, highest in failing if highest > high]
    if not all(lowest < low or highest > high for lowest, highest in failing):
        return None
    where = [f"a logit is {min(above):.3g} or more"] if above else []
    where += [f"a row's largest logit is {max(below):.3g} or less"] if below else []
    does = " or ".join([*(["overflows"] if above else []), *(["underflows"] if below else [])])
    return cause_of(
        [f for f in evidence.findings if is_wrong(f)],
        f"wrong wherever {' or '.join(where)}, right where rows' largest logits are {low:.3g} to {high:.3g}: the exponential {does}",
        mend="subtract the row's maximum before the exponential",
    )


_OF_OVERFLOW = frozenset({FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH, FindingKind.OUT_OF_RANGE})


def _by_kind(evidence: Evidence) -> Iterator[Cause]:
    """One cause for the kinds of wrong values that show on the same inputs, and one for each other kind."""
    kinds: dict[FindingKind, list[Finding]] = {}
    for finding in evidence.findings:
        kinds.setdefault(finding.kind, []).append(finding)
    # A wrong value breaks several promises on the same inputs. The kind of most findings names the cause.
    for found in _together([kinds.pop(kind) for kind in sorted(kinds) if kind in WRONG_KINDS]):
        kind = found[0].kind
        explanation = of_kind(kind, evidence.operation)
        reasons = {f.facts.reason for f in found}
        special = _SPECIAL_ROWS.get(reasons.pop()) if len(reasons) == 1 else None
        yield cause_of(found, special or explanation.meaning, mend="" if kind in VALUE_KINDS else explanation.mend)
    for kind, found in kinds.items():
        explanation = of_kind(kind, evidence.operation)
        yield cause_of(found, explanation.meaning, mend=explanation.mend)


_SPECIAL_ROWS: Mapping[Reason | None, str] = {
    "nan": "a row that holds a NaN gives numbers, and should give NaN",
    "inf": "a row that holds a +inf gives numbers, and should give NaN",
}
"""Words for wrong values in one kind of rows alone."""


def _together(groups: list[list[Finding]]) -> list[list[Finding]]:
    """Joins groups of findings of one kind that share a case or a trial, the largest group first."""
    joined: list[list[Finding]] = []
    for group in sorted(groups, key=len, reverse=True):
        where = {f.case for f in group}
        host = next((other for other in joined if where & {f.case for f in other}), None)
        if host is None:
            joined.append(list(group))
        else:
            host += group
    return joined
