"""Assignment of cases to variants, and the cases left out by declaration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softcheck.cases.case import Case
from softcheck.cases.families import FAMILIES, OF_OPERATIONS
from softcheck.run.patience import MOST_DEATHS
from softcheck.variants.declaration import Declaration

_KNOWN = frozenset({*FAMILIES, *(name for families in OF_OPERATIONS.values() for name in families)})

NARROW = 2**12
"""Columns up to which a kernel of one block is compiled in a fraction of a second."""


@dataclass(frozen=True, slots=True)
class CasePlan:
    """Tasks in order, each a case with the variants that promise to take it, and notes on the cases left out."""

    tasks: tuple[tuple[Case, tuple[str, ...]], ...]
    notes: tuple[str, ...]


def plan(cases: Sequence[Case], declarations: Mapping[str, Declaration], dtypes: Sequence[str]) -> CasePlan:
    """Returns every case of the dtypes with every variant whose declaration covers it, narrow cases first."""
    beyond: dict[tuple[str, str, str], int] = {}
    tasks = []
    for case in cases:
        if case.dtype not in dtypes:
            continue
        takers = []
        for name, declaration in declarations.items():
            if case.dtype not in declaration.dtypes:
                continue
            reason = left_out(case, declaration)
            if reason is None:
                takers.append(name)
            else:
                key = (name, case.dtype, reason)
                beyond[key] = beyond.get(key, 0) + 1
        tasks.append((case, tuple(takers)))
    tasks.sort(key=lambda task: _turn(task[0]))
    notes = tuple(f"{name}, {dtype}: {count} cases not run: {why}" for (name, dtype, why), count in beyond.items())
    return CasePlan(tuple(tasks), notes)


def _turn(case: Case) -> tuple[bool, int]:
    """Sorts narrow cases first, largest first, then wide ones, narrowest first: their kernels take long to compile."""
    rows, columns = case.shape
    return (True, columns) if columns > NARROW else (False, -rows * columns)


def scouts(cases: Sequence[Case], declaration: Declaration, dtypes: Sequence[str]) -> list[Case]:
    """Returns for each dtype as many cases as a variant may fail to survive.

    These cases show whether the variant can be called at all. No case is empty. The widths go from the narrowest on in
    equal steps of rank.
    """
    found = []
    for dtype in dtypes:
        taken = covered(cases, declaration, dtype) if dtype in declaration.dtypes else ()
        by_width = sorted((case for case in taken if 0 not in case.shape), key=lambda case: case.shape[1])
        count = min(MOST_DEATHS, len(by_width))
        found += [by_width[i * len(by_width) // count] for i in range(count)]
    return found


def covered(cases: Sequence[Case], declaration: Declaration, dtype: str) -> list[Case]:
    """The cases of one dtype that a declaration covers."""
    return [case for case in cases if case.dtype == dtype and left_out(case, declaration) is None]


def left_out(case: Case, declaration: Declaration) -> str | None:
    """Returns the reason why a declaration does not cover a case of one of its dtypes, or None."""
    computed = declaration.computed
    columns = case.shape[1]
    is_foreign = case.family in _KNOWN and case.family not in computed.families
    if is_foreign or (columns == 0 and not computed.answers_elements):
        return f"{'their family' if is_foreign else 'a row of 0 columns'} is not for {declaration.operation}"
    limit = declaration.column_limit(case.dtype)
    if limit is not None and columns > limit:
        return f"wider than the declared {limit} columns"
    if "strided" not in declaration.layouts and not case.layout.is_contiguous(columns):
        return "strided layouts are not declared"
    if 0 in case.shape and not declaration.empty:
        return "inputs without elements are not declared"
    most = declaration.max_elements
    if most is not None and case.layout.extent(*case.shape) > most:
        return f"more than the declared {most} elements"
    return None
