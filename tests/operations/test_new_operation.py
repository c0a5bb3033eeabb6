"""An operation that only these tests define: its formula, its oracle and its place suffice for cases, probes and a verdict."""

from pathlib import Path

import pytest
import torch
from family_cases import cases_of
from toy_operation import enclosure
from whole_probe import replies_to

from oracles.formats import FORMATS
from softcheck.calling.call import to_bits
from softcheck.errors import UsageError
from softcheck.judge.judge import judge
from softcheck.judge.tensors import judge_tensors
from softcheck.operations.bounds import log_softmax
from softcheck.operations.formula import from_formula
from softcheck.operations.registry import operation
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
    assert "is not for toy_operation:LOG_SOFTMAX" in notes[0]


def test_unknown_operation_is_named():
    with pytest.raises(UsageError, match=r"unknown operation 'logsoftmax'; did you mean 'log_softmax' or"):
        operation("logsoftmax")


def test_each_operand_and_output_moves_once():
    assert operation("softmax").bytes_moved({"rows": 3, "columns": 5}, 4) == 120


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("toy_operation:LOGSOFTMAX", r"toy_operation has no operation 'LOGSOFTMAX'; did you mean 'LOG_SOFTMAX'"),
        ("toy_operations.py:LOG_SOFTMAX", r"toy_operations.py can't be imported: FileNotFoundError"),
        (
            "os.path:join",
            r"os.path has no operation 'join'; make one there by softcheck.operations.formula.from_formula",
        ),
    ],
)
def test_a_place_without_an_operation_is_told(place, said):
    with pytest.raises(UsageError, match=said):
        operation(place)


def test_a_formula_and_an_enclosure_that_disagree_are_told():
    with pytest.raises(UsageError, match=r"log_softmax: for the row \[.*\] the formula gives \[.*\] and the enclosure"):
        from_formula(log_softmax, lambda row: [x - max(row) for x in row], torch.log_softmax)
    with pytest.raises(ValueError, match="an enclosure gives 5 answers for a row, expected 1"):
        from_formula(log_softmax, enclosure, torch.log_softmax, of_rows=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_device_judges_as_numpy_does(dtype):
    x = torch.randn(64, 33, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mul(4)
    x[1, 2], x[2], x[3, 4], x[4, 5] = -torch.inf, -torch.inf, torch.inf, torch.nan
    x = x.to(getattr(torch, dtype))
    toy, fmt = operation("toy_operation:LOG_SOFTMAX"), FORMATS[dtype]
    for off in (0.0, 0.125):
        y = torch.log_softmax(x.double() * (1 + off), dim=-1).to(x.dtype)
        here = judge(to_bits(x, fmt), to_bits(y, fmt), fmt, operation=toy)
        there = judge_tensors(x, y, fmt, operation=toy)
        assert bool(here.violations) is bool(there.violations) is bool(off)
        assert there.max_ulp.value == pytest.approx(here.max_ulp.value)
