"""Import of a variant's module from a file or by name. Any exception there becomes a UsageError."""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from softcheck.calling.ownership import INSTALLED
from softcheck.errors import UsageError, near_matches

_folders: set[Path] = set()
"""Folders of variants' files, which can import modules that lie beside them."""


def from_file(path: Path) -> ModuleType:
    """Imports a Python file once, under a name of its own, and returns its module.

    The file can import modules that lie beside it. Raises UsageError with type, message and place of any exception that
    the file raises.
    """
    name = f"softcheck_variant_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path} can't be imported as Python; expected a readable .py file")
    module = importlib.util.module_from_spec(specification)
    # Registered first, as imports do: Triton and dataclasses look their module up while it runs.
    sys.modules[name] = module
    _forget_namesakes(path.parent)
    _folders.add(path.parent)
    try:
        with _on_path(path.parent), _as_usage_error(str(path)), _keeping_operators():
            specification.loader.exec_module(module)
    except UsageError:
        del sys.modules[name]
        raise
    return module


def by_name(name: str) -> ModuleType:
    """A module by its dotted name, looked for in the working folder too; raises UsageError as ``from_file`` does."""
    with working_folder_on_path(), _as_usage_error(f"module {name}"), _keeping_operators():
        return importlib.import_module(name)


def function_of(module: ModuleType, name: str, spec: str) -> Callable[..., Any]:
    """Returns a module's function, class or object by name, which may be dotted. Raises UsageError if there is none."""
    where = getattr(module, "__file__", None) or module.__name__
    if not name:
        raise UsageError(f"variant {spec!r} names no function of {where}; expected MODULE:FUNCTION")
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"variant {spec!r}: {where} has no {name!r}; {_callables_hint(name, module)}")
        found = getattr(found, part)
    # A kernel that is tuned can't be called, but it has a method to run it.
    if not (callable(found) or any(hasattr(found, method) for method in ("forward", "apply", "run"))):
        raise UsageError(
            f"variant {spec!r}: {name!r} in {where} is of type {type(found).__name__}, expected a function; "
            f"{_callables_hint(name, module)}"
        )
    return found  # type: ignore[no-any-return]


@contextmanager
def working_folder_on_path() -> Iterator[None]:
    """The working folder is searched too, as ``python -m`` does, though softcheck starts from a script elsewhere."""
    with _on_path(Path.cwd()):
        yield


@contextmanager
def anew(file: Path) -> Iterator[None]:
    """Imports modules from the folder of ``file`` anew inside, but for softcheck's own elsewhere, and forgets them again afterwards."""
    known = {name: module for name, module in sys.modules.items() if _is_beside(name, module, file.parent)}
    for name in known:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [name for name, module in sys.modules.items() if _is_beside(name, module, file.parent)]:
            del sys.modules[name]
        sys.modules.update(known)


def _is_beside(name: str, module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if not file or not file.startswith(f"{folder}/") or "site-packages" in file or name == "__main__":
        return False
    if any(Path(file).is_relative_to(installed) for installed in INSTALLED):
        return False
    return Path(file).parent == folder or name.partition(".")[0] not in {"softcheck", "oracles"}


@contextmanager
def _on_path(folder: Path) -> Iterator[None]:
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


def _forget_namesakes(folder: Path) -> None:
    """Drops modules from beside other variants' files under the names of this folder's files, which Python would reuse."""
    names = {each.stem for each in folder.iterdir()}
    for name, module in list(sys.modules.items()):
        is_namesake = name.partition(".")[0] in names and not _is_beside(name, module, folder)
        if is_namesake and any(_is_beside(name, module, other) for other in _folders):
            del sys.modules[name]


@contextmanager
def _keeping_operators() -> Iterator[None]:
    """Keeps operators that modules have registered with ``torch.library.custom_op``: a second one of a name gets another name inside.

    Torch takes the first one away instead, and whoever calls it then reads freed memory: another operator answers, or the process ends.
    """
    from torch._library import custom_ops

    from softcheck.toolchain.interpreter import wrapped

    known = frozenset(custom_ops.OPDEF_TO_LIB)

    def register_beside(
        register: Any, operator: Any, namespace: str, name: str, *arguments: Any, **options: Any
    ) -> None:
        while f"{namespace}::{name}" in known:
            name += "_again"
        register(operator, namespace, name, *arguments, **options)

    with wrapped({(custom_ops.CustomOpDef, "__init__"): register_beside}):
        yield


_under_way = [0]
"""Imports of variants' modules that have begun and not ended."""


def is_importing() -> bool:
    """True if a variant's module is being imported in this process."""
    return _under_way[0] > 0


@contextmanager
def _as_usage_error(what: str) -> Iterator[None]:
    _under_way[0] += 1
    try:
        yield
    except (Exception, SystemExit) as error:
        from softcheck.calling.unable import limit_behind

        limit = limit_behind(error)
        more = (
            "run it with Python to see more" if limit is None else f"{limit}, or do it below if __name__ == '__main__'"
        )
        raise UsageError(f"{what} raised on import: {_describe(error)}; {more}") from error
    finally:
        _under_way[0] -= 1


def _describe(error: BaseException) -> str:
    message = " ".join(str(error).split())[:400]
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} at {error.filename}:{error.lineno}"
    files = (f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<frozen", __file__)))
    frames = [f for f in files if "importlib" not in Path(f.filename).parts]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {message}{place}"


def _callables_hint(name: str, module: ModuleType) -> str:
    own = [
        key
        for key, value in vars(module).items()
        if callable(value) and not key.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return near_matches(name, own) if own else "it defines no public function"
