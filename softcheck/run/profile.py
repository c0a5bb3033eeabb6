"""One launch for a profiler, after a warm-up and with nothing after it. Runs in the caller's process."""

import torch

from oracles.formats import FORMATS
from softcheck.errors import NothingRunError
from softcheck.speed.inputs import Rotation
from softcheck.speed.samples import Shape
from softcheck.variants.registry import load

_WARM_UP = 3


def profile(variant: str, dtype: str, shape: Shape, seed: int) -> None:
    """Calls a variant once between cudaProfilerStart and cudaProfilerStop, after three calls to warm it up.

    Raises NothingRunError without a CUDA device.
    """
    if not torch.cuda.is_available():
        raise NothingRunError("nothing was profiled: no CUDA device was found; --profile needs a GPU")
    function = load(variant).function
    device = torch.device("cuda")
    x = Rotation(*shape, FORMATS[dtype], seed, device).new_input()
    for _ in range(_WARM_UP):
        function(x)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStart()  # type: ignore[no-untyped-call]
    function(x)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStop()  # type: ignore[no-untyped-call]
