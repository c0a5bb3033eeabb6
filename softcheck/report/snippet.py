"""A few lines of torch that show one finding without softcheck's judge."""

import shlex

from oracles.formats import FORMATS
from softcheck.cases.case import GENERATED
from softcheck.cases.families import operation_of
from softcheck.contract import VALUE_KINDS, FindingKind
from softcheck.operations.registry import operation
from softcheck.report.model import Finding, Report, VariantResult

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
    shows = finding.kind in _SHOWN_BY_ONE_ROW and result.dtype in FORMATS
    if shows and shrunk is not None:
        return _called(_literal(shrunk, report, result), "print(y)", finding, result, report)
    if shows and around is not None and around.row is not None and not is_named:
        return _called(_literal(around.row, report, result), _printed(finding, 0, result), finding, result, report)
    if case is None or case.definition is not None or case.family == GENERATED or finding.row is None:
        return None
    if finding.kind not in _SHOWN_BY_ONE_ROW | {FindingKind.WRONG_LAYOUT}:
        return None
    device = "cuda" if report.environment.backend == "cuda" else "cpu"
    made = [
        "from softcheck.calling.call import place",
        "from softcheck.cases import corpus",
        "names = corpus.builtin_names()",
        f"case = next(c for c in corpus.load(names) if c.id == {case.id!r})",
        f"x = place(case.bits({finding.row + 1}), case.format, case.layout, torch.device({device!r})).view",
    ]
    of_case = f".on(case, {finding.row + 1})" if is_named else ""
    return _called(made, _printed(finding, finding.row, result), finding, result, report, of_case)


def _literal(bits: str, report: Report, result: VariantResult) -> list[str]:
    rows = ", ".join(f"[{', '.join(f'0x{word}' for word in row.split())}]" for row in bits.split(";"))
    moved = ".cuda()" if report.environment.backend == "cuda" else ""
    width = FORMATS[result.dtype].width
    return [f"x = torch.tensor([{rows}], dtype=torch.uint{width}).view(torch.{result.dtype}){moved}"]


def _called(
    made: list[str], printed: str, finding: Finding, result: VariantResult, report: Report, of_case: str = ""
) -> str:
    lines = ["import os, torch"]
    if report.environment.backend == "interpreter":
        lines.append('os.environ["TRITON_INTERPRET"] = "1"')
    if finding.kind is FindingKind.UNWRITTEN_OUTPUT:
        lines.append('torch.set_deterministic_debug_mode("warn")  # new memory is filled with NaN')
    lines += [
        "from softcheck.variants.registry import load",
        *made,
        f"y = load({result.name!r}){of_case}.function(x)",
        printed,
    ]
    return "\n".join(lines) + "\n"


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
