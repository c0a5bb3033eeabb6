"""Answers that depend on earlier calls and on circumstances: found, laid at them, and told in the shortest history."""

import itertools
import sys
import time
from dataclasses import replace

import pytest
import torch
from probe_helpers import conclusion_of_source, kinds

from softcheck.probes.base import Setting, Subject
from softcheck.probes.histories.modes import PARAMETER, field_of, fitted, in_mode, modes
from softcheck.probes.histories.player import Copies, Player
from softcheck.probes.histories.search import _of_fewer_steps, _of_simpler_steps
from softcheck.probes.histories.steps import Circumstances, Step, circumstances
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import load, load_anew

BASE = Step(rows=2, columns=129, dtype="float32")


def probed(tmp_path, source, dtype="float32"):
    """The conclusion on a module's ``softmax``, which is imported anew for every history."""
    return conclusion_of_source("histories", tmp_path, f"import torch\n{source}", dtype, effort="quick")


def test_a_right_function_is_left_alone(tmp_path):
    found = probed(tmp_path, "def softmax(x):\n    return torch.softmax(x, dim=-1)\n", "bfloat16")
    assert (found.findings, found.trials) == ((), 3)


def test_calls_of_one_step_have_operands_of_their_own(tmp_path):
    """A mean has one call for each matrix, whose targets are all of one shape."""
    source = """
import softcheck

@softcheck.variant(operation="cross_entropy", parameters={"reduction": "mean"})
def softmax(x, target):
    return torch.nn.functional.cross_entropy(x, target)
"""
    assert probed(tmp_path, source).findings == ()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_torch_refuses_under_the_other_autocast_is_no_finding(tmp_path, dtype):
    source = """
def softmax(x):
    parts = torch.softmax(x, dim=-1).chunk(2, dim=-1)
    return torch.cat([part.to(x.dtype) for part in parts], dim=-1)
"""
    assert probed(tmp_path, source, dtype).findings == ()


def test_autocast_is_to_the_dtype_of_16_bit_inputs():
    named = [mode for group in modes(on_gpu=False, dtype="float16") for mode in group if "autocast" in mode]
    assert named == ["torch.autocast(dtype=torch.float16)"]
    of_bfloat16 = "torch.autocast(dtype=torch.bfloat16)"
    assert fitted(of_bfloat16, "float16") == "torch.autocast(dtype=torch.float16)"
    assert fitted(of_bfloat16, "float32") == of_bfloat16
    assert BASE.changed({"settings": of_bfloat16, "dtype": "float16"}, 1).settings == fitted(of_bfloat16, "float16")


def test_no_attention_is_called_under_autocast():
    assert not [
        mode for group in modes(on_gpu=True, dtype="float32", has_products=True) for mode in group if "autocast" in mode
    ]


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


@pytest.mark.parametrize(
    "body",
    [
        "return answers.setdefault(x.shape, torch.softmax(x, dim=-1)).clone()",
        # The tensor is kept, so that its address stays its own.
        "return answers.setdefault((x.data_ptr(), x.shape), (x, torch.softmax(x, dim=-1)))[1].clone()",
        """
    # A sum is only set to zero again when the shape stays the same.
    total = answers.get("total", 0.0) if x.shape != answers.get("shape") and x.numel() else 0.0
    exponentials = torch.exp(x - x.amax(dim=1, keepdim=True)) if x.numel() else x
    answers.update(shape=x.shape, total=float(exponentials[:1].sum()))
    return exponentials / (exponentials.sum(dim=1, keepdim=True) + total)""",
        "return torch.softmax(x.to(answers.setdefault(x.shape[1], x.dtype)), dim=-1).to(x.dtype)",
        """
    least = answers.setdefault("least", -65504.0 if x.dtype == torch.float16 else -3e38)
    shown = torch.where(x == -float("inf"), x.float(), x.float().clamp(min=least))
    return torch.softmax(shown, dim=-1).to(x.dtype)""",
    ],
    ids=["by shape", "by address", "sum", "dtype by width", "sentinel"],
)
def test_state_that_earlier_calls_leave_is_found(tmp_path, body):
    assert "nondeterministic" in kinds(probed(tmp_path, f"answers = {{}}\ndef softmax(x):\n    {body}\n"))


def test_another_right_answer_after_other_shapes_is_no_finding(tmp_path):
    """As torch.compile gives one, which compiles anew with dynamic shapes and then takes that for all."""
    source = """
seen = set()
def softmax(x):
    seen.add(x.shape)
    return torch.softmax(x.double(), dim=-1).to(x.dtype) if len(seen) > 2 else torch.softmax(x, dim=-1)
"""
    assert probed(tmp_path, source).findings == ()


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
        assert "right alone, after 99 times softmax(float32 [1, 77])" in found.findings[0].violation.message


