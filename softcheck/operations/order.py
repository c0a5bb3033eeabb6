"""Order: a larger logit must not get a smaller probability, beyond what the error bounds allow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Values


@dataclass(frozen=True, slots=True)
class Disorder:
    """Elements that stand below an element of a smaller logit. All of shape [rows, columns]."""

    excess: Values
    """y_j - y_i less the two bounds' sum, for the worst j with x_j < x_i; -inf if there is no such j."""
    rival: NDArray[np.int64]
    """Column of that j; meaningless where the excess is -inf."""


def disorder(logits: Values, output: Values, bound: Values, taking_part: NDArray[np.bool_]) -> Disorder:
    """Compares each element with all elements of smaller logits in its row, in O(n log n).

    ``bound`` holds absolute error bounds. Where x_i > x_j, exact softmax has r_i >= r_j, and so
    y_j - y_i = (y_j - r_j) - (r_i - r_j) - (y_i - r_i) <= b_j + b_i as long as both elements keep their bounds: a row in
    which every element keeps its bound shows no excess above 0, and needs no call. Elements that don't take part
    (masked, or not finite in the output) are neither compared nor compared with.
    """
    order = np.argsort(logits, axis=1, kind="stable")
    logits = np.take_along_axis(logits, order, axis=1)
    output = np.take_along_axis(output, order, axis=1)
    bound = np.take_along_axis(bound, order, axis=1)
    taking_part = np.take_along_axis(taking_part, order, axis=1)

    lowest = np.where(taking_part, output - bound, -np.inf)
    highest = np.where(taking_part, output + bound, np.inf)
    columns = np.broadcast_to(np.arange(logits.shape[1]), logits.shape)
    new_logit = np.ones(logits.shape, dtype=np.bool_)
    new_logit[:, 1:] = logits[:, 1:] > logits[:, :-1]
    group_start = np.maximum.accumulate(np.where(new_logit, columns, 0), axis=1)

    best = np.maximum.accumulate(lowest, axis=1)
    improves = np.ones(logits.shape, dtype=np.bool_)
    improves[:, 1:] = lowest[:, 1:] > best[:, :-1]
    holder = np.maximum.accumulate(np.where(improves, columns, 0), axis=1)

    before = np.maximum(group_start - 1, 0)
    smaller = np.where(group_start > 0, np.take_along_axis(best, before, axis=1), -np.inf)
    excess = np.where(taking_part & (smaller > -np.inf), smaller - highest, -np.inf)
    rival = np.take_along_axis(order, np.take_along_axis(holder, before, axis=1), axis=1)

    unsorted_excess, unsorted_rival = np.empty_like(excess), np.empty_like(rival)
    np.put_along_axis(unsorted_excess, order, excess, axis=1)
    np.put_along_axis(unsorted_rival, order, rival, axis=1)
    return Disorder(unsorted_excess, unsorted_rival)
