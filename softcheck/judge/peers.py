"""The verdicts of two usual rules on an output: flash-attention's, and ``torch.testing.assert_close``'s.

Flash-attention's tests accept an output y if max |y - r| <= f max |p - r| + 2 max |(r + 0.3 - 0.3) - r|, all in the output's dtype, where p is
the same formula by single operations in that dtype, r the formula in float32, rounded, and f is 2, or 3 with a soft cap
(Dao-AILab/flash-attention, hopper/test_flash_attn.py, ``test_flash_attn_output``). Here r is the exact answer, rounded. The rule is for formats of
16 bits. ``assert_close`` compares y with r by the tolerances of the dtype (torch.testing's documentation has the table).
"""

from collections.abc import Mapping

import torch

TWICE = "2x"
CLOSE = "assert_close"


def verdicts(y: torch.Tensor, r: torch.Tensor, p: torch.Tensor, *, softcap: bool = False) -> Mapping[str, bool]:
    """Returns True for each rule that accepts an output; a rule that can't judge it is absent.

    Outputs, exact answers rounded and the plain computation are of one shape and one dtype; exact answers are finite. A plain computation
    that isn't finite leaves flash-attention's rule without a measure.
    """
    found: dict[str, bool] = {}
    if not y.numel():
        return found
    if y.dtype.itemsize == 2 and bool(p.isfinite().all()):
        allowed = (3 if softcap else 2) * _off(p, r) + 2 * _off(r + 0.3 - 0.3, r)
        found[TWICE] = _off(y, r) <= allowed
    try:
        torch.testing.assert_close(y, r)
    except AssertionError:
        found[CLOSE] = False
    else:
        found[CLOSE] = True
    return found


def _off(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference, in the tensors' dtype; NaN if one is."""
    return float((first - second).abs().max())
