"""Random rows in bulk and rare values: what one pattern or one row in thousands shows, and right functions left alone."""

import numpy as np
import pytest
import torch
import triton  # noqa: F401 - a worker has imported it before a call
from probe_helpers import conclusion, kinds

from oracles.formats import FORMATS
from softcheck.calling import launches
from softcheck.cases.bit_rows import parse_rows
from softcheck.probes import registry, volume
from softcheck.probes.base import Setting, Subject
from softcheck.variants import forms
from softcheck.variants.declaration import declaration_of, variant
from softcheck.variants.registry import LoadedVariant


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def small_gpu(monkeypatch):
    """Sizes with which a GPU's plan suits a CPU."""
    limits = volume.BatchLimits(rows=256, elements=1 << 15, budget=256, elements_per_cost=1 << 10)
    monkeypatch.setattr(volume, "ON_GPU", limits)


def right(x):
    return torch.softmax(x, dim=-1)


def outcome(label, function, dtype="float16", backend="interpreter", seed=0):
    declaration = declaration_of(function)
    setting = Setting(declaration=declaration, dtype=dtype, backend=backend, seed=seed)
    subject = Subject(LoadedVariant(function.__name__, function, declaration), setting, torch.device("cpu"))
    probe = registry.load("volume")
    [trial] = [trial for trial in probe.trials(setting) if trial.label == label]
    return probe.run(subject, trial)


def wrong_at(pattern, dtype="float16"):
    """Takes one value for a mask."""

    def softmax(x):
        hit = x.view(torch.int16 if dtype != "float32" else torch.int32) == pattern
        return torch.softmax(torch.where(hit, -torch.inf, x), dim=-1)

    return softmax


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_right_function_is_left_alone_and_the_extent_is_said(dtype):
    found = conclusion("volume", right, dtype, effort="quick")
    assert found.findings == ()
    assert found.skipped == ()
    assert found.trials == 2
    assert found.sampled.rows > 1000
    assert found.sampled.elements > 10 * found.sampled.rows
    assert found.sampled.patterns > 5000
    assert len(found.sampled.widths) > 3


@pytest.mark.parametrize("name", ["-0.0", "8.0", "-1e4", "65504.0", "least subnormal", "a payload"])
def test_a_value_taken_for_a_mask_is_found(name):
    pattern = {
        "-0.0": -0x8000,
        "8.0": 0x4800,
        "-1e4": 0xF0E2 - 0x10000,
        "65504.0": 0x7BFF,
        "least subnormal": 1,
        "a payload": 0x7E01,
    }[name]
    found = outcome("rare-values", wrong_at(pattern))
    assert found.sampled.patterns == 1 << 16
    assert found.violations
    for kind, bits in found.witnesses.items():
        assert f"{pattern & 0xFFFF:04x}" in bits.split(), kind


def test_a_gpu_tries_every_pattern_in_every_place(small_gpu, monkeypatch):
    monkeypatch.setattr(volume, "_RARE_COLUMNS", (3,))
    limits = volume.BatchLimits(rows=1 << 16, elements=1 << 22, budget=1e9, elements_per_cost=1 << 10)
    monkeypatch.setattr(volume, "ON_GPU", limits)
    seen = []

    def records(x):
        seen.append(x.view(torch.int16).numpy().copy())
        return right(x)

    found = outcome("rare-values", records, backend="cuda")
    assert found.violations == ()
    assert found.sampled.patterns == 1 << 16
    rows = np.concatenate(seen)
    for column in range(3):
        assert len(np.unique(rows[:, column])) == 1 << 16


def test_a_row_in_a_hundred_is_found_and_handed_on(small_gpu):
    def rarely_wrong(x):
        result = right(x)
        # The bits of the row's last logit decide.
        hit = (x[:, -1].view(torch.int32) >> 2) % 128 == 7
        return torch.where(hit[:, None], result * 0.875, result)

    found = outcome("random-rows", rarely_wrong, "float32", backend="cuda")
    [shown] = [v for v in found.violations if v.kind == "sum_violation"]
    assert "random rows of seed " in shown.message
    assert shown.message.endswith("the row by itself is wrong too")
    text = found.witnesses[shown.kind]
    x = torch.from_numpy(parse_rows((text,), len(text.split()), FORMATS["float32"]).view(np.float32).copy())
    assert float((rarely_wrong(x).double().sum() - 1).abs()) > 0.1


def test_a_row_that_depends_on_others_is_no_witness(small_gpu):
    def wrong_in_batches(x):
        result = right(x)
        if len(x) > 1:
            result[1:2] *= 0.875
        return result

    found = outcome("random-rows", wrong_in_batches, "float32", backend="cuda")
    [shown] = [v for v in found.violations if v.kind == "sum_violation"]
    assert shown.message.endswith("the row by itself is right")
    assert shown.kind not in found.witnesses


def test_a_run_repeats_until_the_seed_changes(small_gpu):
    def shapes_and_sums(seed):
        met = []

        def records(x):
            met.append((tuple(x.shape), int(x.view(torch.int16).to(torch.int64).sum())))
            return right(x)

        outcome("random-rows", records, backend="cuda", seed=seed)
        return met

    first = shapes_and_sums(1)
    assert first == shapes_and_sums(1)
    assert first != shapes_and_sums(2)


def test_widths_lie_within_what_is_declared():
    @variant(max_columns=100)
    def narrow(x):
        assert x.shape[1] <= 100
        return right(x)

    assert conclusion("volume", narrow, effort="quick").findings == ()
    setting = Setting(declaration=declaration_of(right), dtype="float16", backend="cuda", widest=4096)
    for seed in range(20):
        chosen = volume.widths(setting, seed)
        assert max(chosen) <= 4096
        assert min(chosen) < 8
        assert sum(n > 1100 and min(abs(n - 2**k) for k in range(11, 18)) > 1 for n in chosen) <= 3


def test_what_a_function_raises_ends_the_sample():
    def raises(x):
        raise ValueError("no")

    found = conclusion("volume", raises, effort="quick")
    assert kinds(found) == {"raised"}
    assert found.sampled.elements == 0


def test_a_kernel_of_many_programs_gets_few_rows():
    """A program takes some milliseconds under the interpreter: a second per hundred rows would be minutes for the largest batch."""
    most = []

    def of_a_program_for_each_row(x):
        most.append(len(x))
        launches.note_programs(len(x))
        return right(x)

    assert conclusion("volume", of_a_program_for_each_row).findings == ()
    assert max(most) < 20
    assert 400 < sum(most) < 700


def test_a_function_of_one_row_is_sampled_with_as_many_rows_as_it_is_called_with(small_gpu, monkeypatch):
    monkeypatch.setattr(forms, "MOST_ROWS", 20)
    of_a_row = variant(call="f(x1)")(lambda row: torch.softmax(row, dim=-1))
    found = conclusion("volume", of_a_row, labels=["random-rows"])
    assert (found.findings, found.skipped) == ((), ())
    assert found.sampled.rows > 100
