"""Imported once by a fork server, so that each worker forked from it finds torch, Triton and probes. Opens no device.

Triton's own functions are decorated while it is imported, so whether it interprets or compiles is decided before.
"""

import os
from pathlib import Path

from softcheck.run.forking import DEVICE_VARIABLE

if DEVICE_VARIABLE in os.environ:
    # In the server, whose own output is nobody's.
    with Path(os.devnull).open("wb") as nothing:
        for standard in (1, 2):
            os.dup2(nothing.fileno(), standard)

os.environ.pop("TRITON_INTERPRET", None)
# There is a worker for each core. OpenBLAS reads this once, when numpy loads it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import torch

for_gpu = (
    os.environ.get(DEVICE_VARIABLE) != "interpreter"
    and torch.version.cuda is not None
    and Path("/dev/nvidiactl").exists()
)
"""True if Triton compiles for a GPU."""
if not for_gpu:
    os.environ["TRITON_INTERPRET"] = "1"

import torch.fx.experimental.symbolic_shapes  # noqa: E402 - the first gradient in a process would import it
import triton  # noqa: E402, F401 - a worker finds it imported

from softcheck.probes import registry  # noqa: E402
from softcheck.run import worker  # noqa: E402, F401

for probe in registry.PROBES:
    registry.load(probe)
