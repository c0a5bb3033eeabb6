"""Lines of a variant's own code that calls can run, and words for those that no call has run."""

import ast
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from softcheck.variants.source import Source

_LONGEST = 60
CodeFunction = ast.FunctionDef | ast.AsyncFunctionDef


class CodeLine(msgspec.Struct, frozen=True):
    """A line at which a statement of a function begins."""

    file: str
    line: int
    guard: str
    """The condition under which it runs, such as "if n_rows == 1", or the function that holds it."""


def code_lines(source: Source, name: str) -> tuple[CodeLine, ...]:
    """Lines of the function ``name`` and of all functions in the source that it mentions, itself or through others."""
    found: list[CodeLine] = []
    for each, (file, function) in reached(source, [name]).items():
        found += _in_body(function.body, f"def {each}", file)
    return tuple(sorted(set(found), key=lambda line: (line.file, line.line)))


def reached(source: Source, names: Sequence[str]) -> dict[str, tuple[str, CodeFunction]]:
    """The functions of these names in the source and all functions there that they mention, themselves or through others.

    Each name comes with the file and the definition.
    """
    functions: dict[str, tuple[str, CodeFunction]] = {}
    for path in reversed(source.files):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, CodeFunction):
                functions[node.name] = (str(path), node)
    waiting, found = list(names), dict[str, tuple[str, CodeFunction]]()
    while waiting:
        current = waiting.pop()
        if current in functions and current not in found:
            found[current] = functions[current]
            waiting += mentioned(functions[current][1])
    return found


def never_run(lines: Sequence[CodeLine], run: Collection[tuple[str, int]]) -> list[str]:
    """Words for runs of lines that were never run: "lines 41-57 of my_kernels.py: `if n_rows == 1`"."""
    words = []

    def kind(line: CodeLine) -> tuple[bool, str, str]:
        return (line.file, line.line) not in run, line.file, line.guard

    for (is_missed, file, guard), group in groupby(lines, kind):
        if is_missed:
            numbers = [line.line for line in group]
            several = f"lines {numbers[0]}-{numbers[-1]}" if numbers[0] < numbers[-1] else f"line {numbers[0]}"
            words.append(f"{several} of {Path(file).name}: `{guard}`")
    return words


def mentioned(function: ast.AST) -> list[str]:
    """Names that a piece of code holds, attributes among them."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name | ast.Attribute))
    return [node.id if isinstance(node, ast.Name) else node.attr for node in names]


def _in_body(body: Sequence[ast.stmt], guard: str, file: str) -> Iterator[CodeLine]:
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # A docstring, which runs at no time.
        if not isinstance(statement, ast.Global | ast.Nonlocal | ast.Pass):
            yield CodeLine(file, statement.lineno, guard)
        if isinstance(statement, CodeFunction):
            yield from _in_body(statement.body, f"def {statement.name}", file)
        elif isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
            inner = _shown(statement) if isinstance(statement, ast.If | ast.For | ast.While) else guard
            yield from _in_body(statement.body, inner, file)
            for handler in statement.handlers if isinstance(statement, ast.Try) else ():
                yield from _in_body(handler.body, "except", file)
            otherwise = f"else of {inner}" if isinstance(statement, ast.If) else guard
            yield from _in_body(getattr(statement, "orelse", []), otherwise, file)
            yield from _in_body(getattr(statement, "finalbody", []), guard, file)


def _shown(statement: ast.If | ast.For | ast.While) -> str:
    head = ast.unparse(statement).partition("\n")[0].rstrip(":")
    return head if len(head) <= _LONGEST else f"{head[: _LONGEST - 3]}..."
