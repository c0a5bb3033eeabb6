"""Choice of the one dtype that runs under the interpreter, where all dtypes would take most of the suite's time."""

from zlib import crc32

import pytest

from oracles.formats import FORMATS
from softcheck.variants.registry import BUILTIN


def dtype_run(variant: str, name: str) -> str:
    """The dtype in which a built-in variant runs a family of cases or a probe.

    It changes from variant to variant and from family to family, so that all dtypes meet all families and all variants.
    """
    turn = list(BUILTIN).index(variant) + crc32(name.encode())
    return list(FORMATS)[turn % len(FORMATS)]


def leave_out_all_but_one_dtype(subject, name: str, config: pytest.Config) -> None:
    """Skips a test of a variant in a dtype, unless it runs on a GPU, is of the share, or dtypes were asked for."""
    chosen = subject.session.ready.backend != "interpreter" or config.getoption("--softcheck-dtype")
    if not chosen and subject.dtype != dtype_run(subject.variant, name):
        pytest.skip("under the interpreter another dtype stands for it; see tests/README.md")
