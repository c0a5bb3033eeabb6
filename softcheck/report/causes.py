"""Groups findings by what they have in common: "wrong at every N not a power of two" rather than 130 elements.

A cause is a set of inputs that explains all findings in it: every input of the set shows one or could not, and no finding
outside the set is of the same kind. A fix is named where the facts of the findings show it. Findings that no set explains are grouped by their
kinds, and those of wrong values have no fix. ``causes.toml`` holds the words.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from softcheck.cases.case import Case
from softcheck.contract import VALUE_KINDS, WRONG_KINDS, FindingKind
from softcheck.explain import of_kind
from softcheck.probes.registry import MEETINGS, SLICES
from softcheck.report.computed_causes import of_computed
from softcheck.report.evidence import Evidence, cause_of
from softcheck.report.input_causes import (
    OF_SPECIAL_ROWS,
    OF_TRANSFORMS,
    of_magnitudes,
    of_masked_rows,
    of_rounding,
    of_shapes,
    of_values,
    of_widths,
)
from softcheck.report.model import Cause, Finding


def causes_of(
    findings: Sequence[Finding], cases: Sequence[Case], rows: Mapping[str, int] | None = None, **known: Any
) -> tuple[Cause, ...]:
    """Returns the causes of one variant's findings in one dtype, writes out of bounds first, then the one that explains most.

    ``cases`` are those that were run, and ``rows`` their numbers of judged rows by id, all rows by default. ``known`` are other fields of
    ``Evidence``; ``dtype`` is by default that of the cases. Findings that a declared defect explains are left out.
    """
    unexplained = [f for f in findings if f.known is None]
    known = {"dtype": cases[0].dtype if cases else "", "damages_memory": any(map(_is_write, unexplained)), **known}
    of_rows = rows or {case.id: case.shape[0] for case in cases}
    left = Evidence(unexplained, {case.id: case for case in cases}, of_rows, **known)
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


def _of_axes(axes: Sequence[str], name: str) -> Callable[[Evidence], Cause]:
    """Tells the cause of all wrong values in circumstances of some axes."""
    return lambda evidence: cause_of(
        [f for f in evidence.findings if f.kind not in _ENDED and not f.facts.way.keys().isdisjoint(axes)], name
    )


def _is_write(finding: Finding) -> bool:
    """True for a write out of bounds on an input that other calls see too."""
    return finding.kind is FindingKind.OUT_OF_BOUNDS_WRITE and finding.probe not in _OF_THEIR_OWN


_OF_THEIR_OWN = frozenset({"addresses", "invalid_targets"})
"""Probes whose writes out of bounds have a cause of their own, and happen on inputs that no other call sees."""

_ENDED = frozenset({FindingKind.CRASH, FindingKind.TIMEOUT, FindingKind.OUT_OF_MEMORY})
"""Kinds of calls that came to no answer, which tell nothing of values."""


def _of_kind(kind: FindingKind, found: Sequence[Finding], evidence: Evidence, *, is_mended: bool = True) -> Cause:
    page = of_kind(kind, evidence.operation)
    return Cause(text=page.meaning, mend=page.mend if is_mended else "", findings=tuple(f.id for f in found))


def _ended(evidence: Evidence) -> Cause | None:
    """Crashes, whose place says nothing where memory was damaged before."""
    crashes = [f for f in evidence.findings if f.kind is FindingKind.CRASH and f.probe not in _OF_THEIR_OWN]
    return cause_of(crashes, "ended") if evidence.damages_memory else None


def _other_operation(evidence: Evidence) -> Cause:
    kinds = VALUE_KINDS | {FindingKind.WRONG_GRADIENT}
    found = [f for f in evidence.findings if evidence.computing and f.kind in kinds]
    return cause_of(found, "other_operation", computing=evidence.computing)


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
    return None if all(f.kind is FindingKind.RAISED for f in far) else cause_of(far, "far_offsets")


def _meetings(evidence: Evidence) -> Cause | None:
    """The smallest meeting of circumstances, where a function is right with any one of these as usual."""
    found = [f for f in evidence.of_probes(MEETINGS) if f.kind not in _ENDED]
    ways = sorted((f.facts.way for f in found), key=len)
    if not ways:
        return None
    first, *others = (" and ".join(f"{axis} {value}" for axis, value in way.items()) for way in ways)
    so = f"; so with {others[0]}" if others else ""
    return cause_of(found, "circumstance" if len(ways[0]) == 1 else "meeting", first=first, so=so)


def _ignored_dimensions(evidence: Evidence) -> Cause | None:
    """Answers over another dimension that are those over the last one."""
    found = [f for f in evidence.findings if f.facts.way.get("answers_of") == "the last dimension"]
    options = dict.fromkeys(f.facts.way["option"] for f in found)
    return cause_of(found, "ignored_dimension", options=" and ".join(options))


def _empty_inputs(evidence: Evidence) -> Cause | None:
    cases = {id_ for id_, case in evidence.cases.items() if 0 in case.shape}
    return cause_of([f for f in evidence.findings if f.probe == "empties" or f.case in cases], "empty")


_STRIDED_TRIALS = ("probe/guard_bands/gaps/", "probe/addresses/row-stride", "probe/addresses/column-stride")
"""Beginnings of the names of trials on strided inputs."""


def _layouts(evidence: Evidence) -> Cause | None:
    """Findings on strided inputs alone: wrong values, reads between the rows, exceptions."""
    kinds = WRONG_KINDS | {FindingKind.RAISED, FindingKind.OUT_OF_BOUNDS_READ}
    shown = [f for f in evidence.findings if f.kind in kinds]
    if not all(_is_strided(f, evidence) for f in shown):
        return None
    raises = all(f.kind is FindingKind.RAISED for f in shown)
    does, why = ("raises", "") if raises else ("wrong", ": strides or offsets are ignored")
    return cause_of(shown, "strided", does=does, why=why)


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
        reasons = {f.facts.reason for f in found}
        if reasons in ({"nan"}, {"inf"}):
            yield cause_of(found, str(reasons.pop()))
        else:
            yield _of_kind(found[0].kind, found, evidence, is_mended=found[0].kind not in VALUE_KINDS)
    for kind, found in kinds.items():
        yield _of_kind(kind, found, evidence)


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
    (3, lambda evidence: cause_of(evidence.of_probes("invalid_targets"), "invalid_targets")),
    (0, lambda left: _of_kind(FindingKind.OUT_OF_BOUNDS_WRITE, list(filter(_is_write, left.findings)), left)),
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
    (_BY_SIZE, _of_axes(OF_TRANSFORMS, "torch_transforms")),
    (_BY_SIZE, _ignored_dimensions),
    (_BY_SIZE, _of_axes(OF_SPECIAL_ROWS, "first_rows")),
    (_BY_SIZE, _meetings),
)
"""Suppositions on findings, tried in turn on what those before left, with their ranks: damaged memory first, and what no caller may give last."""
