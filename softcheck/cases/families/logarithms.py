"""Families of log_softmax and logsumexp: offsets, sums that stick, remainders beside a peak, results near 0."""

import math
from collections.abc import Iterator

from oracles.formats import BFLOAT16, FLOAT16, Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import NARROW, Draft, made
from softcheck.cases.recipe import Choice, Constant, Mask, Normal, OneHot, Put, Ramp, Sort, Uniform

_INT16 = 32768


def log_probabilities(fmt: Format) -> Iterator[Draft]:
    """Rows whose log-softmax loses what a common offset, a rounded sum or a logarithm of 0 takes."""
    far = min(1e7, fmt.max / 8)
    yield made("minus-1e7-33", 3, 33, Uniform(5100, -far, 1.0 - far), why=52)
    yield made("plus-1e7-33", 3, 33, Uniform(5101, far, far * 1.001), why=91)
    for columns in (2, 3, 5, 9):
        yield made(f"narrow-{columns}", 3, columns, Normal(5120 + columns, 4.0), why=NARROW)
    yield made("around-20000-128", 2, 128, Uniform(5102, -20260.0, -19740.0), why=53)
    yield made("below-5e4-40", 2, 40, Uniform(5103, -60000.0, -50001.0), why=97)
    yield made("normal-129", 3, 129, Normal(5104, 2.0), why=54)
    for columns in (512, 1000, 2049):
        yield made(f"equal-{columns}", 1, columns, Constant(3.0), why=55, tags="sum")
    for columns, report in ((257, 55), (71, 64)):
        yield made(f"all-but-equal-{columns}", 2, columns, Normal(5105 + columns, 0.01), why=report, tags="sum")
    yield made("one-peak-65", 2, 65, OneHot(-40.0, 0.0, 7), why=93)
    yield made("small-rest-33", 3, 33, Normal(5107, 0.5, -9.0), Put(0, 0.0), why=93)
    yield made("vanishing-mass-24", 2, 24, Ramp(0.0, -6.0), why=92)
    yield made("far-masses-130", 2, 130, Choice(5108, (0.0, -17.0, -90.0, -110.0)), why=92)
    rows = [Mask("all", row=1), Mask("leading", 64, row=2)]
    yield made("one-row-of-minus-infinity-128", 4, 128, Normal(5109), *rows, why=60, tags="mask special")
    yield made("first-tile-hidden-130", 2, 130, Normal(5110, 1.0, -300.0), Mask("leading", 65), why=96, tags="mask")
    hidden = Mask("leading", 600)
    yield made("first-tiles-hidden-1100", 2, 1100, Normal(5112, 1.0, -3.0), hidden, why=96, tags="mask")
    strided = Layout(row_stride=95, offset=1)
    yield made("strided-90", 4, 90, Normal(5113, 2.0), why=81, tags="strided", layout=strided)
    why = "sorted, so that each tile's maximum is another"
    yield made("rising-257", 2, 257, Normal(5111, 20.0), Sort(), why=why)


def log_sums(fmt: Format) -> Iterator[Draft]:
    """Rows whose log-sum-exp is near 0, as large as its maximum, infinite, or made of parts of different size."""
    yield made("no-keys-12", 2, 12, Constant("-inf"), why=98, tags="mask special")
    rows = [Mask("all", row=0), Mask("all_but", 39, row=2)]
    yield made("no-keys-in-a-row-40", 4, 40, Normal(5150), *rows, why=98, tags="mask special")
    for columns in (2, 3, 5, 9):
        yield made(f"few-{columns}", 3, columns, Normal(5170 + columns, 4.0), why=NARROW)
    yield made("below-5e4-33", 2, 33, Uniform(5151, -60000.0, -50001.0), why=97)
    for columns in (16, 100, 777):
        level = -math.log(columns)
        why = "the answer is 0 but for what the logits are rounded by"
        yield made(f"near-0-{columns}", 2, columns, Normal(5152 + columns, 0.001, level), why=why, tags="difference")
    yield made("one-and-small-ones-65", 3, 65, Normal(5154, 0.5, -12.0), Put(64, 0.0), why=92)
    yield made("one-and-tiny-ones-40", 2, 40, Normal(5155, 0.5, -16.0), Put(0, 0.0), why=92)
    halves = (Mask("leading", 130, value=-80.0), Put(3, -79.5), Put(200, 5.0))
    yield made("parts-far-apart-260", 2, 260, Normal(5156), *halves, why=99)
    yield made("parts-alike-256", 2, 256, Normal(5157, 0.5, 7.0), why=99)
    for columns in (300, 2050):
        yield made(f"equal-{columns}", 1, columns, Constant(-1.0), why=55, tags="sum")
    wide = "more terms than float16 and int16 count"
    if fmt in (FLOAT16, BFLOAT16):
        yield made("beyond-float16-66000", 1, 66000, Constant(0.5), why=wide, tags="sum wide")
    yield made("beyond-int16-33000", 1, 33000, Normal(5158, 0.1), Put(_INT16 + 1, 12.0), why=102, tags="wide")
    large = min(88.0, fmt.max / 2)
    why = "merged without a shift, exp(lse) of each part overflows"
    yield made("above-88-129", 2, 129, Normal(5159, 2.0, large + 40.0), why=why)
    yield made("huge-30", 2, 30, Normal(5160, fmt.max / 64, fmt.max / 4), why=91)
    late = "the maximum of the first tile is 89 below the last's"
    yield made("late-peak-514", 2, 514, Normal(5161), Put(513, 100.0), why=late)
    transposed = Layout(row_stride=1, column_stride=6)
    yield made("transposed-60", 6, 60, Normal(5163, 2.0), why=82, tags="strided", layout=transposed)
    infinite = "an infinite logit among finite ones, in one row of three"
    yield made("plus-infinity-24", 3, 24, Normal(5164), Put(7, "inf", row=1), why=infinite, tags="special")
    yield made("masked-71", 3, 71, Normal(5162), Mask("odd"), why=64, tags="mask")
