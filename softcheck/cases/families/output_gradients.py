"""Families of the backwards of softmax and log_softmax: gradients of the output, outputs that are no softmax.

There are none in float64, in which the operands of all other families are drawn.
"""

from collections.abc import Iterator

from oracles.formats import FLOAT64, Format
from softcheck.cases.case import Layout
from softcheck.cases.families.draft import NARROW, Draft, made
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import (
    AnyGenerator,
    AnyModifier,
    Choice,
    Constant,
    Cycle,
    Mask,
    Normal,
    OneHot,
    Put,
    Ramp,
    RowConstants,
    Uniform,
)
from softcheck.cases.recipe import Recipe as Made


def _grad(start: AnyGenerator, *then: AnyModifier) -> Operands:
    return Operands(grad=Made(start, then))


def gradients_of_softmax(fmt: Format) -> Iterator[Draft]:
    """Constant, varying, sparse and large gradients of a softmax, and outputs that do not sum to 1."""
    if fmt == FLOAT64:
        return
    yield from _shared(6000)
    halves = Operands(y=Made(Uniform(5320, 0.0, 0.125)), grad=Made(Normal(5321)))
    yield made("of-no-sum-of-1-24", 3, 24, Normal(5322), why=71, operands=halves)
    doubled = Operands(y=Made(Constant(0.25)), grad=Made(Cycle((1.0, -1.0, 0.5))))
    yield made("of-a-sum-of-8-32", 2, 32, Constant(0.0), why=71, operands=doubled)
    certain = OneHot(-200.0, 0.0, 4)
    why = "an output of 1 and zeros has a gradient of 0"
    yield made("of-one-column-17", 2, 17, certain, why=why, operands=_grad(Normal(5323)))
    small = "outputs down to subnormal ones"
    yield made("of-small-outputs-40", 2, 40, Ramp(0.0, -0.5), why=small, operands=_grad(Normal(5324, 4.0)))


def gradients_of_log_softmax(fmt: Format) -> Iterator[Draft]:
    """Constant, varying and sparse gradients of a log-softmax, as losses have them."""
    if fmt == FLOAT64:
        return
    yield from _shared(7000)
    at_target = _grad(Constant(0.0), *(Put(5 * row, -1.0, row=row) for row in range(5)))
    why = "the gradient of a negative log-likelihood"
    yield made("of-a-likelihood-33", 5, 33, Normal(5370), why=why, operands=at_target)
    shares = _grad(Constant(-0.015625), Put(7, -0.5))
    yield made("of-smoothed-labels-32", 2, 32, Normal(5371), why=74, operands=shares)
    none = _grad(Choice(5372, (1.0, -1.0)), Mask("even", value=0.0))
    yield made("of-few-columns-70", 3, 70, Normal(5373), why=90, operands=none)
    masked = (Mask("trailing", 30),)
    why = "masked columns have gradients of their own"
    yield made("of-masked-columns-65", 2, 65, Normal(5374), *masked, why=why, tags="mask", operands=_grad(Normal(5375)))


def _shared(seed: int) -> Iterator[Draft]:
    yield made("of-one-33", 3, 33, Normal(seed), why=83, operands=_grad(Constant(1.0)))
    yield made("of-a-quarter-65", 2, 65, Normal(seed + 1), why=84, operands=_grad(Constant(0.25)))
    for columns in (2, 3, 5, 9):
        few = _grad(Normal(seed + 30 + columns, 2.0))
        yield made(f"narrow-{columns}", 3, columns, Normal(seed + 20 + columns), why=NARROW, operands=few)
    rows = _grad(RowConstants((1.0, -2.0, 0.0, 0.5)))
    yield made("of-each-row-40", 4, 40, Normal(seed + 2), why=84, operands=rows)
    for columns, report in ((129, 78), (551, 70), (563, 70), (100, 73)):
        drawn = _grad(Normal(seed + 3 + columns))
        name = f"varying-{columns}"
        yield made(name, 3, columns, Normal(seed + 4 + columns, 2.0), why=report, operands=drawn)
    beside = [Mask("all", row=1)]
    yield made(
        "beside-a-masked-row-24",
        4,
        24,
        Normal(seed + 5),
        *beside,
        why=60,
        tags="mask special",
        operands=_grad(Normal(seed + 6)),
    )
    last = _grad(Constant(0.0), Put(-1, 1.0))
    why = "the last column alone has a gradient"
    yield made("of-the-last-column-65", 2, 65, Normal(seed + 7, 0.5), Put(-1, 2.0), why=why, operands=last)
    large = _grad(Cycle((100.0, -100.0)))
    why = "large terms of both signs, whose sum cancels"
    yield made("alternating-128", 2, 128, Normal(seed + 8, 0.25), why=why, operands=large)
    first = _grad(Normal(seed + 9), Mask("all", value=0.0, row=0))
    why = "the first row's sum is not the others'"
    yield made("zero-in-the-first-row-31", 4, 31, Normal(seed + 10), why=why, operands=first)
    picked = (Put(3, -0.5, row=0), Put(9, -0.5, row=0), Put(1, -0.5, row=2), Put(0, -0.5, row=3))
    why = "two numbers in a row, none in the next and one in others: as many as rows, and not one in each"
    sparse = _grad(Constant(0.0), *picked)
    yield made("as-many-as-rows-30", 4, 30, Normal(seed + 13), why=why, operands=sparse)
    strided = Layout(row_stride=80, offset=3)
    yield made(
        "strided-70",
        3,
        70,
        Normal(seed + 11),
        why=81,
        tags="strided",
        layout=strided,
        operands=_grad(Normal(seed + 12)),
    )
