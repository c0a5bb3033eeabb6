"""Mutants of a variant's source file: copies with one small change each, as a slip of the pen would make it.

Only functions that the variant reaches are changed, and module-level numbers. What can't change a result is left out:
annotations, docstrings, messages of exceptions, declarations, numbers of warps and stages.
"""
# ruff: noqa: INP001 - beside scripts, not in a package

import ast
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

Edit = tuple[ast.AST, str]
"""A node and the source text that takes its place."""

_COMPARED = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
}
_COMPUTED = {
    ast.Add: ("-", "*"),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.Mod: ("//",),
    ast.BitAnd: ("|",),
    ast.BitOr: ("&",),
    ast.LShift: (">>",),
    ast.RShift: ("<<",),
}
_RENAMED = {
    "maximum": ("minimum",),
    "minimum": ("maximum",),
    "max": ("min", "sum"),
    "min": ("max",),
    "amax": ("amin",),
    "amin": ("amax",),
    "atomic_max": ("atomic_min",),
    "exp": ("exp2",),
    "exp2": ("exp",),
    "zeros": ("ones", "empty"),
    "ones": ("zeros",),
    "float32": ("float16",),
    "float64": ("float32",),
    "int64": ("int16",),
    "all": ("any",),
    "any": ("all",),
}
_IRRELEVANT = {"num_warps", "num_stages"}
_IDENTITIES = {"to", "float", "double", "contiguous", "zero_", "clone"}
"""Methods that give their own tensor in another form: a mutant leaves the call out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A source file with one change."""

    name: str
    operator: str
    line: int
    text: str
    diff: str


def mutants(source: str, function: str, name: str) -> list[Mutant]:
    """Returns every mutant of a module's text, in the order of lines; each one parses, and no two are equal.

    ``function`` is the variant; the mutants' own variant is called ``softmax``, and ``name`` begins their names.
    """
    tree = ast.parse(source)
    last = f"\n\nsoftmax = {function}\n" if function != "softmax" else ""
    seen = {ast.dump(tree)}
    found: list[Mutant] = []
    for operator, (node, text) in _edits(tree, function):
        changed = _replaced(source, node, text)
        try:
            shape = ast.dump(ast.parse(changed))
        except SyntaxError:
            continue
        if shape not in seen:
            seen.add(shape)
            found.append(
                Mutant(
                    name=f"{name}_{len(found):03}_{operator}",
                    operator=operator,
                    line=node.lineno,  # type: ignore[attr-defined]
                    text=changed.rstrip("\n") + "\n" + last,
                    diff="".join(difflib.unified_diff(source.splitlines(True), changed.splitlines(True), n=0)),
                )
            )
    return found


def _edits(tree: ast.Module, function: str) -> Iterator[tuple[str, Edit]]:
    roots = [*_numbers(tree), *_reached(tree, function)]
    for root in sorted(roots, key=lambda node: node.lineno):
        for node in _relevant(root):
            for operator, edits in OPERATORS.items():
                for edit in edits(node):
                    yield operator, edit


def _numbers(tree: ast.Module) -> list[ast.stmt]:
    """Assignments of numbers, or of what is made of them, to names of the module."""
    planted = {"EXPECTED", "SHOWN_BY", "DTYPES", "BACKENDS"}
    return [
        node
        for node in tree.body
        if isinstance(node, ast.Assign)
        and not planted & {name.id for name in node.targets if isinstance(name, ast.Name)}
    ]


def _reached(tree: ast.Module, function: str) -> list[ast.stmt]:
    """Functions and classes of the module that the variant names, directly or through others."""
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    waiting, reached = [function], set()
    while waiting:
        name = waiting.pop()
        if name in defined and name not in reached:
            reached.add(name)
            waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    return [defined[name] for name in defined if name in reached]


def _relevant(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it that can change a result, in the order of the text."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.keyword) and node.arg in _IRRELEVANT:
        return
    yield node
    skipped: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef):
        skipped += [argument.annotation for argument in [*node.args.args, *node.args.kwonlyargs]]
        skipped += [node.returns, *(one for one in node.decorator_list if "variant" in ast.unparse(one))]
    if isinstance(node, ast.AnnAssign):
        skipped.append(node.annotation)
    for child in ast.iter_child_nodes(node):
        if not any(child is one for one in skipped):
            yield from _relevant(child)


def _replaced(source: str, node: ast.AST, text: str) -> str:
    # Columns of a syntax tree count bytes.
    lines = [line.encode() for line in source.splitlines(keepends=True)]
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    begin, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
    whole = (
        b"".join(lines[:first]) + lines[first][:begin] + text.encode() + lines[last][end:] + b"".join(lines[last + 1 :])
    )
    return whole.decode()


def _of(node: ast.AST) -> str:
    return ast.unparse(node)


