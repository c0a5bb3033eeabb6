"""A clock for limits of time that stands still while Triton compiles, so that a cold cache does not cut a plan short."""

from softcheck.probes.base import Setting
from softcheck.toolchain.compile_seconds import METER


class WorkingClock:
    """Seconds of a setting's clock, less those that calls on a GPU have waited for kernels since it was made.

    No more than ``allowance`` seconds are left out: a variant that compiles a kernel for each size has its limits too.
    """

    def __init__(self, setting: Setting, allowance: float) -> None:
        self._setting = setting
        self._allowance = allowance if setting.on_gpu else 0.0
        self._waited_before = METER.waited

    def __call__(self) -> float:
        """Returns the seconds."""
        return self._setting.now() - min(METER.waited - self._waited_before, self._allowance)
