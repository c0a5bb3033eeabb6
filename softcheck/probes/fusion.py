"""Kernels compiled with and without fused multiply and add: Triton 3.10 changes its default, and both must keep the bounds.

A launch that asks for one of them itself is left as it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from oracles.formats import Bits, encode
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.judged import judged
from softcheck.probes.kit import ordinary_rows, prefixed, same_bits
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.relations import conclude_by_kind

PROPERTY = "fusion_invariant"

_COLUMNS = 1000
_ROWS = 64

_LARGE = {"float16": 6e4, "bfloat16": 1e14, "float32": 1e14, "float64": 1e30}
"""Logits so large that a product recomputed without rounding differs from the stored maximum by many units."""

_UNAVAILABLE = "the interpreter never fuses: fusion is judged on a GPU alone"
_NO_KERNEL = "launches no Triton kernel of its own, so that there is no fusion to choose"


class _Fusion(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        return [Trial("ordinary", 0.0), Trial("large", _LARGE[setting.dtype])] if setting.takes(_COLUMNS) else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if not subject.setting.on_gpu:
            return Outcome(skipped=_UNAVAILABLE)
        fmt = subject.setting.fmt
        bits = _logits(subject.setting, trial.parameters)
        outputs: list[Bits | None] = []
        for fused in (True, False):
            with choosing(fused=fused) as launches:
                found = judged(subject, bits)
            if not launches:
                return Outcome(skipped=_NO_KERNEL)
            if found.violations or found.output is None:
                words = f"compiled {'with' if fused else 'without'} fused multiply and add"
                return Outcome(violations=prefixed(found.violations, words), fatal=found.fatal)
            outputs.append(found.bits(fmt))
        with_fusion, without = outputs
        assert with_fusion is not None
        assert without is not None
        return Outcome(properties={PROPERTY: bool(same_bits(with_fusion, without, fmt).all())})

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        return conclude_by_kind(done)


PROBE = _Fusion()


@contextmanager
def choosing(*, fused: bool) -> Iterator[list[str]]:
    """Every launch that leaves fusion to Triton's default is compiled as asked; yields the names of kernels launched.

    The choice is an option of the launch, and so a part of the key under which Triton keeps compiled kernels.
    """
    launched: list[str] = []
    original = JITFunction.run

    def run(kernel: Any, *args: Any, **options: Any) -> Any:
        launched.append(kernel.fn.__name__)
        options.setdefault("enable_fp_fusion", fused)
        return original(kernel, *args, **options)

    JITFunction.run = run
    try:
        yield launched
    finally:
        JITFunction.run = original


def _logits(setting: Setting, magnitude: float) -> Bits:
    if magnitude == 0.0:
        return ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    generator = np.random.default_rng(setting.seed)
    return encode(magnitude * generator.uniform(0.5, 1.0, (_ROWS, _COLUMNS)), setting.fmt)
