"""A few lines of torch that show one finding without softcheck's judge."""

import shlex
from typing import Any

from oracles.formats import FORMATS
from softcheck.cases.case import GENERATED
from softcheck.cases.families import operation_of
from softcheck.contract import VALUE_KINDS, FindingKind
from softcheck.operations.registry import operation
from softcheck.report.model import Finding, Report, VariantResult
from softcheck.report.templates import drawn

_SHOWN_BY_ONE_ROW = VALUE_KINDS | {FindingKind.UNWRITTEN_OUTPUT}

_LOGARITHMIC = "log_softmax"
"""The operation whose outputs are logarithms of what sums to 1."""

_MOST_ELEMENTS = 256
"""Elements of an input that a reader still takes in as bits."""


def shrunk_input(finding: Finding) -> str | None:
    """The bits of the smallest input that is known to break the promise, as ``corpus add`` takes them.

    Returns None if none is known, or if it is too large to be read.
    """
    for command in (finding.save, finding.reproduce):
        words = _words(command or "")
        if words[:3] == ["softcheck", "corpus", "add"] and "--bits" in words[:-1]:
            bits = words[words.index("--bits") + 1]
            return bits if len(bits.replace(";", " ").split()) <= _MOST_ELEMENTS else None
    return None


def snippet_of(finding: Finding, result: VariantResult, report: Report) -> str | None:
    """Returns Python lines that call the variant and print what it gives beside what is expected.

    The input is the shrunk one, else the witness's row where it is short, else the case's rows up to the witness where
    softcheck's own corpora hold it. Returns None where none of these shows the finding: for promises about memory or
    state, and for wide rows of probes. The lines find the variant's function as softcheck does.
    """
    shrunk, around = shrunk_input(finding), finding.around
    case = next((case for case in report.cases if case.id == finding.case), None)
    is_named = case is not None and (
        operation_of(case.family) is not None or (case.definition is not None and case.definition.operands is not None)
    )
    values: dict[str, Any] = {"finding": finding, "result": result, "report": report, "of_case": "", "bits": None}
    shows = finding.kind in _SHOWN_BY_ONE_ROW and result.dtype in FORMATS
    if shows and shrunk is not None:
        values |= {"bits": shrunk, "printed": "print(y)"}
    elif shows and around is not None and around.row is not None and not is_named:
        values |= {"bits": around.row, "printed": _printed(finding, 0, result)}
    elif (
        case is None
        or case.definition is not None
        or case.family == GENERATED
        or finding.row is None
        or finding.kind not in _SHOWN_BY_ONE_ROW | {FindingKind.WRONG_LAYOUT}
    ):
        return None
    else:
        values["printed"] = _printed(finding, finding.row, result)
        values["of_case"] = f".on(case, {finding.row + 1})" if is_named else ""
    width = FORMATS[result.dtype].width if values["bits"] else None
    return drawn("snippet.py.txt", {**values, "width": width})


def _printed(finding: Finding, row: int, result: VariantResult) -> str:
    if finding.kind is FindingKind.SUM_VIOLATION:
        powers = ".exp()" if result.operation == _LOGARITHMIC else ""
        return f'print("sum", y[{row}].double(){powers}.sum().item(), "expected", 1)'
    if finding.column is None:
        return f"print(y[{row}])"
    around, loaded = finding.around, operation(result.operation)
    output = f"y.flatten()[{row}]" if loaded.outputs[0].dims == ("rows",) else f"y[{row}, {finding.column}]"
    exact = around.exact.split() if around is not None else []
    at = finding.column - around.first_column if around is not None else 0
    expected = f', "expected", "{exact[at]}"' if 0 <= at < len(exact) else ""
    return f'print("got", {output}.item(){expected})'


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []
