"""A variant that has subnormals flushed or numbers rounded upward costs itself a finding, and its neighbours nothing."""

from pathlib import Path

import numpy as np
import pytest

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

LEAKY = Path(__file__).parents[1] / "kernels" / "leaky.py"
INNOCENT = f"{LEAKY}:innocent"
STATE, MASKED = FindingKind.STATE_CHANGED, FindingKind.MASKED_NOT_ZERO

LOGITS = np.linspace(0, -103, 16, dtype=np.float32)[None] + np.zeros((2, 1), np.float32)
"""Both rows' last outputs are subnormal in float32."""
HALF_MASKED = np.where(np.arange(16) % 2, -np.inf, LOGITS).astype(np.float32)


def case_of(values, name):
    return case_from_bits(values.view(np.uint32), "float32", provenance="test", name=name)


SUBNORMAL, MASKS = case_of(LOGITS, "subnormal"), case_of(HALF_MASKED, "masks")


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=1, seconds_per_call=60.0)
    yield opened
    opened.close()


def kinds(session, case, *names):
    results = session.run_case(case, [f"{LEAKY}:{name}" for name in names])
    return [{v.kind for v in result.measurement.violations} for result in results]


@pytest.mark.parametrize("harm", ["flushes", "rounds_up"])
def test_call_that_leaks_is_found_and_its_neighbour_judged_as_ever(session, harm):
    (alone,) = session.run_case(SUBNORMAL, [INNOCENT])
    assert alone.measurement.violations == ()
    beside = session.run_case(SUBNORMAL, [f"{LEAKY}:{harm}", INNOCENT])
    (finding,) = [v for v in beside[0].measurement.violations if v.kind is STATE]
    assert "rounding or the flushing of subnormals (from " in finding.message
    assert beside[1].measurement == alone.measurement


def test_call_that_leaks_and_raises_is_found_too(session):
    assert kinds(session, SUBNORMAL, "flushes_and_raises", "innocent") == [{FindingKind.RAISED, STATE}, set()]


@pytest.mark.parametrize("line", ["torch.set_flush_denormal(True)", "leaky.round_up()"])
def test_import_that_leaks_harms_no_one_and_is_no_finding(session, tmp_path, line):
    module = tmp_path / "script.py"
    module.write_text(
        f"import sys\nimport torch\nsys.path.insert(0, {str(LEAKY.parent)!r})\nimport leaky\n{line}\n"
        "def f(x):\n    return torch.softmax(x, -1)\n"
    )
    (alone,) = session.run_case(SUBNORMAL, [INNOCENT])
    assert alone.measurement.violations == ()
    imported, innocent = session.run_case(SUBNORMAL, [f"{module}:f", INNOCENT])
    assert imported.measurement == innocent.measurement == alone.measurement


def test_subnormal_at_a_masked_logit_is_seen_whoever_flushes(session):
    (expected,) = kinds(session, MASKS, "subnormal_at_masked")
    assert MASKED in expected
    found = kinds(session, MASKS, "subnormal_at_masked_and_flushes", "subnormal_at_masked", "innocent")
    assert found == [expected | {STATE}, expected, set()]


def test_change_after_the_call_is_put_back_before_the_next_variant(session):
    assert kinds(session, SUBNORMAL, "flushes_when_its_answer_is_dropped", "innocent")[1] == set()
    assert kinds(session, SUBNORMAL, "innocent") == [set()]


def test_variant_that_puts_it_back_itself_is_left_alone(session):
    ordinary = case_of(np.float32([[0.0, 1.0, 2.0], [3.0, -1.0, 0.5]]), "ordinary")
    assert kinds(session, ordinary, "flushes_while_it_computes") == [set()]


def test_probe_finds_it_too(session):
    result = run_probe(session, ProbeTask(variant=f"{LEAKY}:flushes", dtype="float32", probe="empties"))
    assert {shown.violation.kind for shown in result.conclusion.findings} == {STATE}
