"""Answers that depend on what was called before: caches, counters, races, memory that is used again."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import LoadedVariant


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
    assert found.trials == 5
    assert conclusion("determinism", constant, dtype).findings == ()


def test_cache_by_shape():
    answers = {}

    def by_shape(x):
        return answers.setdefault(x.shape, torch.softmax(x, dim=-1)).clone()

    found = conclusion("determinism", by_shape)
    assert kinds(found) == {"nondeterministic"}
    assert labels(found) == {"other-values-between", "same-memory"}
    assert "the answer to another input of the same shape was returned" in found.findings[0].violation.message


def test_cache_by_address():
    answers = {}

    def by_address(x):
        # The tensor is kept, so that its address stays its own.
        return answers.setdefault((x.data_ptr(), x.shape), (x, torch.softmax(x, dim=-1)))[1].clone()

    found = conclusion("determinism", by_address)
    assert labels(found) == {"same-memory"}
    assert "at the same address: row" in found.findings[0].violation.message


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


def test_state_left_by_another_shape():
    class Workspace:
        """A sum that is only set to zero again when the shape stays the same."""

        total = 0.0
        shape = None

    def leaky(x):
        total = Workspace.total if x.shape != Workspace.shape and x.numel() else 0.0
        exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
        Workspace.shape, Workspace.total = x.shape, float(exponentials[0].sum())
        return exponentials / (exponentials.sum(dim=1, keepdim=True) + total)

    assert "other-shapes-between" in labels(conclusion("determinism", leaky))


def test_another_right_answer_after_other_shapes_is_a_property_and_no_finding():
    """As torch.compile gives one, which compiles anew with dynamic shapes and then takes that for all."""
    seen = set()

    def anew(x):
        seen.add(x.shape)
        if len({rows for rows, _ in seen}) > 2:
            return torch.softmax(x.double(), dim=-1).to(x.dtype)
        exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
        return exponentials / exponentials.sum(dim=1, keepdim=True)

    probe = registry.load("determinism")
    setting = Setting(declaration=Declaration(), dtype="float32", backend="interpreter")
    trial = next(trial for trial in probe.trials(setting) if trial.label == "other-shapes-between")
    outcome = probe.run(Subject(LoadedVariant("anew", anew, Declaration()), setting, torch.device("cpu")), trial)
    assert (outcome.violations, outcome.properties) == ((), {"history_invariant": False})
    assert conclusion("determinism", right).properties == {"history_invariant": True}


def test_what_raises_is_said_once_per_trial_and_ends_nothing():
    def refusing(x):
        raise ValueError("not today")

    found = conclusion("determinism", refusing)
    assert kinds(found) == {"raised"}
    assert len(found.findings) == found.trials


def test_every_trial_has_a_shape_of_its_own():
    for backend in ("interpreter", "cuda"):
        trials = registry.load("determinism").trials(
            Setting(declaration=Declaration(), dtype="float16", backend=backend)
        )
        assert len({trial.parameters[1] for trial in trials}) == len(trials) == (5 if backend == "interpreter" else 8)
