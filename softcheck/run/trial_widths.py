"""Calls of a variant at one width, on the parent's request, to measure the compile time of its kernels."""

import time
from collections.abc import Iterator

import numpy as np
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import Launched, launch, place
from softcheck.cases.case import PACKED
from softcheck.errors import UninterpretableError
from softcheck.operations.operation import Operation
from softcheck.run.protocol import Reply, TryWidth, WidthTried
from softcheck.toolchain.compile_seconds import METER
from softcheck.variants.registry import LoadedVariant

_ROWS = 2


def unsplit(operation: Operation, columns: int) -> int:
    """The widest row of up to so many columns that a call gets as one row; most rows are split where it takes a matrix for each.

    It is more than half as wide, so that a block that is a power of two is the same.
    """
    if operation.matrix is None:
        return columns
    return next((n for n in range(columns, columns // 2, -1) if operation.matrix(n)[1] == n), columns)


def try_width(request: TryWidth, variant: LoadedVariant, device: torch.device) -> Iterator[Reply]:
    """Calls the variant on two rows of zeros. Cases and probes judge the call, not this.

    The seconds are those that its Triton kernels took to compile. If it launches no Triton kernel, they are the seconds
    by which the first call took longer than the second.
    """
    fmt = FORMATS[request.dtype]
    columns = unsplit(variant.operation, request.columns)
    placed = place(np.zeros((_ROWS, columns), dtype=fmt.storage), fmt, PACKED, device)

    def call() -> tuple[Launched | None, float]:
        begun = time.perf_counter()
        try:
            launched = launch(variant.function, placed, variant.operation, wait=True)
        except UninterpretableError:
            launched = None
        return launched, time.perf_counter() - begun

    METER.reset()
    launched, first = call()
    if launched is None or launched.output is None or launched.fatal:
        yield WidthTried(seconds=None, fatal=launched is not None and launched.fatal)
        return
    seconds: float | None
    if METER.kernels:
        seconds = None if METER.has_unknown else METER.seconds
    else:
        launched, again = call()
        seconds = max(0.0, first - again)
    yield WidthTried(seconds=seconds, of_compiler=METER.kernels > 0, fatal=launched is not None and launched.fatal)
