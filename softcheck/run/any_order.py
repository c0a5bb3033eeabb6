"""The judgement of each row in one order of its elements alone, where a variant is shown to have no other answer. Imports no torch."""

from softcheck.errors import UsageError
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import CompareOrders, OrdersCompared
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration

ROWS = {"cuda": 2**20, "interpreter": 2**10}
"""Rows that are sampled."""


def show_any_order(session: Session, variant: str, declaration: Declaration, dtype: str, columns: int) -> str:
    """Returns a sentence on the sample that showed that neither the order of a row's elements nor its place counts.

    Raises UsageError if the operation or the variant has another answer for another order.
    """
    if "permutations" not in declaration.computed.relations:
        raise UsageError(f"--any-order: {declaration.operation} has other answers for other orders; leave it out")
    request = CompareOrders(variant, dtype, columns, ROWS[session.ready.backend], seed=0)
    try:
        *_, reply = session.ask(session.take(), request, session.seconds, variant)
    except WorkerDiedError as died:
        raise UsageError(f"--any-order: {variant}: {died}; leave it out to judge every row") from None
    assert isinstance(reply, OrdersCompared)
    if reply.difference is not None:
        raise UsageError(f"--any-order: {variant}: {reply.difference}; leave it out to judge every row")
    return (
        f"{variant}: judged in one order of each row's elements: {reply.rows:,} sampled rows had the same bits in every order of "
        "their columns, in other rows of the batch and one alone; a sample is no proof for the others"
    )
