"""The text of a module that defines an object anew: its source, and that of all it refers to.

A worker can't import what a notebook's cell or the body of a function defines. Python keeps the lines of both.
"""

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from softcheck.errors import UsageError
from softcheck.variants.source import defined_by


def module_text(found: Any, name: str) -> str:
    """The text of a module that defines an object under a name.

    Functions, classes and Triton kernels are written as their source, modules and what they hold as imports, plain values
    as themselves, and other values as the last statement of a cell that assigns them. Raises UsageError for a value that no
    statement assigns.
    """
    writer = _Writer()
    writer.define(name, found, {})
    path = [entry for entry in (sys.path[0], ".") if entry]
    return "\n".join(["import sys", f"sys.path += {path}", "", *writer.parts.values(), ""])


def defines(name: str) -> bool:
    """True if a statement at the top of the main file, or of a cell, defines a name."""
    return _statement(name)[0] is not None


class _Writer:
    """Definitions by name, each behind those that it refers to."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self._objects: dict[str, Any] = {}

    def define(self, name: str, found: Any, known: dict[str, Any]) -> None:
        """Adds the definition of an object under a name; ``known`` are the names around the place that refers to it."""
        if name in self._objects:
            if self._objects[name] is not found:
                raise UsageError(f"two objects are called {name}, which one file can't hold; give one another name")
            return
        self._objects[name] = found
        text = _imported(name, found) or _constant(name, found)
        if text is None:
            text = self._source(name, found, known)
        self.parts[name] = text

    def _source(self, name: str, found: Any, known: dict[str, Any]) -> str:
        function = _function_behind(found)
        node, lines = (None, []) if function is None else _node_of(function.__code__, found)
        if node is None or function is None:
            known = vars(sys.modules["__main__"])
            node, lines = _statement(name) if known.get(name) is found else (None, [])
        else:
            known = {**function.__globals__, **_closed_over(found, function)}
        if node is None:
            raise UsageError(
                f"{name} is of type {type(found).__name__} and no one line that can be read defines it; a worker process needs its source"
            )
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in known and known[part.id] is not found:
                self.define(part.id, known[part.id], known)
        if isinstance(node, ast.Lambda):
            return f"{name} = {ast.unparse(node)}"
        text = textwrap.dedent("".join(lines[_first_line(node) - 1 : node.end_lineno]))
        own = getattr(node, "name", name)
        return text if own == name else f"{text}\n{name} = {own}"


def _imported(name: str, found: Any) -> str | None:
    """The import of a module or of what another module than the main one holds; None for anything else."""
    if isinstance(found, ModuleType):
        return f"import {found.__name__} as {name}" if found.__name__ != "__main__" else None
    module = sys.modules.get(str(getattr(found, "__module__", "")))
    held = getattr(found, "__qualname__", getattr(found, "__name__", ""))
    if module is None or module.__name__ == "__main__" or inspect.getattr_static(module, held, None) is not found:
        return None
    return f"from {module.__name__} import {held} as {name}"


def _constant(name: str, found: Any) -> str | None:
    """The assignment of a plain value, a dtype or a compile-time constant; None for anything else."""
    if type(found).__name__ == "constexpr":
        return f"import triton.language\n{name} = triton.language.constexpr({found.value!r})"
    if type(found).__name__ == "dtype" and repr(found).startswith("torch."):
        return f"import torch\n{name} = {found!r}"
    if isinstance(found, float):
        return f"{name} = float({str(found)!r})"
    try:
        return f"{name} = {found!r}" if ast.literal_eval(repr(found)) == found else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _function_behind(found: Any) -> FunctionType | None:
    """The Python function of a function, of a Triton kernel, however it is tuned, or of a class's first method."""
    if inspect.isclass(found):
        methods = (getattr(value, "__func__", value) for value in vars(found).values())
        return next((each for each in methods if isinstance(each, FunctionType)), None)
    while not isinstance(found, FunctionType) and hasattr(found, "fn"):
        found = found.fn
    return inspect.unwrap(found) if isinstance(found, FunctionType) else None


def _closed_over(found: Any, function: FunctionType) -> dict[str, Any]:
    """The values of a function's free variables, or of those of a class's methods."""
    held = (
        [getattr(value, "__func__", value) for value in vars(found).values()] if inspect.isclass(found) else [function]
    )
    values: dict[str, Any] = {}
    for each in held:
        values |= inspect.getclosurevars(each).nonlocals if isinstance(each, FunctionType) else {}
    return {name: value for name, value in values.items() if name != "__class__"}


def _node_of(code: CodeType, found: Any) -> tuple[Any, list[str]]:
    """The one definition at the first line of a code object, and the lines of its file; None if there is no such one."""
    lines = linecache.getlines(code.co_filename)
    kind = ast.ClassDef if inspect.isclass(found) else ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    fitting = [
        node
        for node in ast.walk(_parsed(lines))
        if isinstance(node, kind)
        and getattr(node, "name", "") in ("", getattr(found, "__name__", code.co_name), code.co_name)
        and _first_line(node)
        <= code.co_firstlineno
        <= (int(node.end_lineno or 0) if kind is ast.ClassDef else _first_line(node))
    ]
    return (fitting[0], lines) if len(fitting) == 1 else (None, [])


def _first_line(node: Any) -> int:
    return min(int(each.lineno) for each in (node, *getattr(node, "decorator_list", ())))


def _statement(name: str) -> tuple[Any, list[str]]:
    """The last statement at the top of a cell or of the main file that defines a name, and the lines of its file."""
    found: tuple[Any, list[str]] = (None, [])
    for lines in _main_files():
        for node in _parsed(lines).body:
            if name in defined_by(node):
                found = node, lines
    return found


def _main_files() -> Iterator[list[str]]:
    """The lines of the main file, or of every cell in the order in which they ran."""
    main = getattr(sys.modules["__main__"], "__file__", None)
    cells = [file for file in linecache.cache if file.startswith("<") or "ipykernel" in file]
    for file in [main] if main else cells:
        yield linecache.getlines(file)


def _parsed(lines: list[str]) -> ast.Module:
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        # The lines of a cell that Python refused are kept too.
        return ast.Module(body=[], type_ignores=[])
