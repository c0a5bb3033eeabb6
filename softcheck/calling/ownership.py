"""Whose code an object is: a variant's, or that of a library, which may keep handlers, threads and names for itself."""

import functools
import sys
import sysconfig
from pathlib import Path

_LIBRARIES = frozenset({"torch", "triton", "concurrent", "multiprocessing", "tqdm"})
"""Packages that patch torch's names and keep threads for purposes of their own."""

INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))
"""Folders of Python's own modules and of installed packages."""


def is_of_library(value: object) -> bool:
    """True if an object's module is part of torch, of Triton, or of a library that these run their own work with."""
    return _module_name(value).partition(".")[0] in _LIBRARIES


def is_installed(value: object) -> bool:
    """True if an object's module lies in a folder of Python's own modules or of installed packages."""
    module = sys.modules.get(_module_name(value))
    file = Path(getattr(module, "__file__", None) or "nowhere").resolve()
    return any(file.is_relative_to(folder) for folder in INSTALLED)


def _module_name(value: object) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    return getattr(value, "__module__", None) or ""
