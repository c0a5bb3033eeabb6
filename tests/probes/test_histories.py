"""Answers that depend on earlier calls and on circumstances: found, laid at them, and told in the shortest history."""

import itertools

import pytest
from probe_helpers import conclusion, kinds

from softcheck.probes.base import Setting
from softcheck.probes.modes import modes
from softcheck.probes.shortening import shortened
from softcheck.probes.steps import Step, circumstances, plan
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import load, load_anew

BASE = Step(rows=2, columns=129, dtype="float32")


def probed(tmp_path, source, dtype="float32"):
    """The conclusion on a module's ``softmax``, which is imported anew for every history."""
    path = tmp_path / "kernels.py"
    path.write_text(f"import torch\n{source}", encoding="utf-8")
    function = load(f"{path}:softmax").function
    function.__name__ = f"{path}:softmax"
    return conclusion("histories", function, dtype, quick=True)


def test_a_right_function_is_left_alone(tmp_path):
    found = probed(tmp_path, "def softmax(x):\n    return torch.softmax(x, dim=-1)\n", "bfloat16")
    assert (found.findings, found.trials) == ((), 3)


def test_a_function_wrong_by_itself_is_left_to_other_probes(tmp_path):
    source = (
        "def softmax(x):\n    return torch.softmax(x * 1.01, dim=-1) if x.stride(-1) == 1 else torch.ones_like(x)\n"
    )
    assert probed(tmp_path, source).findings == ()


def test_a_history_is_told_in_as_few_calls_as_show_it(tmp_path):
    source = """
widest = 0
def softmax(x):
    global widest
    widest = max(widest, x.shape[-1])
    return torch.softmax(x, dim=-1) * (2 if x.shape[-1] < 200 < widest else 1)
"""
    [shown] = probed(tmp_path, source).findings
    assert shown.violation.kind == "nondeterministic"
    assert shown.violation.message.startswith(
        "softmax(float32 [2, 129]) is wrong, and right alone, after softmax(float32 [2, 1100]): "
    )


def test_a_mode_that_matters_is_named(tmp_path):
    source = """
def softmax(x):
    return torch.softmax(x, dim=-1) / (1 if torch.get_default_dtype() == torch.float32 else 2)
"""
    [shown] = probed(tmp_path, source).findings
    assert shown.violation.message.startswith("softmax(float32 [2, 129]) with torch.set_default_dtype(torch.")
    assert shown.violation.kind != "nondeterministic"


def test_outputs_are_looked_at_again_in_the_end(tmp_path):
    source = """
import itertools
ring = {}
def softmax(x):
    key = (x.shape, x.dtype)
    if key not in ring:
        ring[key] = itertools.cycle([torch.empty_like(x, requires_grad=False) for _ in range(5)])
    return next(ring[key]).copy_(torch.softmax(x.detach(), dim=-1))
"""
    assert "output_reused" in kinds(probed(tmp_path, source))


def test_refused_gradients_are_no_finding(tmp_path):
    source = """
def softmax(x):
    if x.requires_grad:
        raise ValueError("call x.detach() first")
    return torch.softmax(x, dim=-1)
"""
    assert probed(tmp_path, source).findings == ()


@pytest.mark.parametrize("number", [100, 7])
def test_every_nth_call_is_found(tmp_path, number):
    source = f"""
calls = 0
def softmax(x):
    global calls
    calls += 1
    return torch.softmax(x, dim=-1) * (1 if calls % {number} else 0.5)
"""
    found = probed(tmp_path, source)
    assert "nondeterministic" in kinds(found)
    if number == 100:
        assert "call 100 of a fresh copy" in found.findings[0].violation.message


def test_plans_put_every_circumstance_after_every_other():
    setting = Setting(declaration=Declaration(), dtype="float32", backend="interpreter")
    # Each circumstance is known by its number of rows.
    found = [lambda _, rows=rows: {"rows": rows} for rows in range(7)]
    histories = [[step.rows for step in history] for history in plan(BASE, found, 5)]
    assert {pair for history in histories for pair in itertools.pairwise(history)} >= {
        (first, second) for first in range(7) for second in range(7)
    }
    assert {history[0] for history in histories[3:]} == set(range(7))
    real = [step for history in plan(BASE, circumstances(setting, BASE, modes(on_gpu=False)), 5) for step in history]
    assert len({step.seed for step in real}) == len(real)
    assert {step.dtype for step in real} == set(Declaration().dtypes)


def test_shortening_keeps_what_matters_and_asks_no_more_when_time_is_over():
    asked = []

    def fails(steps):
        asked.append(steps)
        return 3 in steps and steps[-1] >= 9

    def simpler(step):
        return [9] if step > 9 else []

    steps = [1, 2, 3, 4, 5, 6, 7, 8, 12]
    assert shortened(steps, fails=fails, simpler=simpler, is_over=lambda: False) == [3, 9]
    asked.clear()
    assert shortened(steps, fails=fails, simpler=simpler, is_over=lambda: len(asked) > 2)[-1] == 12
    assert len(asked) == 3
    assert shortened([1, 12], fails=fails, simpler=simpler, is_over=lambda: False) is None


def test_copies_share_no_state_with_the_variant_or_its_siblings(tmp_path):
    (tmp_path / "sibling_of_kernels.py").write_text("calls = []\n", encoding="utf-8")
    path = tmp_path / "copied.py"
    path.write_text(
        "import sibling_of_kernels\ndef softmax(x):\n    sibling_of_kernels.calls.append(x)\n"
        "    return len(sibling_of_kernels.calls)\n",
        encoding="utf-8",
    )
    spec = f"{path}:softmax"
    first = load(spec).function
    assert [first(0), first(0)] == [1, 2]
    assert load_anew(spec).function(0) == 1
    assert first(0) == 3
    assert load(spec).function(0) == 4
