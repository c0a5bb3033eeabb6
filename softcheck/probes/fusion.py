"""Kernels compiled with and without fused multiply and add.

Triton 3.10 changes its default, so both must keep the bounds. A launch that sets the option itself is left as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from oracles.formats import Bits, encode
from softcheck.calling.call import Returned, to_bits
from softcheck.contract import Violation
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import judged
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome
from softcheck.probes.same_bits import same_bits
from softcheck.toolchain.interpreter import wrapped

PROPERTY = "fusion_invariant"

_COLUMNS = 1000
_ROWS = 64

_LARGE = {"float16": 6e4, "bfloat16": 1e14, "float32": 1e14, "float64": 1e30}
"""Logits so large that a product recomputed without rounding differs from the stored maximum by many units."""

_UNAVAILABLE = f"{NOTHING_TO_TRY}is judged on a GPU alone, since the interpreter never fuses"
_NO_KERNEL = f"{NOTHING_TO_TRY}launches no Triton kernel of its own, so that there is no fusion to choose"


def _magnitudes(setting: Setting) -> list[tuple[str, float]]:
    return [("ordinary", 0.0), ("large", _LARGE[setting.dtype])] if setting.takes(_COLUMNS) else []


def _compiled_both_ways(subject: Subject, magnitude: float) -> Iterator[Outcome | None]:
    if not subject.setting.on_gpu:
        yield Outcome(skipped=_UNAVAILABLE)
    fmt, bits = subject.setting.fmt, _logits(subject.setting, magnitude)
    found: dict[bool, Returned] = {}
    for fused in (True, False):
        with choosing(fused=fused) as launches:
            found[fused] = judged(subject, bits)
        yield None if launches else Outcome(skipped=_NO_KERNEL)
        yield Outcome(violations=found[fused].violations, fatal=True) if found[fused].fatal else None
    outputs = [to_bits(call.output, fmt) for call in found.values() if call.output is not None]
    same = {PROPERTY: bool(same_bits(outputs[0], outputs[1], fmt).all())} if len(outputs) == len(found) else {}
    yield Outcome(violations=_by_compilation(found), properties=same)


PROBE = TrialTable(_magnitudes, _compiled_both_ways)


def _by_compilation(found: dict[bool, Returned]) -> tuple[Violation, ...]:
    """Merges the violations of both compilations by kind, and names the compilations that show each kind."""
    kinds = {fused: {violation.kind for violation in call.violations} for fused, call in found.items()}
    both = kinds[True] & kinds[False]
    alone = [v for v in found[False].violations if v.kind not in both]
    return (
        *prefixed([v for v in found[True].violations if v.kind in both], "with and without fused multiply and add"),
        *prefixed([v for v in found[True].violations if v.kind not in both], "compiled with fused multiply and add"),
        *prefixed(alone, "compiled without fused multiply and add"),
    )


@contextmanager
def choosing(*, fused: bool) -> Iterator[list[str]]:
    """Compiles every launch that leaves fusion to Triton's default as asked; yields the names of the launched kernels.

    The choice is an option of the launch, and so a part of the key under which Triton keeps compiled kernels.
    """
    launched: list[str] = []

    def run(original: Any, kernel: Any, *args: Any, **options: Any) -> Any:
        launched.append(kernel.fn.__name__)
        options.setdefault("enable_fp_fusion", fused)
        return original(kernel, *args, **options)

    with wrapped({(JITFunction, "run"): run}):
        yield launched


def _logits(setting: Setting, magnitude: float) -> Bits:
    if magnitude == 0.0:
        return ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    generator = np.random.default_rng(setting.seed)
    return encode(magnitude * generator.uniform(0.5, 1.0, (_ROWS, _COLUMNS)), setting.fmt)
