"""Long heads of attention: errors over their bound, and what other rules let through."""

import importlib.util
from pathlib import Path

import pytest
import torch

from oracles.formats import FORMATS
from softcheck.operations.heads import Attending
from softcheck.operations.registry import operation

FILE = Path(__file__).parents[2] / "benchmarks" / "attention.py"
SPEC = importlib.util.spec_from_file_location("attention_benchmark", FILE)
benchmark = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)
SCALE = 0.25
OF = operation("attention", {"head_dim": 16.0, "scale": SCALE})


@pytest.fixture(scope="module")
def rows():
    return torch.randn(2, 70, generator=torch.Generator().manual_seed(0)).mul_(2).to(torch.bfloat16)


@pytest.fixture(scope="module")
def tensors(rows):
    return Attending(head_dim=16, scale=SCALE).operands(rows)


def test_a_rounded_exact_answer_keeps_the_bound_and_faults_do_not(rows, tensors, monkeypatch):
    monkeypatch.setitem(benchmark.SCORES, "cpu", 70 * 9)
    fmt = FORMATS["bfloat16"]
    due = benchmark.plain(tuple(tensor.double() for tensor in tensors), SCALE)
    outputs = {"exact": due.to(torch.bfloat16), **dict(benchmark.faults(tensors, SCALE, torch.bfloat16))}
    shares = {name: benchmark.judged(rows, output, OF, fmt)[1] for name, output in outputs.items()}
    assert shares.pop("exact") < 1
    assert len(shares) == 3
    assert min(shares.values()) > 1


def test_the_command_prints_a_line_for_each_output(capsys):
    assert benchmark.main(["--heads", "1", "--length", "64", "--head-dim", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[2:4]] == ["flash_attention", "efficient_attention"]
    assert sum(line.startswith(("32 keys", "a head", "last queries")) for line in lines) == 3
