"""Answers that differ between equal calls: counters, first calls, races, random numbers."""

import numpy as np
import pytest
import torch
from probe_helpers import conclusion, kinds

from oracles.formats import FLOAT16
from softcheck.contract import FindingKind
from softcheck.probes import registry
from softcheck.probes.base import Setting
from softcheck.probes.helpers import differing
from softcheck.variants.declaration import Declaration


def right(x):
    return torch.softmax(x, dim=-1)


def constant(x):
    """Wrong, but always in the same way: no business of this probe."""
    return torch.full_like(x, 1 / max(x.shape[1], 1))


def labels(found):
    return {shown.label for shown in found.findings}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_right_kernels_are_left_alone(dtype):
    found = conclusion("determinism", right, dtype)
    assert found.findings == ()
    assert found.trials == 2
    assert conclusion("determinism", constant, dtype).findings == ()


def test_every_third_call_differs():
    calls = 0

    def counting(x):
        nonlocal calls
        calls += 1
        return torch.softmax(x if calls % 3 else x * 1.01, dim=-1)

    found = conclusion("determinism", counting)
    assert kinds(found) == {"nondeterministic"}
    assert "repeats" in labels(found)


def test_first_call_of_a_shape_differs():
    """As where the trial runs of a tuning leave their mark on the result."""
    seen = set()

    def warming(x):
        first = x.shape not in seen
        seen.add(x.shape)
        return torch.softmax(x, dim=-1) * (2 if first else 1)

    found = conclusion("determinism", warming)
    assert "repeats" in labels(found)
    assert "call 2 on the same input differs from the first" in found.findings[0].violation.message


def test_random_last_bits():
    def noisy(x):
        return torch.softmax(x + 1e-6 * torch.rand_like(x), dim=-1)

    assert "repeats" in labels(conclusion("determinism", noisy))


def test_what_raises_is_said_once_per_trial_and_ends_nothing():
    def refusing(x):
        raise ValueError("not today")

    found = conclusion("determinism", refusing)
    assert kinds(found) == {"raised"}
    assert (len(found.findings), found.trials) == (1, 2)


def test_every_trial_has_a_shape_of_its_own():
    for backend in ("interpreter", "cuda"):
        trials = registry.load("determinism").trials(
            Setting(declaration=Declaration(), dtype="float16", backend=backend)
        )
        assert len({trial.parameters[1] for trial in trials}) == len(trials) == (2 if backend == "interpreter" else 5)


def test_a_difference_of_many_dimensions_names_its_row():
    expected = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    found = expected.copy()
    found[1, 2, 3] = 0
    told = differing(FindingKind.OUTPUT_REUSED, expected, found, FLOAT16, "changed")
    assert (told.row, told.column, told.output_bits) == (5, 3, "0000")
