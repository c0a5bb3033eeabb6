"""Judgement on the device by a weaker arithmetic, of rows that break the standard contract.

The device judge's kernels know only the standard contract. Most rows that break it keep a weaker one beyond doubt,
which plain torch shows (``screen``); the numpy judge decides the rest.
"""

import msgspec
import torch

from oracles.formats import Format
from oracles.reference import FullyMasked
from softcheck.calling.call import to_bits
from softcheck.contract import BOUNDED_KINDS, Violation
from softcheck.judge.device.screen import passing
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement
from softcheck.judge.merge import moved
from softcheck.operations.arithmetic import Arithmetic

_MOST_ELEMENTS = 1 << 22
"""Elements that the numpy judge judges at most; it takes some 30 million elements a second."""


def by_weaker(
    standard: Measurement,
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    fully_masked: FullyMasked,
    arithmetic: Arithmetic,
) -> Measurement:
    """Returns the measurement with the violations of ``arithmetic`` in place of the standard contract's.

    ``x`` and ``y`` are [rows, columns] on one device. ``max_bound_share`` becomes that of the rows that the numpy judge
    judged, None if there were none; the device's own becomes ``max_standard_share``. If these rows hold more than 2^22
    elements, only the first are judged, and the messages say so.
    """
    share = standard.max_bound_share
    kept = tuple(v for v in standard.violations if v.kind not in BOUNDED_KINDS)
    found = msgspec.structs.replace(
        standard,
        contract=arithmetic,
        max_standard_share=None if share is None else share.value,
        max_bound_share=share if share is not None and share.value <= 1 else None,
        violations=kept,
        sum_violations=0,
    )
    if len(kept) == len(standard.violations):
        return found
    # Rows with NaN or +inf have no bound, and outputs of NaN or infinity are found already.
    bounded = (x < float("inf")).all(dim=1) & torch.isfinite(y).all(dim=1)
    left = torch.nonzero(~passing(x, y, fmt, arithmetic) & bounded).flatten()
    chosen = left[: max(1, _MOST_ELEMENTS // x.shape[1])]
    rows = chosen.tolist()
    if not rows:
        return found
    inputs, outputs = to_bits(x[chosen], fmt), to_bits(y[chosen], fmt)
    judged = judge(inputs, outputs, fmt, fully_masked=fully_masked, arithmetic=arithmetic)
    judged = moved(judged, rows.__getitem__)
    more = len(left) - len(rows)
    violations = tuple(_limited(v, more) for v in judged.violations if v.kind in BOUNDED_KINDS)
    return msgspec.structs.replace(
        found,
        max_bound_share=judged.max_bound_share,
        sum_violations=judged.sum_violations,
        violations=(*kept, *violations),
        rejudged_rows=found.rejudged_rows + len(rows),
    )


def _limited(violation: Violation, more: int) -> Violation:
    if not more:
        return violation
    message = f"{violation.message}; {more} more rows that may break the bound were not looked at"
    return msgspec.structs.replace(violation, message=message)
