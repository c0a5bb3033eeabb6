"""Forward-mode derivatives, as ``torch.func.jvp`` and Hessians take them: a part of the probe ``gradients``."""

import warnings

import numpy as np
import torch
from torch.autograd import forward_ad

from oracles.formats import decode
from softcheck.calling import activity
from softcheck.calling.call import is_usable, place, synchronize, to_tensor
from softcheck.calling.state import preserved
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged_gradients import allowed_roundings
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.variants.source import source_of

_SHAPE = (3, 5)
"""Few columns, so that no probability is small and a mean of the wrong kind shows in 16 bits."""


def of_forward_mode(subject: Subject) -> Outcome:
    """Compares the derivative along a tangent with torch's in float64, where the source has a rule of its own for it.

    What raises, or has no tangent, is no finding: nothing promises one.
    """
    setting, fmt = subject.setting, subject.setting.fmt
    rows, columns = _SHAPE
    if not source_of(subject.variant.function).mentions("jvp") or not setting.takes(columns):
        return Outcome()
    bits, along = (ordinary_rows(rows, columns, fmt, (setting.seed + number) % 2**32) for number in (0, 3))
    x, tangent = place(bits, fmt, PACKED, subject.device).view, to_tensor(along, fmt, subject.device)
    try:
        with preserved(), nan_filled(), activity.calling(), forward_ad.dual_level(), warnings.catch_warnings():
            # torch loads its own rules by torch.jit.script, of which it warns.
            warnings.simplefilter("ignore", DeprecationWarning)
            output = subject.variant.function(forward_ad.make_dual(x, tangent))  # type: ignore[no-untyped-call]
            found = forward_ad.unpack_dual(output).tangent  # type: ignore[no-untyped-call]
            synchronize(subject.device)
    except Exception:  # noqa: BLE001 - a rule that raises is not silently wrong
        return Outcome(fatal=not is_usable(subject.device))
    if found is None:
        return Outcome()
    answer = setting.operation.yardstick
    of_float64, change = (torch.from_numpy(decode(each, fmt)) for each in (bits, along))
    # A row's numbers depend on that row alone.
    whole = torch.autograd.functional.jacobian(answer, of_float64)  # type: ignore[no-untyped-call]
    each_row = torch.arange(rows)
    jacobian = whole[each_row, :, each_row]
    exact = (jacobian @ change[..., None])[..., 0].numpy()
    size = (jacobian.abs() @ change.abs()[..., None])[..., 0].numpy()
    allowed = size * allowed_roundings(columns, fmt) + fmt.least_normal
    values = found.detach().to(torch.float64).cpu().reshape(exact.shape).numpy()
    share = np.where(np.isfinite(values), np.abs(values - exact) / allowed, np.inf)
    if share.max() <= 1:
        return Outcome()
    at = tuple(int(i) for i in np.unravel_index(np.argmax(share), share.shape))
    message = (
        f"the forward-mode derivative along a tangent: row {at[0]}, column {at[1]}: {values[at]:.9g}, expected {exact[at]:.9g} "
        f"within {allowed[at]:.3g}"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))
