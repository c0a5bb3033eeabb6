"""An operation that only these tests define: its file and a registry line suffice for cases, probes and a verdict."""

from pathlib import Path

import pytest
import torch
from family_cases import cases_of
from whole_probe import replies_to

from softcheck.errors import UsageError
from softcheck.operations.registry import OPERATIONS, operation
from softcheck.report.build import build
from softcheck.run.model import Run, RunOptions
from softcheck.run.plan import plan
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import Measured, ProbeTask, Ready, RunCase
from softcheck.run.serving import Server
from softcheck.run.session import CaseMeasurement

KERNELS = Path(__file__).parents[1] / "kernels" / "log_softmax.py"
DTYPE = "float16"
PROBES = ("shifts", "permutations", "appended_masks", "volume", "gradients", "sizes")
READY = Ready("interpreter", "CPU", "2", "3", "3", None)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(OPERATIONS, "log_softmax", "toy_operation:LOG_SOFTMAX")


def row_of(function, families=("normal", "padding", "special", "one-column", "empty"), probes=()):
    """The report's row of a function that was run on cases of these families, and put through these probes."""
    name = f"{KERNELS}:{function}"
    server = Server(torch.device("cpu"))
    declaration = server._variant(name).declaration
    cases = tuple(case for family in families for case in cases_of(family, DTYPE))
    results, probed = [], []
    for case, takers in plan(cases, {name: declaration}, [DTYPE])[0]:
        replies = [r for taker in takers for r in server.answer(RunCase(case, taker, first_rows=4))]
        results += [CaseMeasurement(name, case, r.result, 0.0) for r in replies if isinstance(r, Measured)]
    for probe in probes:
        task = ProbeTask(variant=name, dtype=DTYPE, probe=probe, effort="quick")
        *_, last = replies_to(server.answer, task)
        probed.append(ProbeResult(task=task, labels=(), conclusion=last.conclusion, abandoned=0, seconds=0.0))
    options = RunOptions(variants=(name,), dtypes=(DTYPE,), cases=cases, whole_corpus=False, probes=tuple(probes))
    run = Run(options=options, ready=READY, declarations={name: declaration}, results=results, probed=probed)
    (row,) = build(run, command="").variants
    return row


def test_right_function_passes():
    row = row_of("right", probes=PROBES)
    assert row.verdict == "pass", row.findings
    assert row.cases_run > 20
    assert 0.4 < row.max_ulp < 1.5
    assert row.max_sum_deviation is None, "its outputs don't sum to 1"


@pytest.mark.parametrize(
    ("function", "families", "kinds"),
    [
        ("log_of_softmax", ("normal",), {"inf_mismatch"}),
        ("off_by_its_neighbour", ("normal", "padding"), {"ulp_exceeds_bound", "order_violation", "inf_mismatch"}),
    ],
)
def test_wrong_functions_fail(function, families, kinds):
    row = row_of(function, families)
    assert row.verdict == "fail"
    assert kinds <= {finding.kind for finding in row.findings}


def test_probes_find_what_is_wrong_too():
    row = row_of("off_by_its_neighbour", families=(), probes=("shifts", "appended_masks"))
    assert {finding.case.split("/")[1] for finding in row.findings} == {"shifts", "appended_masks"}


def test_only_its_own_families_are_run():
    tasks, notes = plan(
        cases_of("wide", DTYPE), {"a": Server(torch.device("cpu"))._variant(f"{KERNELS}:right").declaration}, [DTYPE]
    )
    assert not any(takers for _, takers in tasks)
    assert "is not for log_softmax" in notes[0]


def test_unknown_operation_is_named():
    with pytest.raises(UsageError, match=r"unknown operation 'logsoftmax'; did you mean 'log_softmax' or"):
        operation("logsoftmax")


def test_each_operand_and_output_moves_once():
    assert operation("softmax").bytes_moved({"rows": 3, "columns": 5}, 4) == 120
