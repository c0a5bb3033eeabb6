"""Storage of large inputs as recipes if one gives the same bits, and their refusal if none does."""

import msgspec
import numpy as np

from oracles.formats import Bits, Format, decode
from softcheck.cases.case import Case
from softcheck.cases.recipe import AnyModifier, Constant, Number, Put, Recipe

_READABLE = 256
"""Elements that a reader still takes in as bits."""
_MOST_EXCEPTIONS = 16


def compacted(case: Case, origin: Case | None = None) -> Case:
    """Returns the same input as a recipe if its bits are many and a recipe gives them; otherwise the case itself.

    Two recipes are tried: that of ``origin``, the case that this one was made from, and one value with a few
    exceptions.
    """
    rows, columns = case.shape
    if case.rows is None or rows * columns <= _READABLE:
        return case
    bits = case.bits()
    tried = [recipe for recipe in (None if origin is None else origin.recipe, _one_value(bits, case.format)) if recipe]
    for recipe in tried:
        if np.array_equal(recipe.bits(rows, columns, case.format), bits):
            return msgspec.structs.replace(case, rows=None, recipe=recipe)
    return case


def _one_value(bits: Bits, fmt: Format) -> Recipe | None:
    """Returns a recipe of the commonest value with the other values put in; None if too many values differ from it."""
    patterns, counts = np.unique(bits, return_counts=True)
    commonest = patterns[counts.argmax()]
    places = np.argwhere(bits != commonest)
    if len(places) > _MOST_EXCEPTIONS:
        return None
    values = decode(bits, fmt)
    exceptions: list[AnyModifier] = [
        Put(column=int(j), value=_number(float(values[i, j])), row=int(i)) for i, j in places
    ]
    return Recipe(Constant(_number(float(decode(np.array([commonest]), fmt)[0]))), tuple(exceptions))


def _number(value: float) -> Number:
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
