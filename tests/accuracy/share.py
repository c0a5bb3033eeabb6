"""Choice of what runs under the interpreter, where every variant on everything in all dtypes would take an hour."""

from zlib import crc32

from oracles.formats import FORMATS
from softcheck.variants.registry import BUILTIN

TURNS = 3
"""Of so many variants one runs a family or probe; ``softcheck report``, which .ci/run makes, runs each of them in float16."""

LONG = ("regimes", "volume", "histories", "meetings")
"""Probes of which one run takes up to a minute: each dtype but float16, that of the report, meets one in one variant."""


def dtype_run(variant: str, name: str) -> str | None:
    """The dtype in which a built-in variant runs a family of cases or a probe; None if others run it.

    Every dtype meets every family and variant, and every probe that is not long.
    """
    place = list(BUILTIN).index(variant) + crc32(name.encode())
    if name in LONG:
        return {number: dtype for number, dtype in enumerate(FORMATS) if dtype != "float16"}.get(place % len(BUILTIN))
    turn, is_for_others = divmod(place, TURNS)
    return None if is_for_others else list(FORMATS)[turn % len(FORMATS)]


def dtype_generated(variant: str) -> str:
    """The dtype in which a built-in variant runs generated cases."""
    return list(FORMATS)[list(BUILTIN).index(variant) % len(FORMATS)]
