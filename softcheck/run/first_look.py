"""Looks before a whole domain is judged: at adversarial rows, and at whether the order of columns counts. Imports no torch."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from softcheck.cases.case import GENERATED
from softcheck.cases.exhaustive import Domain, telling_rows
from softcheck.cases.importing import case_from_bits
from softcheck.contract import Violation
from softcheck.errors import UsageError
from softcheck.judge.measurement import Measurement, moved
from softcheck.run.patience import Patience
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import CompareOrders, OrdersCompared
from softcheck.run.session import CaseMeasurement, Session
from softcheck.run.size_limits import SizeLimit, around, size_limits
from softcheck.variants.declaration import Declaration


@dataclass(frozen=True, slots=True)
class Look:
    """The result of judging the adversarial rows."""

    result: CaseMeasurement | None
    """None where the variant was called no more."""
    rows: tuple[int, ...]
    """Their numbers in the domain."""
    limits: tuple[SizeLimit, ...] = ()
    """Of the sizes that the variant refuses."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Promises that were broken, each with its row of the domain."""
        return () if self.result is None else self.result.measurement.violations

    def seconds_for(self, rows: int, jobs: int) -> float:
        """Seconds that so many rows will take on so many workers, if each program costs alike."""
        if self.result is None:
            return 0.0
        return self.result.seconds / len(self.rows) * rows / jobs

    def refusal(self, parts: Sequence[Measurement] = ()) -> SizeLimit | None:
        """The limit for which nothing was run, of the rows looked at or of all parts; None where there was an answer."""
        if self.result is None:
            return None
        variant, case = self.result.variant, self.result.case
        judged = [CaseMeasurement(variant, case, part, 0.0) for part in parts]
        limits = size_limits([self.result, *judged], []) if parts else self.limits
        violations = [part.violations for part in parts] if parts else [self.violations]
        if not all(broken and all(v.refusal is not None for v in broken) for broken in violations):
            return None
        covering = [next((limit for limit in limits if limit.covers(v)), None) for broken in violations for v in broken]
        return None if None in covering else covering[0]


def look(session: Session, variant: str, declaration: Declaration, domain: Domain) -> Look:
    """Judges a domain's adversarial rows. It counts neither as a part nor towards giving the variant up.

    Where they are refused, sizes around theirs are tried too.
    """
    rows = telling_rows(domain)
    bits = np.concatenate([domain.bits(row, 1) for row in rows])
    case = case_from_bits(bits, domain.dtype, provenance="adversarial rows of a domain", family=GENERATED)
    own = copy(session)
    own.patience = Patience(session.patience.most_seconds)
    found = own.run_case(case, [variant], whole=True)
    if not found:
        return Look(None, tuple(rows))
    limits = size_limits([*found, *around(own, variant, declaration, domain.dtype, found)], [])
    in_domain = moved(found[0].measurement, lambda row: rows[row])
    return Look(replace(found[0], measurement=in_domain), tuple(rows), tuple(limits))


ROWS_IN_ANY_ORDER = {"cuda": 2**20, "interpreter": 2**10}
"""Rows that are sampled."""


def show_any_order(session: Session, variant: str, declaration: Declaration, dtype: str, columns: int) -> str:
    """Returns a sentence on the sample that showed that neither the order of a row's elements nor its place counts.

    Raises UsageError if the operation or the variant has another answer for another order.
    """
    if "permutations" not in declaration.computed.relations:
        raise UsageError(f"--any-order: {declaration.operation} has other answers for other orders; leave it out")
    request = CompareOrders(variant, dtype, columns, ROWS_IN_ANY_ORDER[session.ready.backend], seed=0)
    try:
        *_, reply = session.ask(session.take(variant), request, variant)
    except WorkerDiedError as died:
        raise UsageError(f"--any-order: {variant}: {died}; leave it out to judge every row") from None
    assert isinstance(reply, OrdersCompared)
    if reply.difference is not None:
        raise UsageError(f"--any-order: {variant}: {reply.difference}; leave it out to judge every row")
    return (
        f"{variant}: judged in one order of each row's elements: {reply.rows:,} sampled rows had the same bits in every order of "
        "their columns, in other rows of the batch and one alone; a sample is no proof for the others"
    )
