"""softcheck: differential testing and numerical accuracy for GPU softmax kernels.

``import softcheck`` loads neither torch nor triton; declaring a variant needs neither.
"""

from importlib import import_module
from typing import Any

from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.adapt import adapt
from softcheck.variants.declaration import Declaration, KnownDefect, Traffic, variant

__version__ = "0.1.0"

__all__ = ["Arithmetic", "Declaration", "FindingKind", "KnownDefect", "Traffic", "adapt", "check", "variant"]


def __getattr__(name: str) -> Any:
    """``softcheck.check`` rests on every layer, and lower ones import this package: it is looked up when it is asked for."""
    if name == "check":
        return import_module("softcheck.interactive").check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
