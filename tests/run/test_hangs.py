"""A variant that never answers costs little, and what is not its time is not counted as its own."""

import time

import numpy as np
import pytest

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind
from softcheck.run.patience import HANG_SECONDS, Patience
from softcheck.run.process import waits
from softcheck.run.session import Session


def case(columns):
    bits = np.zeros((2, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=f"columns-{columns}")


@pytest.fixture
def module(tmp_path):
    def write(body, before=""):
        file = tmp_path / "variant.py"
        file.write_text(f"import time\nimport torch\n{before}\n\ndef f(x):\n{body}\n    return torch.softmax(x, -1)\n")
        return f"{file}:f"

    return write


def test_calls_that_hang_side_by_side_cost_no_more_than_one():
    patience = Patience(60.0)
    for _ in range(8):
        patience.hung("v", 20.0)
    assert patience.left("v", 60.0) == pytest.approx(40.0, abs=0.5)
    assert patience.over("v", "float16") is None
    assert patience.left("w", 60.0) == 60.0


def test_a_variant_is_given_up_when_its_time_is_spent():
    patience = Patience(60.0)
    patience.hung("v", 58.0)
    over = patience.over("v", "float16")
    assert over.kind is FindingKind.TIMEOUT
    assert "58 s" in over.why
    assert patience.over("w", "float16") is None


def test_imports_compilations_and_own_work_get_more_than_calls():
    limits = waits(12.0)
    assert limits.calling == 12.0
    assert limits.preparing >= HANG_SECONDS
    assert limits.own >= HANG_SECONDS


def test_a_slow_import_and_a_slow_first_call_are_not_the_calls_time(module):
    spec = module(
        "    if not seen:\n        seen.append(1)\n        time.sleep(2.5)", before="time.sleep(2.5)\nseen = []"
    )
    session = Session("interpreter", jobs=1, seconds_per_call=1.0)
    try:
        (result,) = session.run_case(case(4), [spec])
        assert result.measurement.violations == ()
    finally:
        session.close()


def test_a_hang_ends_after_the_calls_limit_and_once_more_alone(module):
    spec = module("    if x.shape[1] == 4:\n        time.sleep(600)")
    session = Session("interpreter", jobs=1, seconds_per_call=1.0)
    try:
        session.load(spec, ("float16",))
        begun = time.monotonic()
        (result,) = session.run_case(case(4), [spec])
        assert time.monotonic() - begun < 40
        (violation,) = result.measurement.violations
        assert violation.kind is FindingKind.TIMEOUT
        (right,) = session.run_case(case(5), [spec])
        assert right.measurement.violations == ()
    finally:
        session.close()


def test_many_short_calls_take_as_long_as_they_need(module):
    """Each trial of a probe makes many calls: the limit is for one."""
    from softcheck.run.probing import run_probe
    from softcheck.run.protocol import ProbeTask

    spec = module("    time.sleep(0.15)")
    session = Session("interpreter", jobs=1, seconds_per_call=0.8)
    try:
        found = run_probe(session, ProbeTask(variant=spec, dtype="float16", probe="grid_limits"))
        assert found.conclusion.findings == ()
        assert found.seconds > 1.0
    finally:
        session.close()
