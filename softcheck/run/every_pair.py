"""Pairs of a 16-bit dtype's patterns, judged on a GPU while cases and probes mostly keep the host busy."""

from collections.abc import Callable, Sequence

from oracles.formats import FORMATS
from softcheck.cases.exhaustive import Domain, domain
from softcheck.errors import SoftcheckError
from softcheck.probes.registry import Effort
from softcheck.run.exhaust import Exhausted, exhaust_within
from softcheck.run.pool import Job
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import names_in

_SECONDS = 120.0
"""Seconds per variant and dtype that only what hangs, or is very slow, uses up."""

AT_ONCE = 2
"""Domains judged at once on each device, so that while one computes on the host the other has the GPU."""


def wanted(declaration: Declaration, dtypes: Sequence[str], effort: Effort = "normal") -> list[Domain]:
    """The pairs of each 16-bit dtype that a variant declares, if it declares rows of two columns: all of them for ``thorough``, else one in 16.

    None where the operation has no judge on the device, since the numpy judge would take hours, where a row's answer has parts, since a
    head of two keys has a hundred numbers and more, and where each row is a call of its own.
    """
    computed = declaration.computed
    is_of_rows = computed.matrix is not None or "x1" in names_in(declaration.call)
    if not computed.is_judged_on_device or computed.parts is not None or is_of_rows:
        return []
    return [
        domain(dtype, 2, spread=effort != "thorough")
        for dtype in dtypes
        if FORMATS[dtype].width == 16 and dtype in declaration.dtypes and (declaration.column_limit(dtype) or 2) >= 2
    ]


def pairs_job(
    session: Session, variant: str, declaration: Declaration, pairs: Domain, place: int = 0
) -> Job[Exhausted]:
    """Returns a job that judges pairs on the device at a place, on workers of its own; none of a variant that was given up.

    What could not be judged to its end raises after the result up to there.
    """
    name = f"{variant}, every pair of {pairs.dtype} patterns"

    def work(emit: Callable[[Exhausted], None]) -> None:
        if session.patience.over(variant, pairs.dtype) is not None:
            return
        own = session.apart(place)
        try:
            found = exhaust_within(own, variant, declaration, pairs, _SECONDS)
        except SoftcheckError as error:
            raise SoftcheckError(f"{name}: {error}") from None
        finally:
            own.rejoin()
        emit(found)
        if found.ended is not None and not session.closed:
            parts = found.ended.parts
            judged = f"{parts} part{'' if parts == 1 else 's'}, {found.domain.first:,} of {found.domain.total:,} rows"
            raise SoftcheckError(f"{name}: ended after {judged}: {found.ended.why}")

    return Job(name, work)
