"""Cross-entropy of a row in ball arithmetic (Arb through python-flint), with every option: a proven enclosure.

With x' = c tanh(f x / c) for a scale f and a soft cap c, and x' = f x without a cap, w the class weights, s the label smoothing, n the columns, t the
target and lse = log(sum exp x'):

    (1 - s) w_t (lse - x'_t) + (s / n) sum_c w_c (lse - x'_c) + z lse^2
"""

from collections.abc import Sequence

import flint
import numpy as np

from oracles._enclosure import Ball
from oracles.formats import Values
from oracles.reference import Reference, stated

__all__ = ["ZERO", "Ball", "loss", "reference"]

_PRECISION = 160

ZERO: Ball = flint.arb(0)
"""The loss of a row that has no part in a mean or a sum."""


def loss(
    row: Values,
    target: int,
    weights: Values,
    *,
    smoothing: float = 0.0,
    z_loss: float = 0.0,
    scale: float = 1.0,
    softcap: float = 0.0,
    divisors: tuple[float, float] = (1.0, 1.0),
) -> Ball:
    """A ball that contains the loss of a 1-D float64 row and its target; all parameters enter exactly, 0 leaves one out.

    Logits of -inf have no part in the sum, and the result is meant for rows whose loss is finite. ``weights`` are those of
    the columns, [columns]. The ``divisors`` are those of the first two terms and of the last, as in a mean.
    """
    with flint.ctx.workprec(_PRECISION):
        cap = flint.arb(softcap)
        finite = np.isfinite(row)
        logits = [flint.arb(x) for x in row[finite].tolist()]
        if scale != 1:
            logits = [flint.arb(scale) * x for x in logits]
        if softcap:
            logits = [cap * (x / cap).tanh() for x in logits]
        top = logits[int(np.argmax(row[finite]))]
        lse = top + sum((x - top).exp() for x in logits).log()
        place = int(finite[:target].sum())
        share = flint.arb(smoothing)
        found = (1 - share) * flint.arb(float(weights[target])) * (lse - logits[place])
        if smoothing:
            smooth = flint.arb(0)
            for logit, weight in zip(logits, weights[finite].tolist(), strict=True):
                smooth += weight * (lse - logit)
            found += share * smooth / len(row)
        return found / flint.arb(divisors[0]) + flint.arb(z_loss) * lse * lse / flint.arb(divisors[1])


def reference(parts: Sequence[Sequence[Ball]]) -> Reference:
    """The reference with one answer for each row, [rows, 1], from the balls whose sum it is; their ends are finite."""
    with flint.ctx.workprec(_PRECISION):
        balls = [sum(of_row, flint.arb(0)) for of_row in parts]
        high = np.array([float(ball.mid()) for ball in balls]).reshape(-1, 1)
        low = np.array([float(ball.mid() - one) for ball, one in zip(balls, high[:, 0].tolist(), strict=True)])
        radius = np.array([float(ball.rad()) for ball in balls])
    error = radius * (1 + 2.0**-40) + 2.0**-105 * np.abs(high[:, 0])
    # A ball that is one number, such as the loss of a row without a target, has no error.
    error[(radius == 0) & (low == 0)] = 0.0
    return stated(high, error.reshape(-1, 1), low.reshape(-1, 1))