@pytest.mark.parametrize("count", [16, 100])
def test_what_is_settled_after_calm_calls_meets_other_contents(tmp_path, count):
    source = f"""
import torch
seen = []
def softmax(x):
    if len(seen) < {count}:
        seen.append(x.detach().float().abs().max().item())
    elif max(seen, default=0.0) < 20.0:
        # As many calls were calm: nothing is subtracted any more.
        e = x.detach().float().exp()
        return (e / e.sum(-1, keepdim=True)).to(x.dtype)
    return torch.softmax(x, dim=-1)
"""
    [shown] = probed(tmp_path, source).findings
    assert f"right alone, after {count} times softmax(float32 [2, 129])" in shown.violation.message


def test_openings_put_every_circumstance_after_every_other():
    # Each circumstance is known by its number of rows.
    found = Circumstances([[{"rows": rows}] for rows in range(1, 8)], [])
    first, second = [[change["rows"] for change in history] for history in found.in_a_row(5)]
    pairs = [[change["rows"] for change in history] for history in found.in_pairs(5)]
    assert sorted(first) == list(range(1, 8))
    assert first == second[::-1]
    assert {pair for history in pairs for pair in itertools.pairwise(history)} == {
        *itertools.product(range(1, 8), repeat=2)
    }
    assert {history[0] for history in pairs if history} == set(range(1, 8))


def test_rows_with_one_answer_have_columns_in_every_step():
    """A row without columns has no target: torch's kernel of a cross-entropy ends the process there."""
    for name, expected in (("softmax", True), ("cross_entropy", False), ("logsumexp", False)):
        setting = Setting(declaration=Declaration(operation=name), dtype="float32", backend="interpreter")
        steps = circumstances(setting, BASE).changes
        assert any(change.get("columns") == 0 for change in steps) is expected
        assert any(change.get("rows") == 0 for change in steps)


def test_a_declared_limit_of_columns_holds_for_every_step():
    setting = Setting(declaration=Declaration(max_columns=129), dtype="float32", backend="interpreter")
    found = circumstances(setting, BASE)
    assert max(change.get("columns", 0) for change in [*found.changes, *found.widths]) < 129
    assert {change.get("dtype", "float32") for change in found.changes} == set(Declaration().dtypes)


def test_steps_are_left_out_in_halves_and_equal_ones_all_or_one_by_one():
    steps = [replace(BASE, seed=seed, columns=columns) for seed, columns in enumerate([129, 129, 129, 129, 5, 7])]
    assert [[step.seed for step in each] for each in _of_fewer_steps(steps, 0, BASE)] == [[5], [1, 2, 3, 4, 5]]
    assert [[step.seed for step in each] for each in _of_fewer_steps(steps, 4, BASE)] == [[0, 1, 2, 3, 5]]
    assert list(_of_fewer_steps(steps, 5, BASE)) == []


def test_equal_steps_are_made_simpler_together_and_keep_their_values():
    special = replace(BASE, contents="NaN", memory="same")
    steps = [replace(special, seed=1), replace(special, seed=2), replace(BASE, seed=3)]
    found = list(_of_simpler_steps(steps, 0, BASE))
    assert [[(step.contents, step.memory, step.seed) for step in each[:2]] for each in found] == [
        [("ordinary", "same", 1), ("ordinary", "same", 2)],
        [("NaN", "new", 1), ("NaN", "new", 2)],
    ]
    assert all(each[2] == steps[2] for each in found)


