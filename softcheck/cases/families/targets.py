"""Families of cross_entropy: targets at every kind of place, ignored rows, label smoothing."""

from collections.abc import Iterator

from oracles.formats import Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import NARROW, Draft, made
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import Constant, Mask, Normal, OneHot, Put, Uniform

_IGNORED = {"ignore_index": -100.0}


def _at(*columns: int) -> Operands:
    return Operands(target=columns)


def targets(fmt: Format) -> Iterator[Draft]:
    """Targets at the seams of tiles, beyond 16 bits, at peaks, at masked and far columns, in every layout."""
    seams = (0, 1, 31, 32, 63, 64, 127, 128)
    why = "targets on both sides of each seam"
    yield made("seams-129", 8, 129, Normal(5200), why=why, operands=_at(*seams))
    yield made("every-column-33", 33, 33, Normal(5201), why=why, operands=_at(*range(33)))
    alike = "rows are alike but for their targets"
    yield made("alike-5", 5, 5, Constant(1.0), why=alike, operands=_at(4, 3, 2, 1, 0))
    for columns in (2, 3, 9):
        yield made(f"narrow-{columns}", 3, columns, Normal(5280 + columns), why=NARROW, operands=_at(columns - 1, 0, 1))
    yield made("first-class-40", 3, 40, Normal(5202), why="class 0 is a class", operands=_at(0, 0, 0))
    bits = "columns whose numbers 8 and 16 bits do not hold"
    yield made("beyond-8-bits-300", 4, 300, Normal(5203), why=bits, operands=_at(127, 128, 256, 299))
    yield made("beyond-16-bits-66000", 3, 66000, Normal(5204), why=108, tags="wide", operands=_at(32768, 65536, 65999))
    yield made("peak-65", 3, 65, OneHot(-30.0, 0.0, 17), why=87, operands=_at(17, 17, 17))
    yield made("one-peak-of-two-64", 2, 64, Normal(5205), Put(9, 12.0), Put(50, 12.0), why=76, operands=_at(9, 50))
    yield made(
        "low-mass-33", 3, 33, Normal(5206), Put(0, -30.0), Put(1, -95.0), Put(2, -110.0), why=92, operands=_at(0, 1, 2)
    )
    far = min(1e6, fmt.max / 8)
    yield made("far-offset-24", 3, 24, Uniform(5207, far, far * 1.01), why=91, operands=_at(0, 11, 23))
    yield made("far-below-24", 3, 24, Uniform(5208, -far, -far * 0.99), why=91, operands=_at(23, 0, 12))
    masked = "the loss of a masked target is infinite"
    yield made(
        "masked-target-40", 3, 40, Normal(5209), Mask("trailing", 8), why=masked, tags="mask", operands=_at(39, 31, 32)
    )
    padded = Mask("trailing", 22, value="min")
    yield made("padded-vocabulary-150", 3, 150, Normal(5210), padded, why=87, operands=_at(127, 0, 64))
    for columns in (512, 1000):
        yield made(f"equal-{columns}", 2, columns, Constant(2.0), why=55, tags="sum", operands=_at(0, columns - 1))
    yield made("vocabulary-1021", 3, 1021, Normal(5211, 3.0), why=76, operands=_at(1020, 511, 512))
    broken = "a NaN makes its row's loss NaN, whatever the target is"
    nan = Put(12, "nan", row=1)
    yield made("nan-in-a-row-20", 3, 20, Normal(5214), nan, why=broken, tags="special", operands=_at(12, 3, 19))
    strided = Layout(row_stride=150, offset=1)
    yield made(
        "strided-140", 4, 140, Normal(5212), why=81, tags="strided", layout=strided, operands=_at(139, 0, 70, 128)
    )
    transposed = Layout(row_stride=1, column_stride=9)
    yield made(
        "transposed-50", 9, 50, Normal(5213), why=82, tags="strided", layout=transposed, operands=_at(*range(5, 50, 5))
    )


def ignored_rows(_fmt: Format) -> Iterator[Draft]:
    """Rows with the ignore_index among others, at each place, alone, and with logits that are no numbers."""

    def ignoring(*columns: int) -> Operands:
        return Operands(target=columns, parameters=_IGNORED)

    yield made("every-second-40", 6, 40, Normal(5220), why=89, operands=ignoring(-100, 3, -100, 39, -100, 0))
    yield made("all-17", 4, 17, Normal(5221), why=75, operands=ignoring(-100, -100, -100, -100))
    yield made("all-but-the-last-33", 16, 33, Normal(5222), why=90, operands=ignoring(*[-100] * 15, 32))
    yield made("all-but-the-first-33", 5, 33, Normal(5223), why=90, operands=ignoring(0, -100, -100, -100, -100))
    nan = Put(2, "nan", row=1)
    why = "an ignored row's NaN stays in its row, and its loss is 0"
    yield made("beside-infinity-20", 4, 20, Normal(5224), Put(5, "inf", row=2), why=89, operands=ignoring(1, 2, 3, 4))
    yield made("with-nan-20", 3, 20, Normal(5225), nan, why=why, tags="special", operands=ignoring(4, -100, 5))
    hidden = Mask("all", row=0)
    yield made(
        "masked-row-24", 3, 24, Normal(5226), hidden, why=75, tags="mask special", operands=ignoring(-100, 3, 23)
    )
    none = "no row is ignored, though one may be"
    yield made("none-65", 4, 65, Normal(5227), why=none, operands=ignoring(64, 0, 1, 32))


def label_smoothing(_fmt: Format) -> Iterator[Draft]:
    """Label smoothing, with and without ignored rows."""

    def smoothed(share: float, *columns: int, **parameters: float) -> Operands:
        return Operands(target=columns, parameters={"label_smoothing": share, **parameters})

    yield made("a-tenth-65", 3, 65, Normal(5240), why=74, operands=smoothed(0.1, 0, 64, 33))
    yield made("nearly-all-40", 2, 40, Normal(5241), why=74, operands=smoothed(0.9, 39, 0))
    yield made("at-the-peak-33", 2, 33, OneHot(-20.0, 0.0, 8), why=74, operands=smoothed(0.1, 8, 9))
    some = smoothed(0.1, 3, -100, 70, -100, **_IGNORED)
    yield made("ignored-rows-71", 4, 71, Normal(5242), why=74, operands=some)
    why = "the mean of the logits is far from the largest"
    yield made(
        "far-mean-129", 2, 129, Normal(5243, 2.0, -50.0), Put(100, 10.0), why=why, operands=smoothed(0.2, 100, 0)
    )
