"""The line at which a variant's code begins, without importing it."""

import ast
import importlib.machinery
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import msgspec

from softcheck.calling.ownership import INSTALLED
from softcheck.errors import UsageError
from softcheck.variants._import import working_folder_on_path
from softcheck.variants.coverage import mentioned, reached
from softcheck.variants.registry import Spec, resolve
from softcheck.variants.source import defined_by, is_kernel, read


class SourcePlace(msgspec.Struct, frozen=True):
    """A line of a source file.

    ``file`` is relative to the root of the repository of the working folder, with forward slashes. The file of an installed
    package is relative to the folder that holds the package. Any other file outside of the repository has its whole path.
    """

    file: str
    line: int


def place_of(variant: str) -> SourcePlace | None:
    """The place of the one Triton kernel that a variant's function launches, else of the function; None if the source can't be read."""
    try:
        found = resolve(variant)
        file = Path(found.location) if found.kind == "file" else _file_of(found.location)
        if file is None:
            return None
        tree = ast.parse(file.read_bytes())
        source = read(file)
    except (UsageError, OSError, SyntaxError, ValueError):
        return None
    node = _definition(tree, found.function)
    line = 1 if node is None else node.lineno
    if node is not None and not is_kernel(node):
        functions = reached(source, [found.function] if isinstance(node, ast.FunctionDef) else mentioned(node))
        launched = {name for _, each in functions.values() for name in _launched(each)} | set(_launched(node))
        kernels = [place for name, place in functions.items() if name in launched and is_kernel(place[1])]
        if len(kernels) == 1:
            file, line = Path(kernels[0][0]), kernels[0][1].lineno
    return SourcePlace(_written(file.resolve(), found), line)


def repository() -> Path:
    """The root of the repository that holds the working folder; the working folder if no repository does."""
    here = Path.cwd().resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _written(file: Path, found: Spec) -> str:
    root = repository()
    if file.is_relative_to(root) and not any(file.is_relative_to(folder) for folder in INSTALLED):
        return file.relative_to(root).as_posix()
    if found.kind == "file":
        return file.as_posix()
    top = found.location.partition(".")[0]
    holder = next((folder.parent for folder in file.parents if folder.name == top), file.parent)
    return file.relative_to(holder).as_posix()


def _file_of(module: str) -> Path | None:
    """The file of a module by its dotted name. Its parents are looked for in their folders, since imports run code."""
    top, *rest = module.split(".")
    with working_folder_on_path():
        spec = importlib.util.find_spec(top)
    name = top
    for part in rest:
        name = f"{name}.{part}"
        folders = None if spec is None else spec.submodule_search_locations
        spec = None if folders is None else importlib.machinery.PathFinder.find_spec(name, folders)
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin is not None else None


def _definition(tree: ast.Module, name: str) -> ast.stmt | None:
    """The last statement that defines a name, which may be dotted: a function, a class, an assignment or an import."""
    found: ast.stmt | None = None
    body = tree.body
    for part in name.split("."):
        found = next((node for node in reversed(body) if part in defined_by(node)), None)
        body = getattr(found, "body", [])
    return found


def _launched(node: ast.AST) -> Iterator[str]:
    """Names of the functions that are launched on a grid, as in ``kernel[grid](x)``."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Subscript):
            yield ast.unparse(each.func.value).rpartition(".")[2]
