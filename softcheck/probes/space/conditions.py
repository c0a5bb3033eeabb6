"""Conditions of a function's own code: which came out true together, and ways in which those would that never did.

A plan meets every two circumstances, and some threes. A branch on three or four of them stands in the source for all to
read: ``if columns > 1024 and not x.is_contiguous() and scale != 1``. Each condition is asked for in the frame of every call.
What makes it come out otherwise is learnt from the calls of a plan, and the values of several are then put together. Conditions in
kernels are not asked for: those on constants of a launch follow from the host's, and others are data.
"""

import ast
import itertools
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from softcheck.probes.space.way import VALUES, Way, WayAxis
from softcheck.variants.source import ASKING

Literal = tuple[int, bool]
"""A condition by its number, and how it comes out."""
Goal = frozenset[Literal]
"""Conditions that are to come out so in one call."""

_MOST_ALTERNATIVES = 8
"""Ways in which one expression may become true."""
_MOST_TOGETHER = 4
"""Conditions that are sought together, beside those of one branch."""
_TRIES = 2
"""Ways in which the same conditions are sought together."""
_MOST_OTHERS = 20
"""Conditions that come out otherwise than usual of which any are sought together."""
_BUILT_IN = "len isinstance bool any all min max abs int float getattr hasattr"
_METHODS = "abs float double int bool t get keys values items startswith endswith lower bit_length is_tensor current_thread main_thread get_ident"
_ASKING = ASKING.union(_METHODS.split())
"""Methods and functions of modules that change nothing of what they ask."""
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Conditions:
    """The conditions in some files, and how they came out in calls."""

    def __init__(self, files: Collection[Path]) -> None:
        self._codes: list[CodeType] = []
        self._numbers: dict[tuple[str, str], int] = {}
        """By file and text, the number of a condition: equal ones in one file are taken for one."""
        self._asked: dict[tuple[str, int], set[int]] = {}
        """Conditions that are asked for before a line is run."""
        self._of_function: dict[tuple[str, int], set[int]] = {}
        """By line, all conditions of the function around it: one that no call has come to is asked for ahead of its time."""
        self._goals: dict[Goal, None] = {}
        for path in files:
            self._file, self._own = str(path), set[int]()
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.FunctionDef) and not any("jit" in ast.unparse(d) for d in node.decorator_list):
                    self._own = set()
                    self._read(node.body, frozenset())
        self._files = {file for file, _ in self._asked}
        self._calls: list[tuple[Way, Goal, Goal]] = []
        """Each call's way, how the conditions came out that it came to, and how all did that could be asked for."""

    def _read(self, body: Sequence[ast.stmt], path: Goal) -> None:
        """Reads statements that are run under a path's conditions."""
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                continue
            if isinstance(statement, ast.If | ast.While):
                then, otherwise = (self._alternatives(statement.test, wanted=wanted) for wanted in (True, False))
                self._ask(statement, statement.test, then)
                self._want(path, then)
                self._read(statement.body, _under(path, then))
                if statement.orelse:
                    self._want(path, otherwise)
                    self._read(statement.orelse, _under(path, otherwise))
                if isinstance(statement, ast.If) and isinstance(statement.body[-1], _ENDS):
                    path = _under(path, otherwise)
                continue
            inner = [each for name in ("body", "orelse", "finalbody") for each in getattr(statement, name, [])]
            if inner:
                self._read(inner, path)
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.BoolOp | ast.IfExp):
                    found = self._alternatives(node.test if isinstance(node, ast.IfExp) else node, wanted=True)
                    self._ask(statement, node, found)
                    self._want(path, found)

    def _want(self, path: Goal, alternatives: Sequence[Goal]) -> None:
        self._goals |= {path | each: None for each in alternatives if len(path | each) > 1}

    def _ask(self, statement: ast.stmt, node: ast.expr, alternatives: Sequence[Goal]) -> None:
        asked = {number for each in alternatives for number, _ in each}
        self._own |= asked
        for line in {statement.lineno, node.lineno}:
            self._asked.setdefault((self._file, line), set()).update(asked)
            self._of_function[self._file, line] = self._own

    def _alternatives(self, node: ast.expr, *, wanted: bool) -> list[Goal]:
        """Returns the sets of conditions of which each makes an expression come out as wanted; none of what can't be asked."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._alternatives(node.operand, wanted=not wanted)
        if isinstance(node, ast.BoolOp):
            parts = [self._alternatives(each, wanted=wanted) for each in node.values]
            if isinstance(node.op, ast.And) is wanted:
                combined = itertools.islice(itertools.product(*filter(None, parts)), _MOST_ALTERNATIVES)
                return [frozenset().union(*each) for each in combined if each]
            return [each for part in parts for each in part][:_MOST_ALTERNATIVES]
        if not _is_question(node):
            return []
        key = self._file, ast.unparse(node)
        if key not in self._numbers:
            self._numbers[key] = len(self._codes)
            self._codes.append(compile(ast.Expression(node), "<condition>", "eval"))
        return [frozenset({(self._numbers[key], wanted)})]

    @contextmanager
    def watching(self, way: Way) -> Iterator[None]:
        """Asks for the conditions in the calls inside the block, which are of one way."""
        if not self._codes:
            yield
            return
        found: set[Literal] = set()
        ahead: dict[int, bool] = {}

        def on_line(frame: FrameType, event: str, _: Any) -> Any:
            place = frame.f_code.co_filename, frame.f_lineno
            own = self._asked.get(place, ()) if event == "line" else ()
            for number in {*own, *(self._of_function[place] - ahead.keys() if own else ())}:
                try:
                    ahead[number] = bool(eval(self._codes[number], frame.f_globals, frame.f_locals))  # noqa: S307 - the variant's own
                except Exception:  # noqa: BLE001, S112 - where one condition fails, another is not to be asked
                    continue
                found.update({(number, ahead[number])} if number in own else ())
            return on_line

        def on_call(frame: FrameType, _event: str, _: Any) -> Any:
            return on_line if frame.f_code.co_filename in self._files else None

        before = sys.gettrace()
        sys.settrace(on_call)
        threading.settrace(on_call)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)
            self._calls.append((way, frozenset(found), frozenset({*found, *ahead.items()})))

    def ways(self, axes: Sequence[WayAxis], rng: np.random.Generator) -> Iterator[Way]:
        """Yields ways in which conditions would come out together that never did, those of one branch first.

        Each is called before the next is asked for.
        """
        usual = next((known for way, _, known in self._calls if not way.meeting.values), frozenset())
        causes, calls = self._causes(axes), len(self._calls)
        others = sorted(literal for literal in causes if literal not in usual)
        others = [others[place] for place in rng.permutation(len(others))[:_MOST_OTHERS].tolist()]
        together = [
            frozenset(group)
            for count in range(2, _MOST_TOGETHER + 1)
            for group in itertools.combinations(others, count)
            if len({number for number, _ in group}) == count
        ]
        rng.shuffle(together)
        for goal in (*self._goals, *sorted(together, key=len)):
            for _ in range(_TRIES):
                if calls < len(self._calls):
                    causes, calls = self._causes(axes), len(self._calls)
                unusual = goal - usual
                if not unusual <= causes.keys() or any(goal <= found for _, found, _ in self._calls):
                    break
                values: dict[str, str] = {}
                for literal in sorted(unusual, key=lambda literal: len(causes[literal])):
                    able = [each for each in causes[literal] if values.get(each[0], each[1]) == each[1]]
                    if able:
                        values.update([able[int(rng.integers(len(able)))]])
                yield Way.of(axes, values)

    def _causes(self, axes: Sequence[WayAxis]) -> dict[Literal, list[tuple[str, str]]]:
        """Returns for each condition that came out in some calls alone the values of axes with which it did most often."""
        found: dict[Literal, list[tuple[str, str]]] = {}
        values = [(axis.name, value) for axis in axes if axis.name != VALUES for value in axis.values[1:]]
        for literal in {literal for _, _, known in self._calls for literal in known}:
            either = {literal, (literal[0], not literal[1])}
            asked = [(way, literal in known) for way, _, known in self._calls if either & known]
            if all(is_so for _, is_so in asked):
                continue
            held = {each: [is_so for way, is_so in asked if way.get(each[0]) == each[1]] for each in values}
            # Of a value in few calls others may have been the cause.
            shares = {each: sum(came) / (len(came) + 1) for each, came in held.items()}
            most = max(shares.values(), default=0.0)
            found[literal] = [each for each, share in shares.items() if share == most > 0]
        return {literal: able for literal, able in found.items() if able}


def _under(path: Goal, alternatives: Sequence[Goal]) -> Goal:
    """Returns the conditions under which a body is run: those of a test with one alternative are known."""
    return path | alternatives[0] if len(alternatives) == 1 else path


def _is_question(node: ast.expr) -> bool:
    """True if an expression changes nothing: what it calls is known to ask alone."""
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
        if isinstance(each, ast.Call):
            name = each.func.attr if isinstance(each.func, ast.Attribute) else ""
            if name not in _ASKING and not (isinstance(each.func, ast.Name) and each.func.id in _BUILT_IN.split()):
                return False
    return not isinstance(node, ast.Constant)