def _comparison(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in _COMPARED.get(type(node.ops[0]), ()):
            yield node, f"{_of(node.left)} {operator} {_of(node.comparators[0])}"


def _arithmetic(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp):
        for operator in _COMPUTED.get(type(node.op), ()):
            yield node, f"(({_of(node.left)}) {operator} ({_of(node.right)}))"
    if isinstance(node, ast.AugAssign):
        yield node, f"{_of(node.target)} = {_of(node.value)}"
        for operator in _COMPUTED.get(type(node.op), ()):
            yield node, f"{_of(node.target)} {operator}= {_of(node.value)}"


def _operand_dropped(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp):
        yield node, f"({_of(node.left)})"
        yield node, f"({_of(node.right)})"
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield node, f"({_of(value)})"


def _constant(node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Constant) or isinstance(node.value, str | bytes) or node.value in {None, Ellipsis}:
        return
    value = node.value
    if isinstance(value, bool):
        yield node, str(not value)
    elif isinstance(value, int):
        yield from ((node, str(other)) for other in dict.fromkeys((value + 1, value - 1, 2 * value)) if other != value)
    elif isinstance(value, float):
        yield from ((node, repr(other)) for other in dict.fromkeys((value + 1.0, 2 * value)) if other != value)


def _sign(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
        yield node, f"({_of(node.operand)})"


def _keyword_dropped(node: ast.AST) -> Iterator[Edit]:
    """Drops a mask, ``other``, a dtype or a device, and adds an ``other`` of 0 where there is one."""
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg in {"mask", "other", "dtype", "keepdim"}:
            # Triton takes no ``other`` without a mask.
            gone = {keyword.arg} | ({"other"} if keyword.arg == "mask" else set())
            kept = [one for one in node.keywords if one.arg not in gone]
            yield node, _of(ast.Call(func=node.func, args=node.args, keywords=kept))
        if keyword.arg == "other":
            yield keyword.value, "0.0"
            yield keyword.value, "-1.0"
        if keyword.arg == "mask":
            yield keyword.value, f"({_of(keyword.value)}) & False"


def _call_dropped(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IDENTITIES:
        yield node, f"({_of(node.func.value)})"


def _renamed(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Attribute):
        for name in _RENAMED.get(node.attr, ()):
            yield node, f"{_of(node.value)}.{name}"


def _arguments_swapped(node: ast.AST) -> Iterator[Edit]:
    """Swaps neighbours among the arguments of a launch or of ``where``, and the strides that are unpacked into them."""
    if isinstance(node, ast.Starred):
        yield node.value, f"{_of(node.value)}[::-1]"
    if not isinstance(node, ast.Call):
        return
    is_where = isinstance(node.func, ast.Attribute) and node.func.attr == "where"
    if is_where or isinstance(node.func, ast.Subscript):
        for left in range(1 if is_where else 0, len(node.args) - 1):
            arguments = list(node.args)
            arguments[left : left + 2] = arguments[left + 1], arguments[left]
            yield node, _of(ast.Call(func=node.func, args=arguments, keywords=node.keywords))


def _rounded_down(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "cdiv" and len(node.args) == 2:
            yield node, f"(({_of(node.args[0])}) // ({_of(node.args[1])}))"
        if node.func.attr == "next_power_of_2":
            yield node, f"({_of(node)} // 2)"


def _range_shifted(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and "range" in _of(node.iter.func):
        arguments = node.iter.args
        end = arguments[1] if len(arguments) > 1 else arguments[0]
        yield end, f"({_of(end)} - 1)"
        if len(arguments) == 3:
            yield end, f"({_of(end)} - {_of(arguments[2])})"
            yield arguments[0], f"({_of(arguments[0])} + {_of(arguments[2])})"
            yield arguments[2], f"(2 * {_of(arguments[2])})"


def _condition(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, "False"
        if not isinstance(node, ast.While):
            yield node.test, "True"


def _statement_dropped(node: ast.AST) -> Iterator[Edit]:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and not is_text:
        yield node, "pass"


OPERATORS: dict[str, Callable[[ast.AST], Iterator[Edit]]] = {
    "comparison": _comparison,
    "arithmetic": _arithmetic,
    "operand_dropped": _operand_dropped,
    "constant": _constant,
    "sign": _sign,
    "keyword_dropped": _keyword_dropped,
    "call_dropped": _call_dropped,
    "renamed": _renamed,
    "arguments_swapped": _arguments_swapped,
    "rounded_down": _rounded_down,
    "range_shifted": _range_shifted,
    "condition": _condition,
    "statement_dropped": _statement_dropped,
}
"""Changes by name; each yields its edits of one node."""


def write(folder: Path, found: list[Mutant]) -> None:
    """Writes every mutant into a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for mutant in found:
        (folder / f"{mutant.name}.py").write_text(mutant.text, encoding="utf-8")
