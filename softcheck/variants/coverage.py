"""Lines and conditions of a variant's own code, the lines that calls run, and words for what no call has run or what came out alike.

From Python 3.12 on the lines of all calls in a process are counted. Python reports each line once, and each function's
start once (``sys.monitoring``, PEP 669), so that counting costs next to nothing.
"""

import ast
import atexit
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from softcheck.variants.source import Source

_LONGEST = 60
_ELSE = "else of "
_monitoring: Any = getattr(sys, "monitoring", None)

Line = tuple[str, int]
"""A file and the number of a line in it."""

Arc = tuple[str, int, int]
"""A file, a line of a condition in it, and the line that ran next in the same function; 0 where the function ended."""

CodeFunction = ast.FunctionDef | ast.AsyncFunctionDef


class CodeLine(msgspec.Struct, frozen=True):
    """A line at which a statement of a function begins."""

    file: str
    line: int
    guard: str
    """The condition under which it runs, such as "if n_rows == 1", or the function that holds it."""


class Branch(msgspec.Struct, frozen=True):
    """The condition of an ``if`` or ``while`` that stands in lines of its own. Ranges are a first and a last line."""

    file: str
    lines: tuple[int, int]
    """The lines of the condition."""
    body: tuple[int, int]
    """The lines that run where it is true."""
    otherwise: tuple[int, int] | None
    """The lines of its ``else``."""
    words: str
    """The condition, such as "if n_rows == 1"."""

    def was_met(self, run: Collection[Line]) -> bool:
        """True if the condition itself was run."""
        return self._has_run(self.lines, run)

    def was_true(self, run: Collection[Line]) -> bool:
        """True if a line was run that only a true condition leads to."""
        return self._has_run(self.body, run)

    def was_false(self, run: Collection[Line], arcs: Collection[Arc]) -> bool:
        """True if its ``else`` was run, or a call went on elsewhere after the condition."""
        return (self.otherwise is not None and self._has_run(self.otherwise, run)) or any(
            file == self.file
            and _is_in(start, self.lines)
            and not _is_in(end, self.lines)
            and not _is_in(end, self.body)
            for file, start, end in arcs
        )

    def _has_run(self, lines: tuple[int, int], run: Collection[Line]) -> bool:
        return any((self.file, line) in run for line in range(lines[0], lines[1] + 1))


def code_lines(source: Source, name: str) -> tuple[CodeLine, ...]:
    """Lines of the function ``name`` and of all functions in the source that it mentions, itself or through others."""
    found: list[CodeLine] = []
    for each, (file, function) in reached(source, [name]).items():
        found += _in_body(function.body, f"def {each}", file)
    return tuple(sorted(set(found), key=lambda line: (line.file, line.line)))


def code_branches(source: Source, name: str) -> tuple[Branch, ...]:
    """Conditions in the code of ``code_lines`` but for those of which lines can't tell how they came out, as in one line with what follows."""
    found = {
        Branch(file, _range(node.test), _range(*node.body), _range(*node.orelse) if node.orelse else None, _shown(node))
        for file, function in reached(source, [name]).values()
        for node in ast.walk(function)
        if isinstance(node, ast.If | ast.While)
        and not isinstance(node.test, ast.Constant)
        and node.body[0].lineno > _range(node.test)[1]
    }
    return tuple(sorted(found, key=lambda branch: (branch.file, branch.lines)))


def one_sided(branches: Sequence[Branch], run: Collection[Line], arcs: Collection[Arc]) -> list[str]:
    """Words for conditions without ``else`` that were true whenever they were met; ``never_run`` tells of the others."""
    return [
        f"`{branch.words}` at line {branch.lines[0]} of {Path(branch.file).name} was never false"
        for branch in branches
        if branch.otherwise is None and branch.was_true(run) and not branch.was_false(run, arcs)
    ]


def _range(*nodes: ast.expr | ast.stmt) -> tuple[int, int]:
    return nodes[0].lineno, nodes[-1].end_lineno or nodes[-1].lineno


def _is_in(line: int, lines: tuple[int, int]) -> bool:
    return lines[0] <= line <= lines[1]


def reached(source: Source, names: Sequence[str]) -> dict[str, tuple[str, CodeFunction]]:
    """The functions of these names in the source and all that they mention, themselves or through others, each with its file."""
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


