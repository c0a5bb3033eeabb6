"""Numbers and conditions in a variant's source, read from the files without running them.

A kernel changes its ways at numbers that stand in its source: the width from which a wrapper takes another path, the
columns of a tile, a difference of logits beyond which a result is set to 0. Imports neither torch nor Triton.
"""

import ast
import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from operator import pos
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from softcheck.calling.ownership import is_of_library
from softcheck.variants.recognise import is_triton_kernel

_MOST_FILES = 16
_DECLARING = Path(__file__).resolve().parent / "builtin" / "declarations.py"
"""Modules that the built-in variants import and that are no code of theirs."""

_LEAST_LARGE = 64
"""Quotients of a number of bytes are no sizes below this."""

_NO_SIZES = frozenset({"axis", "dim", "num_warps", "num_stages", "num_ctas"})
"""Keywords whose values are neither sizes nor logits."""

_FOLDED = (ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.UnaryOp, ast.USub, ast.BinOp, ast.operator, ast.Load)
"""Nodes that constant expressions are made of."""


_FUNCTIONS: dict[str, Any] = {"min": min, "max": max, "int": pos, "float": pos, "tl": SimpleNamespace(constexpr=pos)}
"""Functions of constants that are computed."""
_COLLECTIONS = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "Counter", "count", "local"})

_LARGEST_POWER = 64
"""Largest exponent or shift that is computed."""

_ASKING = (
    "shape size numel ndim dim cdiv next_power_of_2 stride is_contiguous contiguous storage_offset dtype element_size itemsize "
    "is_floating_point data_ptr requires_grad is_grad_enabled is_inference_mode_enabled is_inference needs_input_grad grad_fn Parameter "
    "is_leaf is_autocast_enabled get_autocast_dtype get_autocast_gpu_dtype autocast are_deterministic_algorithms_enabled "
    "get_deterministic_debug_mode is_deterministic_algorithms_warn_only_enabled is_compiling is_dynamo_compiling get_default_dtype "
    "get_default_device device is_cuda get_device_capability get_device_properties current_device max min amax amin aminmax sum mean "
    "norm std var any all item tolist isinf isnan isfinite isneginf isposinf equal allclose count_nonzero unique argmax argmin"
)
ASKING = frozenset(_ASKING.split())
"""Attributes and functions that tell of a call and change nothing."""


