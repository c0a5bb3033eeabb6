"""Descriptions of variants, read off their declarations' source: importing a variant would load torch."""

import ast
from pathlib import Path
from typing import Any

from softcheck.variants import builtin
from softcheck.variants.registry import Spec, known_names, resolve

_FOLDER = Path(*builtin.__path__)


def descriptions() -> dict[str, str]:
    """Returns a line for each known name.

    The line is a built-in variant's description and dtypes, or the place of another package's function. Needs no torch
    and runs no code of a variant.
    """
    return {name: _described(resolve(name)) for name in known_names()}


def _described(found: Spec) -> str:
    if found.kind != "builtin":
        return f"offered by {found.location}:{found.function}"
    stated = _stated(found.location.rpartition(".")[2], found.function)
    return f"{stated['description']} [{', '.join(stated['dtypes'])}]"


def _stated(module: str, function: str) -> dict[str, Any]:
    """Reads the description and the dtypes from the ``@variant(...)`` above a function.

    Names in it stand for constants of ``_common``.
    """
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in _tree("_common").body
        if isinstance(node, ast.Assign) and _is_literal(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    (defined,) = (n for n in _tree(module).body if isinstance(n, ast.FunctionDef) and n.name == function)
    stated = {}
    for decorator in defined.decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg in {"description", "dtypes"}:
                value = keyword.value
                stated[keyword.arg] = constants[value.id] if isinstance(value, ast.Name) else ast.literal_eval(value)
    return stated


def _tree(module: str) -> ast.Module:
    return ast.parse((_FOLDER / f"{module}.py").read_text(encoding="utf-8"))


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
