"""Choice of what runs under the interpreter, where every variant on everything in all dtypes would take an hour."""

from zlib import crc32

from oracles.formats import FORMATS
from softcheck.variants.registry import BUILTIN

TURNS = 3
"""Of so many variants one runs a family or probe; ``softcheck report``, which .ci/run makes, runs each of them in float16."""


def dtype_run(variant: str, name: str) -> str | None:
    """The dtype in which a built-in variant runs a family of cases or a probe; None if others run it.

    Every dtype meets every family and probe and every variant.
    """
    turn, is_for_others = divmod(list(BUILTIN).index(variant) + crc32(name.encode()), TURNS)
    return None if is_for_others else list(FORMATS)[turn % len(FORMATS)]


def dtype_generated(variant: str) -> str:
    """The dtype in which a built-in variant runs generated cases."""
    return list(FORMATS)[list(BUILTIN).index(variant) % len(FORMATS)]
