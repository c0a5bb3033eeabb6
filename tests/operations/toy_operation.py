"""log_softmax as an operation of one's own: its formula, its oracle, and the rules and probes that it has beside."""

import numpy as np
import torch

from softcheck.operations.bounds import log_softmax
from softcheck.operations.formula import from_formula
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, ORDERED, WITHIN_BOUND, in_range


def enclosure(row):
    top = max(row)
    total = top + sum((x - top).exp() for x in row).log()
    return [x - total for x in row]


LOG_SOFTMAX = from_formula(
    log_softmax,
    enclosure,
    lambda x: torch.log_softmax(x, dim=-1),
    families=("normal", "padding", "special", "finfo-min", "shifted", "ties", "one-column", "empty"),
    relations=("shifts", "permutations", "appended_masks"),
    rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, in_range(-np.inf, 0.0), ORDERED),
)
