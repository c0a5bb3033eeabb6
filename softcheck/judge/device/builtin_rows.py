"""A small matrix with a row of every class that the judges treat apart, its right outputs, and planted wrong ones."""

import math

import numpy as np

from oracles.formats import Bits, Format, Values, decode, encode
from oracles.reference import FullyMasked
from softcheck.judge.judge import reference

CLASSES = (
    "ordinary",
    "ordinary",
    "ordinary",
    "huge logits",
    "subnormal results",
    "equal logits",
    "next to a power of two",
    "masked in part",
    "one logit",
    "fully masked",
    "NaN",
    "+inf",
)
"""The class of each row, in order."""


def rows(fmt: Format, columns: int) -> Bits:
    """The logits, [len(CLASSES), columns], the same at every call.

    Rows of one column keep as much of their class as fits.
    """
    rng = np.random.default_rng(0)
    found: Values = rng.standard_normal((len(CLASSES), columns)) * 2
    huge, subnormal, equal, power, masked, one, fully, nan, inf = found[3:]
    huge[:] = rng.uniform(-1, 1, columns) * fmt.max
    vanishing = -math.log(fmt.least_subnormal)
    subnormal[:] = np.linspace(-vanishing - 1, -0.75 * vanishing, columns)
    subnormal[0] = 0.0
    equal[:] = 1.5
    power[:] = -math.inf
    power[:2] = (0.0, fmt.least_normal)[:columns]
    masked[1::2] = -math.inf
    one[:-1] = -math.inf
    fully[:] = -math.inf
    nan[-1] = math.nan
    inf[0] = math.inf
    return encode(found, fmt)


def right(logits: Bits, fmt: Format, fully_masked: FullyMasked) -> Bits:
    """The exact answers rounded to the format."""
    return encode(reference(decode(logits, fmt), fmt, fully_masked).values, fmt)


def wrong(answers: Bits, fmt: Format) -> Bits:
    """Returns the answers with one fault per row.

    The third and the seventh row have none. The fifth has one only if an answer other than a maximum is below the least
    normal.
    """
    found = answers.copy()
    middle, second = answers.shape[1] // 2, min(1, answers.shape[1] - 1)
    found[0, -1] += fmt.storage.type(40)
    found[1, middle] |= fmt.storage.type(1 << (fmt.width - 1))
    found[3, -1] = encode(np.array(math.nan), fmt)
    found[4, decode(answers[4], fmt) < fmt.least_normal] = 0
    found[5] = encode(decode(answers[5], fmt) * (1 + 2.0 ** (6 - fmt.precision)), fmt)
    for row, column, value in ((7, second, 0.25), (8, 0, math.inf), (9, middle, 2.0), (10, 0, 0.5), (11, -1, 0.0)):
        found[row, column] = encode(np.array(value), fmt)
    return found