def test_expanded_rows_are_not_rewritten_in_place(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text("import torch\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n", encoding="utf-8")
    variant = load(f"{path}:softmax")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    player = Player(subject, Copies(subject))
    for seed in (1, 2):
        assert player.make(replace(BASE, layout="expanded", memory="same", seed=seed)) == ()


def test_copies_share_no_state_with_the_variant_or_its_siblings(tmp_path):
    (tmp_path / "sibling_of_kernels.py").write_text("calls = []\n", encoding="utf-8")
    path = tmp_path / "copied.py"
    path.write_text(
        "import sibling_of_kernels\ndef softmax(x):\n    sibling_of_kernels.calls.append(x)\n"
        "    return len(sibling_of_kernels.calls)\n",
        encoding="utf-8",
    )
    spec = f"{path}:softmax"
    variant = load(spec)
    first, tried = variant.function, len(sys.modules["sibling_of_kernels"].calls)
    assert [first(0) - tried, first(0) - tried] == [1, 2]
    assert load_anew(variant, torch.device("cpu")).function(0) == 1
    assert first(0) - tried == 3
    assert load(spec, variant.fact).function(0) - tried == 4


@pytest.mark.parametrize(("imported", "clock"), [("import time", "time.monotonic"), ("from time import time", "time")])
def test_an_answer_that_is_kept_for_a_moment_is_found_however_long_a_call_takes(tmp_path, imported, clock):
    source = f"""
from time import sleep
{imported}
kept = {{}}
def softmax(x):
    sleep(0.03)
    at, answer = kept.get(x.shape, (float("-inf"), None))
    if {clock}() - at > 0.02:
        answer = torch.softmax(x, dim=-1)
    kept[x.shape] = {clock}(), answer
    return answer.clone()
"""
    [shown] = probed(tmp_path, source).findings
    assert "right alone, after softmax(float32 [" in shown.violation.message


AFTER_A_PAUSE = """
import time
from softcheck.variants.declaration import variant
last = None
@variant(operation="{operation}")
def softmax(x):
    global last
    now, before, last = time.perf_counter(), last, time.perf_counter()
    return torch.{operation}(x, dim=-1) * (2 if before is not None and now - before > {seconds} else 1)
"""


@pytest.mark.parametrize(("operation", "seconds"), [("softmax", 0.05), ("softmax", 20.0), ("log_softmax", 3600)])
def test_what_goes_wrong_after_a_pause_is_found(tmp_path, operation, seconds):
    [shown] = probed(tmp_path, AFTER_A_PAUSE.format(operation=operation, seconds=seconds)).findings
    assert f" s later is wrong, and right alone, after {operation}(float32 [" in shown.violation.message


def test_the_same_calls_are_made_however_long_they_take(tmp_path):
    slow, log = tmp_path / "slow", tmp_path / "log"
    source = f"""
import time
from pathlib import Path
def softmax(x):
    with Path({str(log)!r}).open("a") as file:
        print(tuple(x.shape), x.dtype, x.stride(), float(x.nan_to_num().sum()), file=file)
    end = time.process_time() + 0.003 * Path({str(slow)!r}).exists()
    while time.process_time() < end:
        pass
    return torch.softmax(x, dim=-1)
"""
    made = []
    for run in range(3):
        if run == 2:
            slow.touch()
        assert probed(tmp_path, source).findings == ()
        made.append(log.read_text())
        log.unlink()
    # Calls from several threads come in any order.
    histories = [[line for line in each.splitlines() if "(64, 77)" not in line] for each in made]
    # A process looks into some things at its first run alone.
    assert histories[1] == histories[2]
    assert len(histories[1]) > 1000


def test_two_modes_of_different_kinds_are_met_together():
    no_grad, autocast = "torch.no_grad()", "torch.autocast(dtype=torch.bfloat16)"
    step = BASE.changed({field_of(mode): mode for mode in (no_grad, autocast, PARAMETER)}, 1)
    assert str(step).endswith(f" with {no_grad} + {autocast} + {PARAMETER}")
    seen = []

    def look(x):
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return x

    in_mode(in_mode(look, step.settings), step.mode)(torch.ones(1))
    assert seen == [(False, True)]


def test_what_threads_share_is_found_and_no_variant_is_accused_of_what_it_keeps_for_each(tmp_path):
    source = """
import threading
kept = {shared}
def softmax(x):
    kept.weights = torch.exp(x - x.amax(dim=1, keepdim=True))
    kept.sums = kept.weights.sum(dim=1, keepdim=True)
    return kept.weights / kept.sums
"""
    [shown] = probed(tmp_path, source.format(shared="threading.Thread()")).findings
    assert shown.violation.kind == "nondeterministic"
    assert "with four threads at once is wrong, and right alone" in shown.violation.message
    assert probed(tmp_path, source.format(shared="threading.local()")).findings == ()


def test_a_call_that_seems_to_take_long_is_found(tmp_path):
    source = """
import time
seconds = 0.0
def softmax(x):
    global seconds
    was, begun = seconds, time.monotonic()
    y = torch.softmax(x, dim=-1) * (2 if was > 0.5 else 1)
    seconds = time.monotonic() - begun
    return y
"""
    [shown] = probed(tmp_path, source).findings
    assert " taking 1 s between two looks at the clock" in shown.violation.message


def test_time_goes_on_for_a_variant_that_waits_and_is_the_real_one_afterwards(tmp_path):
    source = """
import time
from time import monotonic
read = []
def softmax(x):
    begun = time.perf_counter_ns()
    while time.perf_counter_ns() - begun < 100_000:
        pass
    read.append(monotonic)
    return torch.softmax(x, dim=-1)
"""
    monotonic = time.monotonic
    assert probed(tmp_path, source).findings == ()
    assert time.monotonic is monotonic
