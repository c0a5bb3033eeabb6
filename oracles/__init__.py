"""Exact softmax with stated error bounds, and the floating-point formats it is judged in.

Importing this package, or ``oracles.float64``, loads numpy alone; mpmath and python-flint load with the oracles that use
them.
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple, Protocol

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Bits, Format, Values, decode, encode
from oracles.reference import FullyMasked, Reference, RowClass, classify

__all__ = [
    "BFLOAT16",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "FORMATS",
    "ORACLES",
    "Bits",
    "Format",
    "FullyMasked",
    "Oracle",
    "Reference",
    "RowClass",
    "Softmax",
    "Values",
    "classify",
    "decode",
    "encode",
]


class Softmax(Protocol):
    """An oracle's function."""

    def __call__(self, values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
        """Softmax of each row of a float64 matrix [rows, columns]."""
        ...


class Oracle(NamedTuple):
    """An oracle as ``softcheck list`` shows it."""

    softmax: Softmax
    description: str


def _lazy(module: str) -> Softmax:
    def softmax(values: Values, *, fully_masked: FullyMasked = "nan") -> Reference:
        function: Callable[..., Reference] = import_module(f"oracles.{module}").softmax
        return function(values, fully_masked=fully_masked)

    return softmax


ORACLES: dict[str, Oracle] = {
    "float64": Oracle(_lazy("float64"), "numpy, one core; the everyday reference for 16- and 32-bit outputs"),
    "double_double": Oracle(_lazy("double_double"), "numpy, pairs of float64, about 2^-99; for float64 outputs"),
    "exact": Oracle(_lazy("exact"), "mpmath; any precision, and correct rounding by Ziv's test"),
    "ball": Oracle(_lazy("ball"), "Arb through python-flint; proven enclosures"),
}
"""All oracles by name; each is loaded at its first call."""
