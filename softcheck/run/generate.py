"""Searching for failures with hypothesis: generated inputs, judged in a worker, shrunk when one fails."""

from collections.abc import Callable
from dataclasses import dataclass

from softcheck.cases.case import Case
from softcheck.run.session import Result, Session


@dataclass(frozen=True, slots=True)
class Generated:
    """What a search on one variant and dtype ran, and the shrunk failure where there is one."""

    variant: str
    dtype: str
    examples: int
    failure: Result | None


class _FoundError(AssertionError):
    """Raised inside the property, so that hypothesis shrinks the example."""


def generate(
    session: Session,
    variant: str,
    dtype: str,
    *,
    examples: int,
    seed: int,
    max_columns: int | None,
    is_failure: Callable[[Result], bool],
    on_result: Callable[[Result], None],
) -> Generated:
    """Judges a variant on generated cases until one fails or ``examples`` have passed.

    Every judged example reaches ``on_result`` except the steps of shrinking; a failure is the smallest that hypothesis
    found. ``max_columns`` is the variant's declared limit.
    """
    import hypothesis

    from softcheck import strategies

    smallest: list[Result] = []
    count = 0
    limit = 1100 if max_columns is None else min(1100, max_columns)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(strategies.cases(dtype, max_columns=limit))
    def judged(case: Case) -> None:
        nonlocal count
        (result,) = session.run_case(case, [variant])
        if is_failure(result):
            smallest[:] = [result]
            raise _FoundError
        if not smallest:
            count += 1
            on_result(result)

    try:
        judged()
    except _FoundError:
        return Generated(variant, dtype, count + 1, smallest[0])
    return Generated(variant, dtype, count, None)
