"""Groups findings by what they have in common: "wrong at every N not a power of two" rather than 130 elements.

A cause is a set of inputs that explains all findings in it: every input of the set shows one or could not, and no finding
outside the set is of the same kind. A fix is named where the facts of the findings show it. Findings that no set explains are grouped by their
kinds, and those of wrong values have no fix.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from softcheck.cases.case import Case
from softcheck.contract import VALUE_KINDS, WRONG_KINDS, FindingKind
from softcheck.explain import of_kind
from softcheck.facts import Reason
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import Parameter
from softcheck.probes.registry import MEETINGS, SLICES
from softcheck.report.computed_causes import of_computed
from softcheck.report.evidence import Evidence, cause_of
from softcheck.report.model import Cause, Finding
from softcheck.report.value_causes import (
    OF_SPECIAL_ROWS,
    OF_TRANSFORMS,
    of_magnitudes,
    of_masked_rows,
    of_rounding,
    of_values,
)
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

    ``cases`` are those that were run, and ``rows`` their numbers of judged rows by id, all rows by default. ``dtype`` is the input's, by
    default that of the cases. The others are those of ``Evidence``. Findings that a declared defect explains are left out.
    """
    unexplained = [f for f in findings if f.known is None]
    left = Evidence(
        unexplained,
        {case.id: case for case in cases},
        rows or {case.id: case.shape[0] for case in cases},
        operation=operation,
        dtype=dtype or (cases[0].dtype if cases else ""),
        weaker=weaker,
        parameters=parameters or {},
        computing=computing,
        damages_memory=any(map(_is_write, unexplained)),
    )
    found: list[tuple[int, int, Cause]] = []
    for rank, suppose in _SUPPOSED:
        # Rows of any numbers overflow on the way to what a slip foretells; a comparison with what comes out of it is false.
        with np.errstate(all="ignore"):
            cause = suppose(left)
        if cause is not None and cause.findings:
            found.append((rank, -len(cause.findings) if rank == _BY_SIZE else 0, cause))
            left = left.without(cause)
    found += [(_BY_SIZE, -len(cause.findings), cause) for cause in _by_kind(left)]
    return tuple(cause for *_, cause in sorted(found, key=lambda each: each[:2]))


def _of_probe(probe: str, text: str, mend: str, declare: str = "", right_on: str = "") -> Callable[[Evidence], Cause]:
    """Tells the cause of all findings of one probe."""

    def suppose(evidence: Evidence) -> Cause:
        return cause_of(evidence.of_probes(probe), text, mend=mend, declare=declare, right_on=right_on)

    return suppose


def _of_axes(axes: Sequence[str], text: str, mend: str) -> Callable[[Evidence], Cause]:
    """Tells the cause of all wrong values in circumstances of some axes."""
    return lambda evidence: cause_of(
        [f for f in _of_values(evidence.findings) if not f.facts.way.keys().isdisjoint(axes)], text, mend=mend
    )


def _is_write(finding: Finding) -> bool:
    """True for a write out of bounds on an input that other calls see too."""
    return finding.kind is FindingKind.OUT_OF_BOUNDS_WRITE and finding.probe not in _OF_THEIR_OWN


_OF_THEIR_OWN = frozenset({"addresses", "invalid_targets"})
"""Probes whose writes out of bounds have a cause of their own, and happen on inputs that no other call sees."""


def _writes(evidence: Evidence) -> Cause:
    page = of_kind(FindingKind.OUT_OF_BOUNDS_WRITE, evidence.operation)
    return cause_of([f for f in evidence.findings if _is_write(f)], page.meaning, mend=page.mend)


def _ended(evidence: Evidence) -> Cause | None:
    """Crashes, whose place says nothing where memory was damaged before."""
    if not evidence.damages_memory:
        return None
    return cause_of(
        [f for f in evidence.findings if f.kind is FindingKind.CRASH and f.probe not in _OF_THEIR_OWN],
        "calls ended their process, as the write out of bounds above makes them: it damages memory that a later step or call uses",
        mend="fix the write first, and run these again if they still end",
    )


def _other_operation(evidence: Evidence) -> Cause:
    kinds = VALUE_KINDS | {FindingKind.WRONG_GRADIENT}
    return cause_of(
        [f for f in evidence.findings if evidence.computing and f.kind in kinds],
        f"its answers are those of another operation ({evidence.computing}), as a small trial shows",
        mend=f"add {evidence.computing} if that is what it is to compute",
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
    found = [f for f in evidence.findings if f.facts.way.get("answers_of") == "the last dimension"]
    options = dict.fromkeys(f.facts.way["option"] for f in found)
    return cause_of(
        found,
        f"{' and '.join(options)} is ignored: whatever dimension is asked for, the answers are those over the last one",
        mend="move the dimension that is asked for to the end and back, or refuse any other than the last",
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


_BY_SIZE = 2
_SUPPOSED: tuple[tuple[int, Callable[[Evidence], Cause | None]], ...] = (
    (1, _other_operation),
    (
        3,
        _of_probe(
            "invalid_targets",
            "targets that are no columns, such as -1, make it write memory outside of its tensors",
            mend="mask what is stored at the target by (target >= 0) & (target < columns), and give NaN or ignore the row",
            declare='parameters={"invalid_target": "undefined"}',
            right_on="targets that are columns",
        ),
    ),
    (0, _writes),
    (0, _ended),
    (_BY_SIZE, _offsets),
    (_BY_SIZE, _empty_inputs),
    (_BY_SIZE, _layouts),
    (_BY_SIZE, of_computed),
    (_BY_SIZE, of_masked_rows),
    (_BY_SIZE, of_magnitudes),
    (_BY_SIZE, of_rounding),
    (_BY_SIZE, of_widths),
    (_BY_SIZE, of_values),
    (_BY_SIZE, of_shapes),
    (
        _BY_SIZE,
        _of_axes(
            OF_TRANSFORMS,
            "right as it stands, and wrong once torch maps the function or the module is copied, saved, cast or in training",
            mend="keep constants as Python numbers and what a copy needs as attributes; in a rule for torch.vmap, move the mapped dimension away",
        ),
    ),
    (_BY_SIZE, _ignored_dimensions),
    (
        _BY_SIZE,
        _of_axes(
            OF_SPECIAL_ROWS,
            "right by themselves, and wrong beside a first row of some kind: one row tells the way for all",
            mend="ask all rows, or let each row take its own way",
        ),
    ),
    (_BY_SIZE, _meetings),
)
"""Suppositions on findings, tried in this order: each explains what those before it left.

The numbers order the causes of a report. Damaged memory may be behind anything else. What a loss does with targets that its callers
may never give comes last. Those between are ordered by what they explain.
"""
