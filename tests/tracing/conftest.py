"""A child process in which Triton's interpreter runs and kernels are recorded."""

from pathlib import Path

import numpy as np
import pytest
from children import Child

from oracles.formats import FORMATS, encode

KERNELS = Path(__file__).parents[1] / "kernels" / "traced.py"


class Tracing:
    def __init__(self):
        self._child = Child("tracing/tracing_child.py", TRITON_INTERPRET="1")

    def rows(self, variant, values, dtype="float32", rows=(0,)):
        """The traced rows and the notes, or a reason in their place; a name alone is a kernel of tests/kernels/traced.py."""
        return self._child.ask("trace", _spec(variant), dtype, _bits(values, dtype), rows)

    def row(self, variant, values, dtype="float32"):
        (row,), _ = self.rows(variant, values, dtype)
        return row

    def outputs(self, variant, values, dtype="float32"):
        return self._child.ask("outputs", _spec(variant), dtype, _bits(values, dtype))

    def errors(self, values, exact, dtype):
        return self._child.ask("errors", values, exact, dtype)

    def close(self):
        self._child.close()


def _spec(variant):
    """``builtin:NAME``, ``file:FILE:FUNCTION``, or the name of a function in tests/kernels/traced.py."""
    kind, _, rest = variant.partition(":")
    return rest if kind in {"builtin", "file"} else f"{KERNELS}:{variant}"


def _bits(values, dtype):
    return encode(np.atleast_2d(np.asarray(values, dtype=np.float64)), FORMATS[dtype])


@pytest.fixture(scope="session")
def tracing():
    found = Tracing()
    yield found
    found.close()
