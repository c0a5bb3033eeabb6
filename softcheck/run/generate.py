"""Search for failures with hypothesis: generated inputs, judged in a worker, and shrunk when one fails.

The first half of the examples is drawn freely. Then hypothesis changes the one with the largest error over bound, and
keeps a change that makes the figure larger (``hypothesis.target``, hill climbing).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from softcheck.cases.case import Case
from softcheck.cases.drawing import call_with_each
from softcheck.run.plan import named_by_cases
from softcheck.run.session import CaseMeasurement, Session
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Generated:
    """Result of a search on one variant and dtype: the number of examples, and the shrunk failure if there is one."""

    variant: str
    dtype: str
    examples: int
    failure: CaseMeasurement | None


_MOST_COLUMNS = 1100
"""More than two of the widest built-in tile, and short enough that thousands of examples run in minutes."""


class _FoundError(AssertionError):
    """Raised inside the property, so that hypothesis shrinks the example."""


def generate(
    session: Session,
    variant: str,
    dtype: str,
    *,
    examples: int,
    seed: int,
    declaration: Declaration,
    with_refusals: bool = True,
    on_result: Callable[[CaseMeasurement], None],
) -> Generated:
    """Judges a variant on generated cases until one fails or ``examples`` have passed.

    A declared defect is no failure, and without ``with_refusals`` a refusal of a size is none. Every judged example reaches ``on_result`` except the steps of shrinking. A failure is the smallest that hypothesis
    found. Cases stay within the declaration.
    """
    from hypothesis import target
    from hypothesis.errors import Flaky

    from softcheck import strategies

    smallest: list[CaseMeasurement] = []
    count = 0
    limit = min(_MOST_COLUMNS, declaration.column_limit(dtype) or _MOST_COLUMNS)

    def judged(case: Case) -> None:
        nonlocal count
        results = session.run_case(case, [variant])
        if not results:
            # The variant has been given up; the findings that led to it are among the results.
            return
        (result,) = results
        if any(
            (with_refusals or violation.refusal is None)
            and declaration.explanation(violation, case.id, dtype, session.ready.backend) is None
            for violation in result.measurement.violations
        ):
            smallest[:] = [result]
            raise _FoundError
        worst = result.measurement.max_bound_share
        if worst is not None and isfinite(worst.value):
            target(worst.value, label="error over bound")
        if not smallest:
            count += 1
            on_result(result)

    try:
        ignored = declaration.computed.parameters.get("ignore_index")
        cases = strategies.cases(
            dtype,
            max_columns=limit,
            allow_layouts="strided" in declaration.layouts,
            operand_names=named_by_cases(declaration),
            ignore_index=int(ignored) if isinstance(ignored, int | float) and isfinite(ignored) else None,
        )
        call_with_each(cases, judged, seed=seed, examples=examples)
    except (_FoundError, Flaky):
        if not smallest:
            raise
        # Flaky: the smallest example passed when it was run once more. It failed before, so it is a finding.
        return Generated(variant, dtype, count + 1, smallest[0])
    return Generated(variant, dtype, count, None)
