"""The simulation behind docs/bounds.md on few rows: no bound breaks, each is used, and kernels that are worse break theirs."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from softcheck.operations.arithmetic import model

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulate_bound.py"
ROWS = 2000


def load_script():
    spec = importlib.util.spec_from_file_location("simulate_bound", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


simulation = load_script()
KERNELS = {kernel.name: kernel for kernel in simulation.KERNELS}
FORMS = {form.name: form for form in simulation.FORMS}


@pytest.mark.parametrize("name", KERNELS)
def test_no_bound_breaks_and_each_is_used(name):
    worst = simulation.simulate(KERNELS[name], ROWS, seed=1)
    assert worst.rows >= ROWS
    assert not worst.broken
    assert simulation.LOOSE < worst.element.share <= 1
    assert 0 < worst.total.share <= 1
    assert 0 < worst.judged.share <= worst.element.share * 1.0001
    assert "loose" not in worst.line


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("standard", {"exp_ulps": 16}),
        ("standard", {"divide_ulps": 16}),
        ("standard", {"sum_type": np.float16}),
        ("float64 sum", {"exp_ulps": 16}),
        ("online", {"exp_ulps": 16}),
        ("prescaled", {"exp_ulps": 16}),
        ("libdevice exp, div_rn", {"divide_ulps": 2}),
        ("scaled logits", {"exp_ulps": 16}),
        ("scaled logits, fused", {"exp_ulps": 16}),
        ("serial sum", {"exp_ulps": 16}),
        ("reciprocal", {"divide_ulps": 16}),
        ("standard, float16 output", {"sum_type": np.float16}),
        ("standard, bfloat16 output", {"sum_type": np.float16}),
        ("float16 throughout", {"divide_ulps": 2**15}),
    ],
)
def test_a_worse_kernel_breaks_its_bound(name, fault):
    worse = dataclasses.replace(KERNELS[name], **fault)
    shapes = enumerate(simulation.batches(ROWS))
    assert any(simulation.batch(worse, *shape, (1, number, 0)).exceeding.any() for number, shape in shapes)


@pytest.mark.parametrize("name", FORMS)
def test_losses_and_backwards_keep_their_bounds_and_use_them(name):
    worst = simulation.simulate(FORMS[name], ROWS, seed=1)
    assert worst.rows >= ROWS
    assert not worst.broken
    assert simulation.LOOSE < worst.element.share <= 1
    assert "loose" not in worst.line


def of_outputs_too_large(form, x, operands, rng):
    return FORMS[form.name].compute(form, x, {**operands, "y": operands["y"] * (1 + 2.0**-4)}, rng)


@pytest.mark.parametrize("name", FORMS)
def test_worse_losses_and_backwards_break_their_bounds(name):
    is_loss = name.startswith("cross-entropy")
    fault = {"sum_type": np.float16} if is_loss else {"compute": of_outputs_too_large}
    worse = dataclasses.replace(FORMS[name], **fault)
    assert any(worse.batch(family, (64, 256), (1,)).exceeding.any() for family in worse.families)


@pytest.mark.parametrize(("columns", "rows"), [(31, 400), (16384, 8)])
def test_rescaling_needs_its_term_of_the_bound(columns, rows):
    """Exponentials and divisions within 2 ULP, as documented, on ramps: every column rescales what was added before."""
    online = simulation.batch(KERNELS["online"], "ramp", (rows, columns), (5,))
    assert online.model.rescale > 0
    assert not online.exceeding.any()
    standard = model(KERNELS["standard"].arithmetic, online.fmt)
    assert dataclasses.replace(online, model=standard).shares.max() > 1.15
    plain = simulation.batch(KERNELS["standard"], "ramp", (rows, columns), (5,))
    assert not plain.exceeding.any()


@pytest.mark.parametrize(
    ("name", "family", "shape"),
    [
        ("scaled logits", "shifted normal", (64, 8)),
        ("scaled logits, fused", "equal", (256, 2)),
        ("serial sum", "one-hot", (4, 16384)),
    ],
)
def test_weaker_kernels_need_their_own_bound(name, family, shape):
    own = simulation.batch(KERNELS[name], family, shape, (5,))
    assert not own.exceeding.any()
    standard = model(KERNELS["standard"].arithmetic, own.fmt)
    assert dataclasses.replace(own, model=standard).exceeding.any()


def test_a_kernel_that_declares_more_than_the_standard_contract_is_judged_by_that():
    tighter = simulation.simulate(KERNELS["libdevice exp, div_rn"], 500, seed=3)
    assert tighter.judged.share == tighter.standard.share < tighter.element.share


def test_flushing_breaks_the_bound_of_a_kernel_that_does_not_declare_it():
    flushing = KERNELS["flush to zero"]
    undeclared = simulation.batch(flushing, "near subnormal", (64, 8), (1,))
    declared = model(KERNELS["standard"].arithmetic, flushing.fmt)
    assert not undeclared.exceeding.any()
    assert dataclasses.replace(undeclared, model=declared).exceeding.any()


def test_families_and_widths_are_what_the_table_says():
    shapes = list(simulation.batches(10**6))
    assert sum(rows for _, (rows, _) in shapes) >= 10**6
    assert len({family for family, _ in shapes}) == 21
    widths = {columns for _, (_, columns) in shapes}
    assert min(widths) == 1
    assert max(widths) == 16384


def test_a_row_can_be_computed_again_from_its_seed():
    worst = simulation.simulate(KERNELS["standard"], 500, seed=3).element
    *seed, row = worst.seed
    rows = next(r for f, (r, c) in simulation.batches(500) if (f, c) == (worst.family, worst.columns))
    again = simulation.batch(KERNELS["standard"], worst.family, (rows, worst.columns), tuple(seed))
    assert again.shares[row].max() == worst.share


def test_command_prints_the_table_and_exits_1_on_a_broken_bound(capsys, monkeypatch, tmp_path):
    broken = dataclasses.replace(KERNELS["standard"], exp_ulps=16, name="too many ULPs")
    monkeypatch.setattr(simulation, "KERNELS", (KERNELS["standard"], broken))
    monkeypatch.setattr(simulation, "FORMS", ())
    file = tmp_path / "table.md"
    assert simulation.main(["--rows", "500", "--seed", "3", "--output", str(file)]) == 1
    printed = capsys.readouterr().out
    assert file.read_text() == printed
    assert [line.split(" | ")[-1] for line in printed.splitlines()[2:]] == [" |", "BROKEN |"]
    monkeypatch.setattr(simulation, "KERNELS", (KERNELS["standard"],))
    assert simulation.main(["--rows", "500", "--seed", "3"]) == 0


@pytest.mark.parametrize(
    ("share", "total", "verdict"), [(0.49, 0.9, "loose"), (0.51, 0.2, ""), (0.9, 1.01, "BROKEN"), (1.01, 0.9, "BROKEN")]
)
def test_a_bound_that_is_never_half_used_is_called_loose(share, total, verdict):
    worst = simulation.Worst(KERNELS["standard"], 1, simulation.Row(share), simulation.Row(), simulation.Row(total))
    assert worst.line.endswith(f"| {verdict} |")