def never_run(lines: Sequence[CodeLine], run: Collection[Line], branches: Sequence[Branch] = ()) -> list[str]:
    """Words for runs of lines that were never run: "lines 42-57 of my_kernels.py: `if n_rows == 1` was never true"."""
    words = []

    def kind(line: CodeLine) -> tuple[bool, str, str]:
        return (line.file, line.line) not in run, line.file, line.guard

    for (is_missed, file, guard), group in groupby(lines, kind):
        if is_missed:
            numbers = [line.line for line in group]
            several = f"lines {numbers[0]}-{numbers[-1]}" if numbers[0] < numbers[-1] else f"line {numbers[0]}"
            condition = guard.removeprefix(_ELSE)
            is_met = any(
                branch.words == condition
                and branch.file == file
                and _is_in(numbers[0], (branch.otherwise or (0, -1)) if guard.startswith(_ELSE) else branch.body)
                and branch.was_met(run)
                for branch in branches
            )
            side = "false" if guard.startswith(_ELSE) else "true"
            told = f"`{condition}` was never {side}" if is_met else f"`{guard}`"
            words.append(f"{several} of {Path(file).name}: {told}")
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
            otherwise = f"{_ELSE}{inner}" if isinstance(statement, ast.If) else guard
            yield from _in_body(getattr(statement, "orelse", []), otherwise, file)
            yield from _in_body(getattr(statement, "finalbody", []), guard, file)


def _shown(statement: ast.If | ast.For | ast.While) -> str:
    head = ast.unparse(statement).partition("\n")[0].rstrip(":")
    return head if len(head) <= _LONGEST else f"{head[: _LONGEST - 3]}..."


class _Counter:
    """The variant that runs now, and the lines that each has run."""

    def __init__(self) -> None:
        self.variant = ""
        self.files: frozenset[str] = frozenset()
        self.lines: dict[str, set[Line]] = {}
        self.told: dict[str, set[Line]] = {}
        self.is_on = False

    def turn_on(self) -> None:
        """Asks Python for the events. Does nothing if another tool, such as coverage.py, takes the place."""
        self.is_on = _monitoring.get_tool(_monitoring.COVERAGE_ID) is None
        if self.is_on:
            events = _monitoring.events
            _monitoring.use_tool_id(_monitoring.COVERAGE_ID, "softcheck")
            _monitoring.register_callback(_monitoring.COVERAGE_ID, events.PY_START, self._on_start)
            _monitoring.register_callback(_monitoring.COVERAGE_ID, events.LINE, self._on_line)
            _monitoring.set_events(_monitoring.COVERAGE_ID, events.PY_START)
            # Python's own last calls find this module's names gone.
            atexit.register(_monitoring.set_events, _monitoring.COVERAGE_ID, 0)

    def _on_start(self, code: CodeType, _offset: int) -> Any:
        if code.co_filename in self.files:
            _monitoring.set_local_events(_monitoring.COVERAGE_ID, code, _monitoring.events.LINE)
        return _monitoring.DISABLE

    def _on_line(self, code: CodeType, line: int) -> Any:
        if code.co_filename in self.files:
            self.lines[self.variant].add((code.co_filename, line))
        return _monitoring.DISABLE


_counter = _Counter()


def turn_on() -> None:
    """Begins to count, before any snapshot of what a process has set. Does nothing before Python 3.12."""
    if _monitoring is not None and not _counter.is_on:
        _counter.turn_on()


def attribute_to(variant: str, files: Collection[str]) -> None:
    """Counts lines of these files as run by this variant from now on. Does nothing before Python 3.12."""
    if _monitoring is None or _counter.variant == variant:
        return
    turn_on()
    _counter.variant, _counter.files = variant, frozenset(files)
    _counter.lines.setdefault(variant, set())
    if _counter.is_on:
        # Another variant of the same file may have run lines that are told no more.
        _monitoring.restart_events()


def is_counting() -> bool:
    """True if lines of all calls in this process are counted."""
    return _counter.is_on


def newly_run(variant: str) -> frozenset[Line]:
    """Lines that the variant has run since this function was asked last."""
    told = _counter.told.setdefault(variant, set())
    new = frozenset(_counter.lines.get(variant, set()) - told)
    told |= new
    return new
