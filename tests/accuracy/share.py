"""Which dtypes stand for the others under the interpreter, where running everything would take most of the suite's time."""

from zlib import crc32

from oracles.formats import FORMATS
from softcheck.cases.case import Case
from softcheck.run.session import rows_to_run
from softcheck.variants.registry import BUILTIN

MANY = 2**15
"""Elements of a case, as it is run, from which on its family runs in a single dtype."""

LEFT_OUT = "another dtype stands for it under the interpreter; see tests/README.md"


def is_of_the_share(variant: str, dtype: str, name: str, cases: tuple[Case, ...] = ()) -> bool:
    """Whether a built-in variant runs a family of cases, or a probe (no cases), in a dtype.

    Each runs in float16 and float32, or in bfloat16 and float64; a family with large cases in one of the four. From variant
    to variant and from family to family it is another choice, so that all dtypes meet all families and all variants.
    """
    turn = list(BUILTIN).index(variant) + crc32(name.encode())
    place = list(FORMATS).index(dtype)
    if any(_elements(case) >= MANY for case in cases):
        return place == turn % len(FORMATS)
    return place % 2 == turn % 2


def _elements(case: Case) -> int:
    rows, columns = case.shape
    return (rows_to_run(case, "interpreter") or rows) * columns
