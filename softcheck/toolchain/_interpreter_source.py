"""Rewriting of kernels' Python to mean the same under Triton's interpreter as to Triton's compiler.

Loop variables are tensors, ``and``, ``or`` and ``not`` work on tensors element by element, and functions of the
language may be imported by name.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import triton.language as tl
from triton.language.extra import libdevice as stub
from triton.language.extra.cuda import libdevice

_COUNTED, _JOINED, _NEGATED = "_softcheck_counted", "_softcheck_joined", "_softcheck_negated"


def install(interpreter: Any) -> None:
    """Corrects how the interpreter rewrites kernels, and which names it binds to itself during a launch."""
    semantic = interpreter.interpreter_semantic
    # Rewritten kernels see the interpreter's own globals beside those of their module.
    setattr(interpreter, _COUNTED, partial(counted, semantic))
    setattr(interpreter, _JOINED, partial(joined, semantic))
    setattr(interpreter, _NEGATED, partial(negated, semantic))
    interpreter.FunctionRewriter.ast_transformer = _transformer(interpreter.ASTTransformer)()
    interpreter._patch_lang = _wrap_patch(interpreter, interpreter._patch_lang)  # noqa: SLF001


def counted(semantic: Any, function: Callable[..., Iterable[Any]], *bounds: Any, **options: Any) -> Iterator[Any]:
    """A loop's values as the scalar tensors that they are when it is compiled: of 64 bits where one of the bounds is."""
    is_wide = any(isinstance(bound, tl.tensor) and bound.dtype == tl.int64 for bound in bounds)
    for value in function(*bounds, **options):
        if type(value) is not int:
            yield value
        else:
            yield semantic.scalar_constant(value, tl.int64) if is_wide else semantic.to_tensor(value)


def joined(semantic: Any, is_and: bool, *operands: Callable[[], Any]) -> Any:  # noqa: FBT001 - called by rewritten code
    """``and`` or ``or``: of tensors of int1 element by element, evaluating all; of others as in Python."""
    value = operands[0]()
    for operand in operands[1:]:
        if _is_logical(value):
            other = semantic.to_tensor(operand())
            if not _is_logical(other):
                other = semantic.not_equal(other, semantic.to_tensor(0))
            value = semantic.logical_and(value, other) if is_and else semantic.logical_or(value, other)
        elif bool(value) is is_and:
            value = operand()
        else:
            return value
    return value


def negated(semantic: Any, value: Any) -> Any:
    """``not``, of tensors of int1 element by element."""
    return semantic.not_(value) if _is_logical(value) else not value


def _is_logical(value: Any) -> bool:
    return isinstance(value, tl.tensor) and value.dtype == tl.int1


def _transformer(base: Any) -> Any:
    visits_values = hasattr(base, "visit_Compare")

    class Transformer(base):  # type: ignore[misc]
        """Triton's rewriting, and that of loops and of logical operators."""

        def visit_Assign(self, node: ast.Assign) -> ast.AST:  # noqa: N802 - the name that ast calls
            if not visits_values:
                # Triton 3.6 leaves the right-hand side as it is.
                node.value = self.visit(node.value)
            rewritten: ast.AST = super().visit_Assign(node)
            return rewritten

        def visit_For(self, node: ast.For) -> ast.AST:  # noqa: N802
            self.generic_visit(node)
            values = node.iter
            if isinstance(values, ast.Call):
                name = values.func.id if isinstance(values.func, ast.Name) else getattr(values.func, "attr", None)
                if name == "range":
                    node.iter = _call(_COUNTED, values.func, *values.args, keywords=values.keywords)
            return node

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:  # noqa: N802
            self.generic_visit(node)
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
            return _call(_JOINED, ast.Constant(value=isinstance(node.op, ast.And)), *operands)

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:  # noqa: N802
            self.generic_visit(node)
            return _call(_NEGATED, node.operand) if isinstance(node.op, ast.Not) else node

    return Transformer


def _call(name: str, *args: ast.expr, keywords: Sequence[ast.keyword] = ()) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=list(keywords))


class _Names:
    """A module's namespace as an object whose attributes can be set, which is what Triton's scopes undo."""

    def __init__(self, names: MutableMapping[str, Any]) -> None:
        self.__dict__ = names  # type: ignore[assignment]


def _wrap_patch(interpreter: Any, original: Any) -> Callable[[Any], Any]:
    # Triton patches the modules that a kernel's own module names; all kernels get the whole language.
    everywhere = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
    extras, new_scope = _bind_extras(interpreter.interpreter_semantic), interpreter._LangPatchScope  # noqa: SLF001
    # Modules whose names are patched in this launch, by how many names they have: rewriting a kernel adds some.
    done: set[tuple[int, int]] = set()

    def patch(function: Any) -> Any:
        # Functions that kernels call are patched in the middle of a launch, when all but their own names is done.
        is_nested = not tl.core.is_builtin(tl.core.load)
        scope = new_scope() if is_nested else original(everywhere)
        names = function.__globals__
        if not is_nested:
            done.clear()
        if (known := (id(names), len(names))) in done:
            return scope
        done.add(known)
        for name, value in list(names.items()):
            if isinstance(value, FunctionType):
                bound = extras.get(value) or _patched(value)
                if bound is not None:
                    scope.set_attr(_Names(names), name, bound)
        return scope

    return patch


def _patched(value: FunctionType) -> Any:
    """Returns the replacement of a language function that a module imports by name; None for all other values."""
    if not tl.core.is_builtin(value):
        return None
    module = next((m for m in (tl.core, tl.math) if m.__name__ == value.__module__), None)
    return getattr(module, value.__name__, None)


def _bind_extras(semantic: Any) -> dict[FunctionType, Any]:
    """Binds the functions of triton.language.extra to the interpreter, and returns their replacements."""
    bound: dict[FunctionType, Any] = {}
    modules = [module for name, module in sys.modules.items() if name.startswith("triton.language.extra.")]
    found = [(module, name, value) for module in modules for name, value in vars(module).items()]
    for _, _, value in found:
        if isinstance(value, FunctionType) and tl.core.is_builtin(value):
            bound[value] = partial(value, _semantic=semantic)
    for _, name, value in found:
        # The functions that the compiler puts into the place of these, which have no bodies.
        if isinstance(value, FunctionType) and value.__module__ == stub.__name__ and hasattr(libdevice, name):
            bound[value] = bound[getattr(libdevice, name)]
    for module, name, value in found:
        if isinstance(value, FunctionType) and value in bound:
            setattr(module, name, bound[value])
    return bound
