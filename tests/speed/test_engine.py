"""The engine without a GPU: who is refused and why, and that every round has everyone once."""

import importlib.util
from pathlib import Path

import pytest
import torch
from host_clock import HostClock

from oracles.formats import FORMATS
from softcheck.operations import targets
from softcheck.operations.registry import operation
from softcheck.speed.engine import DeviceLostError, Engine
from softcheck.speed.inputs import Rotation
from softcheck.speed.samples import TimingPlan
from softcheck.speed.statistics import LEAST_ROUNDS
from softcheck.variants.adapt import operands_of
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels"
CPU = torch.device("cpu")


@pytest.fixture
def cheats():
    """The module anew, since its kernels remember their calls."""
    path = Path(__file__).parents[1] / "kernels" / "cheats.py"
    spec = importlib.util.spec_from_file_location("cheats", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def honest(x):
    return torch.softmax(x, dim=-1)


def measure(functions, *, rows=70, columns=40, seconds=0.02, peak=None, clock=None, dtype="float32"):
    plan = TimingPlan(rows=rows, columns=columns, dtype=dtype, seed=3, seconds=seconds)
    clock = clock or HostClock()
    clock.peak = peak
    steps = Engine(plan, CPU, clock).measure(functions)
    names = []
    while True:
        try:
            names.append(next(steps))
        except StopIteration as ended:
            return ended.value, names


def by_name(samples):
    return {s.name: s for s in samples.variants}


@pytest.mark.parametrize("dtype", FORMATS)
def test_honest_variant_has_a_figure_per_round_and_an_ulp_error(dtype):
    samples, names = measure({"honest": honest}, dtype=dtype)
    found = by_name(samples)["honest"]
    assert found.reason is None
    assert len(found.seconds) == samples.rounds == len(samples.torch.seconds) >= LEAST_ROUNDS
    assert found.max_ulp is not None
    assert names[0] == "honest"
    assert names[-1].startswith("\0")


def test_every_timed_call_is_preceded_by_a_flush():
    clock = HostClock()
    samples, _ = measure({"honest": honest}, clock=clock)
    assert clock.flushes == 3 * samples.rounds


def test_short_calls_are_replayed_from_a_graph_and_launched_beside_it():
    samples, _ = measure({"honest": honest}, clock=HostClock(captures=True, seconds=2e-6), rows=4)
    found = by_name(samples)["honest"]
    assert (found.method, found.reason) == ("graph", None)
    assert found.calls_per_span > 1
    assert len(found.launch_seconds) == len(found.seconds)


def test_variant_that_no_graph_can_hold_is_launched_and_says_so():
    samples, _ = measure({"honest": honest}, clock=HostClock(seconds=2e-6), rows=4)
    found = by_name(samples)["honest"]
    assert found.method == "launch"
    assert any("the host has no graphs" in note for note in found.notes)


@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize("cheat", ["skips_after_some_calls", "keeps_answers_by_pointer", "skips_last_row"])
def test_cheat_is_refused_and_the_honest_one_beside_it_is_timed(cheats, cheat, captures):
    samples, _ = measure(
        {"cheat": getattr(cheats, cheat), "honest": honest}, clock=HostClock(captures=captures), rows=9
    )
    found = by_name(samples)
    assert found["cheat"].seconds == ()
    assert "wrong" in found["cheat"].reason
    assert found["honest"].reason is None


def test_variant_that_raises_later_loses_only_itself():
    calls = []

    def tires(x):
        calls.append(1)
        if len(calls) > 20:
            raise RuntimeError("enough")
        return torch.softmax(x, dim=-1)

    found = by_name(measure({"tires": tires, "honest": honest})[0])
    assert "enough" in found["tires"].reason
    assert found["honest"].reason is None


@pytest.mark.parametrize("honest_calls", [0, 1, 20])
def test_variant_that_ruins_the_device_is_named_before_another_is_blamed(honest_calls):
    clock = HostClock()
    calls = []

    def ruins(x):
        calls.append(1)
        if len(calls) > honest_calls:
            clock.lives = False
            raise RuntimeError("an illegal memory access was encountered")
        return torch.softmax(x, dim=-1)

    with pytest.raises(DeviceLostError, match="illegal memory access") as lost:
        measure({"ruins": ruins, "honest": honest}, clock=clock)
    assert lost.value.variant == "ruins"


def test_output_of_another_shape_is_refused():
    found = by_name(measure({"short": lambda x: torch.softmax(x, dim=-1)[:, :-1]})[0])["short"]
    assert "shape" in found.reason


def test_inaccurate_variant_that_does_all_the_work_is_timed():
    def rough(x):
        return torch.softmax(x.half(), dim=-1).to(x.dtype)

    found = by_name(measure({"rough": rough})[0])["rough"]
    assert found.reason is None
    assert found.max_ulp > 100


def test_variant_faster_than_memory_is_refused():
    found = by_name(measure({"honest": honest}, peak=1.0)[0])["honest"]
    assert "memory's peak" in found.reason


def test_spans_of_a_few_ticks_are_called_too_short():
    found = by_name(measure({"honest": honest}, rows=1, columns=2)[0])["honest"]
    assert found.too_short == (sorted(found.seconds)[len(found.seconds) // 2] < 25e-6)
    assert found.too_short == any("too short to time" in note for note in found.notes)


@pytest.mark.parametrize("rows", [1, 3, 64, 65, 200])
def test_shifted_input_is_the_repeated_block_shifted(rows):
    rotation = Rotation(rows, 5, FORMATS["float32"], 1, CPU)
    x = rotation.new_input()
    block = x[: rotation.distinct].clone()
    shift = rotation.next_shift()
    rotation.fill(x, shift)
    for row in range(rows):
        assert torch.equal(x[row], block[(row + shift) % rotation.distinct])
    answer = torch.softmax(block, dim=-1)
    assert int(rotation.wrong_rows(torch.softmax(x, dim=-1), answer, shift)) == 0
    wrong = torch.softmax(x, dim=-1)
    wrong[-1] = float("nan")
    assert int(rotation.wrong_rows(wrong, answer, shift)) == 1
    if rotation.distinct > 1:
        assert int(rotation.wrong_rows(torch.softmax(x, dim=-1), answer, shift + 1)) == rows


def measured_with(specs, *, dtype="float32", clock=None, rows=70, columns=40):
    """Samples of variants whose calls take operands, all the same."""
    variants = {name: load(spec) for name, spec in specs.items()}
    for variant in variants.values():
        variant.function(torch.zeros(2, 8))
    functions = {name: variant.function for name, variant in variants.items()}
    operation = next(iter(variants.values())).operation
    plan = TimingPlan(rows=rows, columns=columns, dtype=dtype, seed=3, seconds=0.02)
    names = operands_of(next(iter(functions.values())))
    steps = Engine(plan, CPU, clock or HostClock(), operation, names).measure(functions)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


OPERATIONS_WITH_OPERANDS = [
    (f"{KERNELS / 'row_answers.py'}:cross_entropy@operation=cross_entropy", ("target",)),
    (f"{KERNELS / 'row_answers.py'}:ignoring@operation=cross_entropy,ignore_index=-100", ("target",)),
    (f"{KERNELS / 'losses.py'}:weighted@operation=cross_entropy,weight=1", ("target", "weight")),
    (f"{KERNELS / 'backwards.py'}:in_another_order@operation=softmax_backward", ("grad", "y")),
    (f"{KERNELS / 'backwards.py'}:log_softmax_backward@operation=log_softmax_backward", ("grad", "y")),
    (f"{KERNELS / 'masked.py'}:takes_what_is_hidden", ("mask",)),
    (f"{KERNELS / 'masked.py'}:takes_what_is_kept", ("keep",)),
    (f"{KERNELS / 'masked.py'}:takes_a_bias", ("bias",)),
]


@pytest.mark.parametrize("captures", [False, True])
@pytest.mark.parametrize(("spec", "operands"), OPERATIONS_WITH_OPERANDS)
def test_calls_with_operands_are_timed_beside_torch_with_the_same(spec, operands, captures):
    clock = HostClock(captures=captures, seconds=2e-6 if captures else None)
    samples = measured_with({"right": spec}, clock=clock)
    found = by_name(samples)["right"]
    assert found.reason is None
    assert samples.operands == operands
    assert found.max_ulp is not None
    assert len(found.seconds) == len(samples.torch.seconds) == samples.rounds


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("row_answers.py:target_of_the_next_row", "cross_entropy"),
        ("backwards.py:sum_of_the_first_row", "softmax_backward"),
        ("masked.py:multiplies_by_the_mask", "softmax"),
    ],
)
def test_wrong_answers_to_operands_are_refused_where_rows_show_it(name, operation):
    found = by_name(measured_with({"wrong": f"{KERNELS}/{name}@operation={operation}"}))["wrong"]
    assert found.seconds == ()
    assert "wrong" in found.reason


def test_a_kernel_that_keeps_its_targets_is_refused(tmp_path):
    kept = "import torch\nkept = {}\n\n\ndef loss(x, target):\n    target = kept.setdefault(len(x), target.clone())\n"
    kept += "    return torch.nn.functional.cross_entropy(x, target, reduction='none')\n"
    (tmp_path / "keeps.py").write_text(kept)
    found = by_name(measured_with({"keeps": f"{tmp_path / 'keeps.py'}:loss@operation=cross_entropy"}))["keeps"]
    assert found.seconds == ()
    assert "wrong" in found.reason


def test_operands_are_not_copied_or_made_in_the_timed_call(monkeypatch):
    calls = []
    made = targets.of_tensor
    monkeypatch.setattr("softcheck.operations.targets.of_tensor", lambda *given: calls.append(1) or made(*given))
    clock = HostClock()
    samples = measured_with({"right": OPERATIONS_WITH_OPERANDS[0][0]}, clock=clock)
    assert samples.rounds >= LEAST_ROUNDS
    assert len(calls) < LEAST_ROUNDS


def test_functions_of_other_operands_are_not_timed_side_by_side():
    specs = {"mask": OPERATIONS_WITH_OPERANDS[-3][0], "bias": OPERATIONS_WITH_OPERANDS[-1][0]}
    found = by_name(measured_with(specs))
    assert found["mask"].reason is None
    assert found["bias"].reason == "its call takes other operands (bias) than those it is timed beside (mask)"


def test_operands_shift_with_their_rows():
    cross_entropy = operation("cross_entropy")
    rotation = Rotation(100, 12, FORMATS["float32"], 1, CPU, cross_entropy, frozenset({"target"}))
    x = rotation.new_input()
    assert rotation.input_bytes == 100 * 12 * 4 + 100 * 8
    rotation.fill(x, rotation.next_shift())
    assert torch.equal(rotation.operands(x)["target"], targets.of_tensor(x, None))
    other = rotation.new_input()
    assert rotation.operands(other)["target"].data_ptr() != rotation.operands(x)["target"].data_ptr()


HEADS = [
    f"{KERNELS / 'attentions.py'}:{name}"
    for name in ("of_three_dimensions", "by_length", "with_mask", "with_shared_keys")
]


def measure_heads(name, clock=None, *, rows=5, columns=40):
    """Samples of an attention on some heads, called with queries, keys and values in its layout."""
    variant = load(name)
    variant.function(torch.randn(2, 8))
    plan = TimingPlan(rows=rows, columns=columns, dtype="float32", seed=3, seconds=0.01)
    engine = Engine(plan, CPU, clock or HostClock(), variant.operation, operands_of(variant.function))
    steps = engine.measure({"it": variant.function}, {"it": variant.declaration.fully_masked})
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return ended.value


@pytest.mark.parametrize("name", HEADS, ids=lambda name: name.rpartition(":")[2])
def test_attention_is_timed_beside_the_quickest_of_torchs_backends(name):
    samples = measure_heads(name, HostClock(captures=name == HEADS[0], seconds=5e-6))
    (found,) = samples.variants
    assert found.reason is None
    assert found.method == ("graph" if name == HEADS[0] else "launch")
    assert 0 < found.max_ulp < 64
    assert samples.torch.notes[0] in {"by math", "by flash_attention"}
    assert len(samples.torch.seconds) == len(found.seconds) == samples.rounds


ZEROS = """
import torch
from softcheck import variant

@variant(operation="attention", parameters={"masked": 1, "head_dim": 8}, fully_masked="PROMISED", call="f(q, k, v, keep)")
def attention(q, k, v, keep):
    scores = (q.float() @ k.float().mT * q.shape[-1] ** -0.5).masked_fill(~keep, -torch.inf)
    blind = ~keep.any(dim=-1, keepdim=True)
    return torch.where(blind, 0.0, torch.softmax(scores.masked_fill(blind, 0.0), dim=-1) @ v.float()).to(q.dtype)
"""


@pytest.mark.parametrize("promised", ["zero", "nan"])
def test_queries_without_keys_are_judged_as_declared_before_a_variant_is_timed(tmp_path, promised):
    path = tmp_path / f"{promised}.py"
    path.write_text(ZEROS.replace("PROMISED", promised), encoding="utf-8")
    # One head of so many shows a query that sees no key.
    (found,) = measure_heads(f"{path}:attention", rows=64, columns=3).variants
    assert (found.reason is None) == (promised == "zero")
    assert promised == "zero" or "NaN or infinite where that is not due" in found.reason


def test_heads_of_more_keys_than_a_report_judges_are_timed_and_judged():
    (found,) = measure_heads(f"{KERNELS / 'attentions.py'}:by_heads", rows=2, columns=660).variants
    assert found.reason is None
    assert found.max_ulp < 64


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("half_of_the_keys", "more than inaccurate"),
        ("answers_of_the_first_call", "keeps an answer"),
    ],
)
def test_an_attention_that_skips_work_is_not_timed(name, said):
    (found,) = measure_heads(f"{KERNELS / 'attentions.py'}:{name}").variants
    assert said in found.reason


def test_floating_point_operations_are_counted_as_flash_attention_counts():
    attention = operation("attention", {"head_dim": 128})
    assert attention.flops(64, 4096) == 4 * 64 * 4096**2 * 128
    causal = operation("attention", {"head_dim": 128, "causal": "bottom-right", "groups": 2})
    assert causal.flops(32, 4096) == attention.flops(64, 4096) / 2


def test_a_call_that_overwrites_its_input_is_not_timed(tmp_path):
    spec = f"{tmp_path / 'over.py'}:loss@operation=cross_entropy,gradient_in_place=1"
    (tmp_path / "over.py").write_text(
        "import torch\n\n\ndef loss(x, target):\n    found = torch.nn.functional.cross_entropy(x, target, reduction='none')\n"
        "    x.zero_()\n    return found\n"
    )
    found = by_name(measured_with({"over": spec}))["over"]
    assert found.seconds == ()
    assert found.reason.startswith("each call overwrites its input")
