"""Files that are named in place of a function, or with a pytest test's two colons. Imports no torch, and runs no code of a variant."""

import ast
from collections.abc import Iterator
from pathlib import Path

from softcheck.errors import UsageError
from softcheck.variants.place import is_kernel

_SHOWN = 12


def refuse_misnamed(spec: str) -> None:
    """Raises UsageError, with what to write, for ``FILE.py`` and ``FILE.py::FUNCTION``; for others ``resolve`` does."""
    file, colons, function = spec.partition("::")
    if colons and file.endswith(".py"):
        raise UsageError(f"variant {spec!r} has two colons; write one: {file}:{function or 'FUNCTION'}")
    if spec.endswith(".py") and (names := list(_functions_of(Path(spec)))):
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        has = f"it has {', '.join(names[:_SHOWN])}{more}"
        raise UsageError(f"variant {spec!r} names no function; write {spec}:FUNCTION; {has}")


def _functions_of(file: Path) -> Iterator[str]:
    """The public functions and classes at the top of a file, but for Triton's kernels; none of one that can't be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and not is_kernel(node):
            yield node.name
