"""A finding and a witness of the report model, drawn from what a judge or a probe found."""

import msgspec

from oracles.formats import Bits, Format, decode
from softcheck.contract import Violation
from softcheck.judge.measurement import Extreme
from softcheck.operations.operation import Operation
from softcheck.report.content import groups_of
from softcheck.report.model import Finding, VariantResult, Witness
from softcheck.report.reproduce import finding_id
from softcheck.variants.declaration import Backend, Declaration


def finding_of(
    violation: Violation,
    case_id: str,
    reproduce: str,
    *,
    variant: str,
    dtype: str,
    declaration: Declaration,
    backend: Backend,
    save: str | None = None,
) -> Finding:
    """The finding that a violation on a case, or in a probe's trial, is.

    ``reproduce`` is the command that shows it, ``save`` the command that keeps its row, if there is one.
    """
    return Finding(
        id=finding_id(variant, dtype, violation.kind, case_id),
        kind=violation.kind,
        case=case_id,
        message=violation.message,
        reproduce=reproduce,
        count=violation.count,
        row=violation.row,
        column=violation.column,
        input_bits=violation.input_bits,
        output_bits=violation.output_bits,
        known=declaration.explanation(violation, case_id, dtype, backend),
        save=save,
        around=violation.around,
        share=violation.share,
        facts=violation.facts,
    )


def without_repetition(result: VariantResult) -> VariantResult:
    """The row with the elements around a witness in the first finding alone of each group, and of each kind and probe."""
    groups = [group for known in (True, False) for group in groups_of(result, known=known)]
    kept = {group.first.id for group in groups}
    kept |= {f.id for f in {(f.kind, f.known, f.probe): f for f in reversed(result.findings)}.values()}
    findings = (f if f.id in kept else msgspec.structs.replace(f, around=None) for f in result.findings)
    return msgspec.structs.replace(result, findings=tuple(findings))


def witness_of(
    worst: Extreme,
    case_id: str,
    row: Bits,
    fmt: Format,
    declaration: Declaration,
    *,
    number: int | None = None,
    operation: Operation | None = None,
) -> Witness:
    """The element that shows a maximum, with the exact value at it.

    ``row`` holds the bit patterns of its row, [columns], and ``number`` the row's number if it is not ``worst.row``.
    ``operation`` is the declaration's with what the case names of this row, if it names anything.
    """
    return Witness(
        case=case_id,
        row=worst.row if number is None else number,
        column=worst.column,
        input_bits=worst.input_bits,
        output_bits=worst.output_bits,
        exact=(operation or declaration.computed).decimal(
            decode(row, fmt), worst.column, fmt, declaration.fully_masked
        ),
    )