@dataclass(frozen=True, slots=True)
class Source:
    """The numbers and conditions in a variant's own module and in the modules beside it that it imports."""

    files: tuple[Path, ...] = ()
    numbers: tuple[float, ...] = ()
    """Values of constant expressions, integers as ``int``, each once, in order of appearance."""
    branches: frozenset[tuple[str, int]] = frozenset()
    """Files and numbers of lines that hold both sides of a condition, as in ``a if c else b``."""
    condition_lines: frozenset[tuple[str, int]] = frozenset()
    """Files and numbers of lines of conditions of ``if`` and ``while``."""
    keeps_state: bool = False
    """True if calls may keep something: in collections of a module, in names that functions declare global, or in attributes that
    conditions ask for."""
    digest: int = 0
    """64 bits of a digest of the files' contents; 0 without files."""

    @property
    def sizes(self) -> list[int]:
        """Whole numbers from 3 to 2^31, ascending: smaller sizes are tried in any case."""
        return sorted({int(n) for n in self.numbers if n == int(n) and 3 <= n <= 2**31})

    def mentions(self, word: str) -> bool:
        """True if a word is in one of the files, in a name or in a comment too; upper and lower case are one."""
        return any(word in path.read_text(encoding="utf-8", errors="replace").lower() for path in self.files)

    def sizes_for(self, itemsize: int) -> list[int]:
        """Sizes, with the elements of ``itemsize`` bytes that a size holds if it counts bytes."""
        counted = {n // itemsize for n in self.sizes if n % itemsize == 0 and n // itemsize >= _LEAST_LARGE}
        return sorted({*self.sizes, *counted})


def is_compiled_by_torch(function: Callable[..., Any]) -> bool:
    """True if torch.compile made a function, or one that it calls by name or holds, or if one of these calls torch.compile."""
    for one in _reached(function):
        # These are the only marks that torch.compile leaves.
        if hasattr(one, "_torchdynamo_orig_callable") or type(one).__name__ == "OptimizedModule":
            return True
        code = getattr(one, "__code__", None)
        if code is not None and {"torch", "compile"} <= {*code.co_names}:
            return True
    return False


def launches_kernels(function: Callable[..., Any]) -> bool:
    """True if a function, or one that it calls by name or holds, is or launches a Triton kernel."""
    return any(is_triton_kernel(one) for one in _reached(function))


def _reached(function: Callable[..., Any]) -> Iterator[Any]:
    """Yields a function and what it calls by name or holds, methods of a class among them, but for what torch's code calls."""
    todo: list[Any] = [function]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if id(one) in seen or not callable(one):
            continue
        seen.add(id(one))
        yield one
        todo.append(getattr(one, "__wrapped__", None))
        if isinstance(one, type) and not is_of_library(one):
            todo += [getattr(each, "__func__", each) for each in vars(one).values()]
        inner = getattr(one, "forward", one)
        inner = getattr(inner, "__func__", inner)
        code = getattr(inner, "__code__", None)
        if code is None:
            continue
        todo += [inner] if inner is not one else []
        todo += [inner.__globals__.get(name) for name in code.co_names]
        with suppress(ValueError):
            todo += [cell.cell_contents for cell in inner.__closure__ or ()]


def source_of(function: Callable[..., Any]) -> Source:
    """Reads the source of a variant's function. Empty for a function of torch, or one whose file can't be read."""
    while isinstance(function, partial):
        function = function.func
    found = inspect.unwrap(function)
    # Of an operator that is registered with torch, the function that it was made of.
    found = getattr(found, "_init_fn", found)
    named = found if hasattr(found, "__module__") else type(found)
    module = sys.modules.get(getattr(named, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None or is_of_library(found):
        return Source()
    return _read_once(Path(file))


def read(file: Path) -> Source:
    """Reads one file and the files beside it that it imports. Files that are no Python are left out."""
    files: dict[Path, ast.Module] = {}
    waiting = [file.resolve()]
    while waiting and len(files) < _MOST_FILES:
        path = waiting.pop(0)
        if path in files:
            continue
        try:
            files[path] = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        waiting += _beside(files[path], path.parent)
    reader = _Reader()
    # What is imported comes first, so that its names are known.
    for path, module in reversed(files.items()):
        reader.file = str(path)
        reader.visit(module)
    contents = b"\0".join(path.read_bytes() for path in files)
    return Source(
        tuple(files),
        tuple(reader.numbers),
        frozenset(reader.branches),
        frozenset(reader.condition_lines),
        reader.keeps_state,
        int.from_bytes(hashlib.sha256(contents).digest()[:8]) if files else 0,
    )


_read_once = cache(read)


class _Reader(ast.NodeVisitor):
    """Collects numbers and conditions of modules. Names of constants, once assigned, stand for their values."""

    def __init__(self) -> None:
        self.file = ""
        """The file of the module that is visited."""
        self.numbers: dict[float, None] = {}
        self.branches: set[tuple[str, int]] = set()
        self.condition_lines: set[tuple[str, int]] = set()
        self.keeps_state = False
        self._names: dict[str, float] = {}

    def visit(self, node: ast.AST) -> None:
        self._note_conditions(node)
        if isinstance(node, ast.expr):
            value = None if isinstance(node, ast.Name) else self._folded(node)
            if value is not None:
                self.numbers[value] = None
                return
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = self._folded(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and value is not None:
                    self._names[target.id] = value
        for child in _worth_reading(node):
            self.visit(child)

    def _note_conditions(self, node: ast.AST) -> None:
        self.keeps_state |= isinstance(node, ast.Global) or (isinstance(node, ast.Module) and _has_collections(node))
        if not isinstance(node, ast.If | ast.While | ast.IfExp):
            return
        asked = (each.value for each in ast.walk(node.test) if isinstance(each, ast.Attribute))
        self.keeps_state |= any(isinstance(each, ast.Name) and each.id in {"self", "cls"} for each in asked)
        body = [] if isinstance(node, ast.IfExp) else node.body
        if isinstance(node, ast.IfExp) or any(each.lineno == node.lineno for each in body):
            self.branches.add((self.file, node.lineno))
        if isinstance(node, ast.If | ast.While):
            last = node.test.end_lineno or 0
            self.condition_lines |= {(self.file, line) for line in range(node.test.lineno, last + 1)}

    def _folded(self, node: ast.expr) -> float | None:
        """The value of a constant expression of numbers and of names of such, or None."""
        nodes = list(ast.walk(node))
        names = {each.id for each in nodes if isinstance(each, ast.Name)}
        is_of_numbers = all(type(each.value) in {int, float} for each in nodes if isinstance(each, ast.Constant))
        is_constant = all(isinstance(each, _FOLDED) for each in nodes) and names <= self._names.keys() | _FUNCTIONS
        if not (is_of_numbers and is_constant):
            return None
        for each in nodes:
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow | ast.LShift):
                power = self._folded(each.right)
                if power is None or abs(power) > _LARGEST_POWER:
                    return None
        code = compile(ast.Expression(node), "<constant>", "eval")
        try:
            value = eval(code, {"__builtins__": {}, **_FUNCTIONS}, self._names)  # noqa: S307 - numbers and these functions alone
            return value if type(value) in {int, float} and math.isfinite(value) else None
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            return None


def _worth_reading(node: ast.AST) -> Iterator[ast.AST]:
    """Children that may hold sizes or logits: no docstrings, annotations or dimensions."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"} or (isinstance(node, ast.Subscript) and name == "slice"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in _NO_SIZES:
                continue
            if isinstance(child, ast.AST):
                yield child


def _has_collections(module: ast.Module) -> bool:
    """True if names at the top of a module hold collections, in which calls may keep something."""
    values = [node.value for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    return any(
        isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp)
        or (isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in _COLLECTIONS)
        for value in values
    )


def _beside(module: ast.Module, folder: Path) -> list[Path]:
    """Files that a module imports from its folder and from below, and with relative imports from above."""
    found: dict[Path, None] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names, level = [alias.name for alias in node.names], 0
        elif isinstance(node, ast.ImportFrom):
            start = [node.module] if node.module else []
            names, level = [".".join([*start, alias.name]) for alias in node.names] + start, node.level
        else:
            continue
        base = ([folder, *folder.parents][max(0, level - 1) :] or [folder])[0]
        for parts in (name.split(".") for name in names):
            found |= dict.fromkeys((base.joinpath(*parts).with_suffix(".py"), base / f"{parts[-1]}.py"))
    return [file for file in found if file.is_file() and file != _DECLARING]


def defined_by(node: ast.stmt) -> Iterator[str]:
    """Yields the names that a statement at the top of a module or a class defines."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in node.names)


def is_kernel(node: ast.stmt) -> bool:
    """True if a function is decorated with ``triton.jit``, called or not, under any name that ends in jit."""
    decorators = getattr(node, "decorator_list", [])
    names = (each.func if isinstance(each, ast.Call) else each for each in decorators)
    return any(ast.unparse(name).rpartition(".")[2] == "jit" for name in names)


def functions_of(file: Path) -> Iterator[str]:
    """Yields the public functions and classes at the top of a file, but for Triton's kernels; none of one that can't be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and not is_kernel(node):
            yield node.name
