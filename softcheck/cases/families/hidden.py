"""Families of masks and scales as arguments of a softmax: what stands behind a mask, masks with values, temperatures."""

from collections.abc import Iterator

from oracles.formats import FLOAT16, Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import NARROW, Draft, made
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import AnyGenerator, AnyModifier, Choice, Constant, Cycle, Mask, Normal, Put, Ramp, Recipe

_TAGS = "mask"
_WHOLE = "tiles that divide the width, where a kernel may leave the mask out"


def _behind(start: AnyGenerator, *then: AnyModifier) -> Operands:
    return Operands(behind=Recipe(start, then))


def hidden(_fmt: Format) -> Iterator[Draft]:
    """A mask as an argument: what it hides is NaN, infinite, larger than what it leaves, or finite."""
    noise = Normal(5000, 3.0, -40.0)
    nan, infinity, peak = (_behind(Constant(value)) for value in ("nan", "inf", 1000.0))
    yield made("nan-129", 3, 129, Normal(5001), Mask("trailing", 40), why=62, tags=_TAGS, operands=nan)
    yield made("nan-between-71", 3, 71, Normal(5002), Mask("odd"), why=64, tags=_TAGS, operands=nan)
    for columns in (2, 3, 5, 9):
        yield made(
            f"narrow-{columns}", 3, columns, Normal(5050 + columns), Mask("even"), why=NARROW, tags=_TAGS, operands=nan
        )
    yield made("infinity-65", 2, 65, Normal(5003), Mask("leading", 20), why=62, tags=_TAGS, operands=infinity)
    yield made(
        "tail-of-nan-128", 2, 128, Normal(5004, 2.0, -3.0), Mask("trailing", 28), why=104, tags=_TAGS, operands=nan
    )
    yield made("peak-33", 2, 33, noise, Mask("even"), why=65, tags=_TAGS, operands=peak)
    below = Normal(5005, 1000.0, -20000.0)
    zero = _behind(Constant(0.0))
    yield made("below-the-sentinel-65", 3, 65, below, Mask("odd"), why=65, tags=_TAGS, operands=zero)
    yield made(
        "below-5e4-17", 2, 17, Normal(5006, 500.0, -54000.0), Mask("leading", 5), why=97, tags=_TAGS, operands=zero
    )
    rest = Normal(5007, 2.0, -200.0)
    largest = _behind(Constant("max"))
    yield made("first-half-257", 2, 257, rest, Mask("leading", 128), why=96, tags=_TAGS, operands=largest)
    for columns in (64, 256):
        # Tiles of a power of two divide these widths without a rest.
        scattered = [Mask("even", row=0), Mask("odd", row=1), Mask("leading", columns // 2, row=2)]
        start = Normal(5010 + columns)
        yield made(f"whole-tiles-{columns}", 4, columns, start, *scattered, why=_WHOLE, tags=_TAGS, operands=peak)
    causal = [Mask("trailing", 24 - row, row=row) for row in range(25)]
    ahead = _behind(Ramp(0.0, 4.0))
    yield made("causal-25", 25, 25, Normal(5008), *causal, why=66, tags=_TAGS, operands=ahead)
    rows = [Mask("all", row=1), Mask("all_but", 30, row=3)]
    of_rows = "a row with everything hidden, between others"
    yield made("one-row-whole-31", 5, 31, Normal(5009), *rows, why=of_rows, tags="mask special", operands=peak)
    yield made("every-row-whole-40", 2, 40, Constant("-inf"), why=6, tags="mask special", operands=peak)
    lowest = [Mask("odd", value="min"), Mask("trailing", 9)]
    yield made("least-finite-visible-33", 2, 33, Normal(5011), *lowest, why=103, tags=_TAGS, operands=zero)
    uneven = [Mask("trailing", 3 * row, row=row) for row in range(9)]
    strided = Layout(row_stride=140, offset=2)
    why = "each row hides another number of columns, in a strided matrix"
    yield made("ragged-strided-129", 9, 129, Normal(5012), *uneven, why=why, tags=_TAGS, layout=strided, operands=nan)


def biases(_fmt: Format) -> Iterator[Draft]:
    """A mask that is added and has values: the sum with the input is exact."""
    steps = Choice(5020, (-3.0, -1.5, -0.5, 0.0, 0.5, 1.0, 2.0))

    def bias(start: AnyGenerator, *then: AnyModifier) -> Operands:
        return Operands(bias=Recipe(start, then))

    thirds = bias(Cycle((0.0, -2.0, 1.0)))
    yield made("three-values-65", 3, 65, steps, why=107, tags="bias", operands=thirds)
    slope = bias(Ramp(0.0, -0.5))
    yield made("slope-64", 3, 64, Choice(5021, (-2.0, 0.0, 0.5, 3.0)), why=107, tags="bias", operands=slope)
    of_rows = bias(Constant(0.0), *(Mask("even", value=float(row), row=row) for row in range(1, 5)))
    why = "each row's bias is another one's"
    yield made("of-each-row-33", 5, 33, Choice(5022, (0.0, 1.0, -1.0)), why=why, tags="bias", operands=of_rows)
    against = bias(Constant(-96.0), Put(3, 96.0), Put(20, 32.0))
    why = "input and bias are large, and their sum is small: a bias added behind the maximum overflows"
    yield made("cancels-40", 2, 40, Choice(5023, (0.0, 1.0, 2.0)), why=why, tags="bias", operands=against)
    half = (Mask("trailing", 20),)
    yield made(
        "with-hidden-50", 2, 50, Choice(5024, (0.0, -4.0, 1.0)), *half, why=107, tags="bias mask", operands=slope
    )
    one = bias(Constant(0.0), Put(0, 64.0))
    why = "the bias alone makes the peak"
    yield made("makes-the-peak-129", 2, 129, Constant(0.0), Put(0, 64.0), why=why, tags="bias", operands=one)


def scales(fmt: Format) -> Iterator[Draft]:
    """A scale as an argument, with logits of the size that it suits."""

    def scale(value: float) -> Operands:
        return Operands(parameters={"scale": value})

    # 0.001 is the temperature of the report, whose products are 42000 and -20000.
    sharp = Choice(5030, (42.0, -20.0, 41.0))
    yield made("temperature-0.001-33", 3, 33, sharp, why=56, tags="scale", operands=scale(1000.0))
    for number, value in enumerate((0.125, 0.3, 0.7, 2.0)):
        start = Normal(5031 + number, 2.0 / value)
        yield made(f"of-{value:g}-65", 2, 65, start, why=57, tags="scale", operands=scale(value))
    for number, size in enumerate((0.5, 16.0, 200.0)):
        start = Normal(5040 + number, size, -2.0 * size)
        yield made(f"spread-{size:g}-40", 2, 40, start, why=59, tags="scale", operands=scale(0.3))
    far = fmt.max / 4 if fmt == FLOAT16 else 2.0**60
    why = "logits whose exponentials are far apart without the scale"
    yield made("huge-logits-17", 2, 17, Normal(5045, far / 8), why=why, tags="scale", operands=scale(4.0 / far))
    why = "differences below 1 ulp of the maximum's size, times the scale"
    yield made("near-ties-24", 2, 24, Normal(5046, 0.01, 6.0), why=why, tags="scale", operands=scale(100.0))
    masked = Operands(parameters={"scale": 0.125}, behind=Recipe(Constant("nan")))
    yield made("masked-70", 3, 70, Normal(5047, 16.0), Mask("trailing", 13), why=61, tags="scale mask", operands=masked)
