"""The parent's part of a trace: which rows are recorded in a worker that interprets kernels. Imports no torch."""

from collections.abc import Sequence

from softcheck.cases.case import Case
from softcheck.errors import NothingRunError, SoftcheckError, UsageError, WithoutKernelError
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import RunTrace, Traced
from softcheck.run.session import Session
from softcheck.tracing.model import Trace, TracedRow
from softcheck.variants.forms import PLAIN

MOST_COLUMNS = 2**15
"""Widest row that is traced: every step holds several figures for each of its lanes."""


def trace(
    session: Session,
    variant: str,
    case: Case,
    *,
    rows: Sequence[int] = (0,),
    widths: Sequence[int] = (),
    focus: int | None = None,
    command: str,
) -> Trace:
    """Records a variant's kernels on rows of a case, cut to each of the ``widths``, or whole if there are none.

    ``session`` must interpret kernels. ``command`` is what repeats the trace. Raises UsageError if the variant can't be loaded
    or does not take the case's dtype, or if a row or a width lies outside the case; WithoutKernelError if the variant
    launches no Triton kernel, NothingRunError if there is nothing else to record, and SoftcheckError if the variant ends the worker.
    """
    _check(case, rows, widths)
    declaration = session.load(variant, (case.dtype,))
    if isinstance(declaration, str):
        raise UsageError(f"{variant}: {declaration}")
    if case.dtype not in declaration.dtypes:
        raise UsageError(
            f"{variant} declares {', '.join(declaration.dtypes)}, not {case.dtype}; see --dtype and --case"
        )
    found: list[TracedRow] = []
    fact = session.facts.get(variant)
    notes = dict.fromkeys([fact.in_words()] if fact is not None and fact.text not in ("", PLAIN) else [])
    for width in widths or (None,):
        request = RunTrace(case, variant, tuple(rows), width, focus)
        answer = _asked(session, request)
        if answer.reason is not None:
            raise (NothingRunError if answer.has_kernel else WithoutKernelError)(answer.reason)
        found += answer.rows
        notes |= dict.fromkeys(answer.notes)
    return Trace(
        variant=variant,
        operation=declaration.operation,
        dtype=case.dtype,
        case=case.id,
        triton=session.ready.triton,
        command=command,
        rows=tuple(found),
        notes=tuple(notes),
    )


def _check(case: Case, rows: Sequence[int], widths: Sequence[int]) -> None:
    height, columns = case.shape
    if height == 0 or columns == 0:
        raise UsageError(f"{case.id} has the shape {height}x{columns}; a trace needs a row with columns")
    for row in rows:
        if row >= height:
            raise UsageError(f"there is no row {row} in {case.id}, whose rows are 0 to {height - 1}")
    for width in widths:
        if width > columns:
            raise UsageError(f"{case.id} has {columns} columns and can't be cut to {width}; name at most {columns}")
    if max(widths, default=columns) > MOST_COLUMNS:
        raise UsageError(
            f"a row of {max(widths, default=columns)} columns is too wide to trace; cut it with --width {MOST_COLUMNS}"
        )


def _asked(session: Session, request: RunTrace) -> Traced:
    try:
        *_, reply = session.ask(session.take(request.variant), request, request.variant)
    except WorkerDiedError as died:
        raise SoftcheckError(f"{request.variant} on {request.case.id}: {died}") from None
    assert isinstance(reply, Traced)
    return reply
