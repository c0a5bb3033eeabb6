"""An operation whose answer for a row has parts: its judge, its probes and the places that findings name."""

from pathlib import Path

import numpy as np
import pytest
import torch
from family_cases import cases_of
from whole_probe import replies_to

from oracles.formats import FORMATS, encode
from softcheck.judge.judge import judge
from softcheck.operations.registry import OPERATIONS, operation
from softcheck.run.protocol import Measured, ProbeTask, RunCase
from softcheck.run.serving import Server

KERNELS = Path(__file__).parents[1] / "kernels" / "parts.py"
DTYPE = "float16"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(OPERATIONS, "causal", "toy_parts:CAUSAL")


def kinds_on(function, families):
    server, name, found = Server(torch.device("cpu")), f"{KERNELS}:{function}", {}
    for case in (case for family in families for case in cases_of(family, DTYPE)):
        if case.shape[1] > 129:
            continue
        (reply,) = (r for r in server.answer(RunCase(case, name, first_rows=4)) if isinstance(r, Measured))
        found |= {v.kind.value: v for v in reply.result.violations}
    return found


def test_right_function_keeps_every_rule():
    assert not kinds_on("right", ("normal", "padding", "special", "ties", "one-column"))


def test_a_masked_key_that_is_seen_is_found():
    assert {"masked_not_zero", "ulp_exceeds_bound"} <= set(kinds_on("sees_its_right_neighbour", ("normal",)))


def test_the_message_names_the_query():
    found = kinds_on("wrong_in_the_last_query", ("normal",))
    assert {"ulp_exceeds_bound", "sum_violation"} <= set(found)
    case = next(case for case in cases_of("normal", DTYPE) if 1 < case.shape[1] <= 129)
    assert ", query " in found["ulp_exceeds_bound"].message
    assert ", query " in found["sum_violation"].message
    assert case.shape[0] > found["ulp_exceeds_bound"].row


def test_an_answer_of_another_shape_is_named():
    assert set(kinds_on("flat", ("normal",))) == {"wrong_shape"}


@pytest.mark.parametrize(
    "probe", ["neighbours", "batch_invariance", "determinism", "layouts", "unwritten", "guard_bands"]
)
def test_probes_pass_a_right_function(probe):
    server = Server(torch.device("cpu"))
    *_, last = replies_to(
        server.answer, ProbeTask(variant=f"{KERNELS}:right", probe=probe, dtype=DTYPE, effort="quick")
    )
    conclusion = last.conclusion
    assert conclusion.trials
    assert not conclusion.findings


def test_a_violation_names_the_row_of_the_matrix_and_the_place_in_its_answer():
    fmt, causal = FORMATS["float32"], operation("causal")
    values = np.zeros((3, 4))
    bits = encode(values, fmt)
    output = causal.answer(values, fmt, "nan").values.copy()
    output[2, 3 * 4 + 1] += 0.01
    measured = judge(bits, encode(output, fmt), fmt, operation=causal)
    (found,) = (v for v in measured.violations if v.kind.value == "ulp_exceeds_bound")
    assert (found.row, found.column) == (2, 13)
    assert found.message.startswith("row 2, query 3, column 1: ")
    assert found.around.first_column == 12
    assert (measured.rows, measured.columns) == (3, 4)
