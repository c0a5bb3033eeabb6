"""Assignment of cases to variants, and the cases left out by declaration."""

from collections.abc import Mapping, Sequence

from softcheck.cases.case import Case
from softcheck.cases.families import FAMILIES, operation_of
from softcheck.cases.operands import Operands
from softcheck.errors import UsageError
from softcheck.operations.masks import MASKS
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation
from softcheck.run.patience import MOST_DEATHS
from softcheck.speed.samples import DEFAULT
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import names_in, operands_in

NARROW = 2**12
"""Columns up to which a kernel of one block is compiled in a fraction of a second."""


def plan(
    cases: Sequence[Case], declarations: Mapping[str, Declaration], dtypes: Sequence[str]
) -> tuple[list[tuple[Case, tuple[str, ...]]], list[str]]:
    """Returns every case of the dtypes with every variant whose declaration covers it, narrow cases first, and notes on those left out.

    No note tells of a built-in case of another operation, or of a call that lacks the operands that the case names.
    """
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
            elif operation_of(case.family) is None:
                key = (name, case.dtype, reason)
                beyond[key] = beyond.get(key, 0) + 1
        tasks.append((case, tuple(takers)))
    tasks.sort(key=lambda task: _turn(task[0]))
    return tasks, [f"{name}, {dtype}: {count} cases not run: {why}" for (name, dtype, why), count in beyond.items()]


def _turn(case: Case) -> tuple[bool, int]:
    """Sorts narrow cases first, largest first, then wide ones, narrowest first: their kernels take long to compile."""
    rows, columns = case.shape
    return (True, columns) if columns > NARROW else (False, -rows * columns)


def timed_together(names: Sequence[str], declarations: Mapping[str, Declaration]) -> list[tuple[str, ...]]:
    """Returns the variants in groups that compute one operation of the same operands, which can be timed side by side."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name in names:
        declared = declarations[name]
        key = (declared.operation, *sorted(declared.parameters.items()), operands_in(declared.call))
        groups.setdefault(key, []).append(name)
    return [tuple(group) for group in groups.values()]


def timed_shape(declaration: Declaration) -> tuple[int, int]:
    """Returns the rows and columns on which a variant is timed if nobody names others."""
    return declaration.computed.timed_shape or DEFAULT


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
    known = computed.families if case.family in FAMILIES else (None, declaration.operation)
    belongs = case.family if case.family in FAMILIES else operation_of(case.family)
    columns = case.shape[1]
    is_foreign = belongs not in known and case.family not in computed.families
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
    named, words = case.operands, names_in(declaration.call)
    found = None if named is None else _untaken_operand(named, computed, words)
    return found if found or named is None else _untaken_parameter(named, declaration, words)


def named_by_cases(declaration: Declaration) -> tuple[str, ...]:
    """The operands that a drawn case may name for a declared call: targets and gradients, or what its mask hides."""
    computed, taken = declaration.computed, operands_in(declaration.call)
    if computed.with_named is None:
        return ()
    own = tuple(operand.name for operand in computed.operands if operand.name in ("target", "grad"))
    return (*own, *(["behind"] if taken & MASKS else []))


_IN_CALLS = {"behind": MASKS, "bias": frozenset({"bias"})}
"""Names in calls of what a case names, where they are not the same."""


def _untaken_operand(operands: Operands, computed: Operation, words: frozenset[str]) -> str | None:
    """Returns why an operand that a case names is not taken by an operation, or a call of these words; None if all are."""
    arguments = {} if computed.arguments is None else computed.arguments.words
    judged = {name for names in arguments.values() for name in names}
    always = {operand.name for operand in computed.operands}
    for name in operands.names:
        in_calls = _IN_CALLS.get(name, frozenset({name}))
        if not in_calls & judged or computed.with_named is None:
            return f"the case names {name!r}, which {computed.name} does not take"
        if name not in always and not in_calls & words:
            return f"the case names {name!r}, and the call takes none of {', '.join(sorted(in_calls))}"
    return None


def _untaken_parameter(operands: Operands, declaration: Declaration, words: frozenset[str]) -> str | None:
    for name, value in operands.parameters.items():
        in_calls = {name, *(["temperature"] if name == "scale" else [])}
        if value != declaration.computed.parameters.get(name) and not words & in_calls:
            return f"the case is of {name}={value:g}, and neither the declaration nor the call says so"
    try:
        given = operation(declaration.operation, {**declaration.parameters, **operands.parameters})
    except UsageError as error:
        return str(error)
    if "bias" in operands.names and given.parameters.get("scale", 1.0) != 1.0:
        return "a mask that is added with values is not judged beside a scale"
    return None
