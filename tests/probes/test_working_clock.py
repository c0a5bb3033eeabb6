"""The clock for limits of time leaves out what Triton compiles for on a GPU, up to its allowance."""

import pytest

from softcheck.probes.base import Setting
from softcheck.probes.working_clock import WorkingClock
from softcheck.toolchain.compile_seconds import METER
from softcheck.variants.declaration import Declaration


@pytest.mark.parametrize(("backend", "passed"), [("cuda", (1.0, 3.0)), ("interpreter", (3.0, 8.0))])
def test_the_clock_stands_still_while_triton_compiles(monkeypatch, backend, passed):
    seconds = [100.0]
    monkeypatch.setattr(Setting, "now", lambda _: seconds[0])
    monkeypatch.setattr(METER, "waited", 7.0)
    clock = WorkingClock(Setting(declaration=Declaration(), dtype="float32", backend=backend), allowance=5.0)
    begun, found = clock(), []
    for compiled, in_all in ((2.0, 3.0), (6.0, 8.0)):
        METER.waited, seconds[0] = 7.0 + compiled, 100.0 + in_all
        found.append(clock() - begun)
    assert tuple(found) == passed
