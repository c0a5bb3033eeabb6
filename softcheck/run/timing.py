"""Times variants on a GPU beside torch.softmax and a device copy, in the same rounds, with the input out of L2."""

import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from oracles.formats import FORMATS, Bits, decode
from oracles.reference import Reference
from softcheck.cases.case import Layout
from softcheck.cases.recipe import Normal, Recipe
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.judge.judge import judge, reference
from softcheck.probes.poison import nan_filled
from softcheck.run.protocol import Done, Reply, Time, Timed, TimedBaselines
from softcheck.variants.call import describe, place, to_bits

_WARM_UP = 5
_ROUNDS = 30
_JUDGED_ROWS = 64

Launch = Callable[[], object]


def measure(
    functions: dict[str, Callable[[torch.Tensor], Any]], request: Time, device: torch.device
) -> Iterator[Reply]:
    """Yields one Timed per variant, then the baselines and Done. Only a judged output is timed.

    Before each timed launch twice the L2 is overwritten; each figure is the median over rounds, in each of which every
    contender runs once, in random order. Seconds are those between two device events around the call, so they hold the
    launch where the device waits for it.
    """
    if device.type != "cuda":
        raise UsageError("timing needs a CUDA device; under the interpreter only logic is checked")
    fmt = FORMATS[request.dtype]
    bits = Recipe(Normal(seed=request.seed, scale=2.0)).bits(_JUDGED_ROWS, request.columns, fmt)
    block = place(bits, fmt, Layout(), device).view
    view = block.repeat(-(-request.rows // _JUDGED_ROWS), 1)[: request.rows].contiguous()
    exact = reference(decode(bits, fmt), fmt, "nan")
    contenders: dict[str, Launch] = {}
    for name, function in functions.items():
        reason = _unfit(function, view, bits, exact)
        if reason is None:
            contenders[name] = lambda function=function: function(view)  # type: ignore[misc]
        else:
            yield Timed(name, None, reason)
    target = torch.empty_like(view)
    baselines: dict[str, Launch] = {
        "\0copy": lambda: target.copy_(view),
        "\0torch": lambda: torch.softmax(view, dim=-1),
    }
    failed: dict[str, str] = {}
    seconds = _interleaved({**contenders, **baselines}, device, request.seed, failed)
    for name in contenders:
        yield Timed(name, seconds.get(name), failed.get(name))
    yield TimedBaselines(seconds["\0copy"], seconds["\0torch"])
    yield Done()


def _unfit(function: Callable[[torch.Tensor], Any], view: torch.Tensor, bits: Bits, exact: Reference) -> str | None:
    """Why a variant may not be timed on an input whose first rows are ``bits``, or None. One failure loses no other's."""
    fmt = FORMATS[str(view.dtype).removeprefix("torch.")]
    try:
        with nan_filled():
            output = function(view)
        torch.cuda.synchronize(view.device)
        judged = judge(bits, to_bits(output[: len(bits)], fmt), fmt, fully_masked="nan", reference=exact)
        # The rest repeats the judged rows; a row that was left out holds NaN, one that was not computed misses 1 by far.
        off = (output.sum(dim=1, dtype=torch.float64) - 1).abs()
    except Exception as error:  # noqa: BLE001 - whatever a variant raises is a reason
        return describe(error)
    wrong = next((v for v in judged.violations if v.kind not in _INACCURATE), None)
    if wrong is not None:
        return f"the output on the timed shape is wrong: {wrong.message}"
    skipped = ~(off < _MOST_OFF)
    if bool(skipped.any()):
        row = int(skipped.nonzero()[0, 0])
        return f"the output on the timed shape is wrong: row {row} of {len(skipped)} sums to no probability"
    return None


_INACCURATE = frozenset({FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION, FindingKind.ORDER_VIOLATION})
"""An inaccurate kernel that does all the work may be timed; one that skips work may not."""

_MOST_OFF = 0.1
"""A row whose sum misses 1 by more was not computed: far beyond rounding, which the judge has looked at."""


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _interleaved(
    contenders: dict[str, Launch], device: torch.device, seed: int, failed: dict[str, str]
) -> dict[str, float]:
    """Median seconds by name. A contender that raises is left out from then on, its reason in ``failed``."""
    properties = torch.cuda.get_device_properties(device)
    flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device=device)
    for name in contenders:
        for _ in range(_WARM_UP):
            _launch(name, contenders, failed)
    order = list(contenders)
    shuffler = random.Random(seed)  # noqa: S311 - an order, not a secret
    spans: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(_ROUNDS):
        shuffler.shuffle(order)
        for name in order:
            flush.fill_(round_number % 251 + 1)
            begin, end = _event(), _event()
            begin.record()
            _launch(name, contenders, failed)
            end.record()
            end.synchronize()
            spans[name].append(begin.elapsed_time(end) / 1e3)
    return {name: statistics.median(times) for name, times in spans.items() if name not in failed}


def _launch(name: str, contenders: dict[str, Launch], failed: dict[str, str]) -> None:
    if name in failed:
        return
    try:
        contenders[name]()
    except Exception as error:  # noqa: BLE001 - whatever a variant raises is a reason
        failed[name] = f"raised while it was timed: {describe(error)}"
