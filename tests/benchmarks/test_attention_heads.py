"""Long heads of attention: exact answers in tiles, the bound of chosen queries, and what other rules let through."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from oracles.attention import Heads, attention
from oracles.formats import FORMATS
from softcheck.operations.heads import Attending

FILE = Path(__file__).parents[2] / "benchmarks" / "attention.py"
SPEC = importlib.util.spec_from_file_location("attention_benchmark", FILE)
benchmark = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)
SCALE = 0.25


@pytest.fixture(scope="module")
def tensors():
    x = torch.randn(2, 70, generator=torch.Generator().manual_seed(0)).mul_(2).to(torch.bfloat16)
    return Attending(head_dim=16, scale=SCALE).operands(x)


def test_tiles_give_what_the_oracle_gives(tensors):
    answers, scales = benchmark.exact(tensors, SCALE, scores=70 * 9)
    heads = Heads(*(part.double().numpy() for part in tensors), np.ones((2, 70, 70), dtype=bool), SCALE)
    assert np.allclose(answers.numpy().reshape(-1, 16), attention(heads).high, rtol=0, atol=1e-13)
    assert np.allclose(scales.numpy(), heads.sizes_of_values, rtol=1e-13)


def test_a_rounded_exact_answer_keeps_the_bound_and_faults_do_not(tensors):
    fmt, due = FORMATS["bfloat16"], benchmark.exact(tensors, SCALE)
    outputs = {"exact": due[0].to(torch.bfloat16), **dict(benchmark.faults(tensors, SCALE, torch.bfloat16))}
    shares = {
        name: benchmark.share(output, due[0], benchmark.ulps(output, *due, fmt), tensors, SCALE, fmt)
        for name, output in outputs.items()
    }
    assert shares.pop("exact") < 1
    assert len(shares) == 3
    assert min(shares.values()) > 1


def test_the_rule_of_twice_the_error_passes_a_head_that_is_too_large(tensors):
    high = benchmark.plain(tuple(tensor.float() for tensor in tensors), SCALE)
    low = benchmark.plain(tensors, SCALE)
    wrong = high.clone()
    wrong[0] *= 1 + 2.0**-7
    assert benchmark.verdicts(wrong.to(torch.bfloat16), low, high)[0] == "pass"
    assert benchmark.verdicts(high, high, high) == ("-", "pass")


def test_the_command_prints_a_line_for_each_output(capsys):
    assert benchmark.main(["--heads", "1", "--length", "64", "--head-dim", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[2:4]] == ["math", "flash_attention"]
    assert sum(line.startswith(("32 keys", "a head", "last queries")) for line in lines) == 3
