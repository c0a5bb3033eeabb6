"""Faults that show only where two, three or four circumstances meet are found and reduced to these; right functions are left alone."""

import threading
from pathlib import Path

import pytest
import torch
from probe_helpers import conclusion, conclusion_of_source, made_in

import softcheck
from softcheck.contract import FindingKind
from softcheck.probes import meetings
from softcheck.probes.base import Setting, Subject
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.plan import Plan
from softcheck.probes.space.way import Way
from softcheck.variants.registry import load


def space_of(spec):
    variant = load(spec)
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    return meetings._space_of(Subject(variant, setting, torch.device("cpu")))


MAIN = threading.main_thread()
FUNCTIONS = Path(__file__).with_name("functions_with_options.py")


def axes_of(finding):
    return {part.partition("=")[0] for part in finding.label.split(",")} - {"values"}


def wrong_where(condition, **promises):
    """A softmax that is wrong by a tenth where a condition on its input holds."""

    @softcheck.variant(**promises)
    def softmax(x):
        y = torch.softmax(x.float(), -1).to(x.dtype)
        return y * 1.1 if condition(x) else y

    return softmax


FAULTS = {
    "three dimensions and strided": (
        lambda x: x.dim() == 3 and not x.is_contiguous() and x.stride(-1) == 1,
        {"dims", "layout"},
    ),
    "a NaN in inference mode": (lambda x: torch.is_inference_mode_enabled() and x.isnan().any(), {"contents", "mode"}),
    "a gradient and an offset": (lambda x: x.requires_grad and x.storage_offset() == 1, {"offset"}),
    "one row in a thread": (
        lambda x: x.numel() == x.shape[-1] and threading.current_thread() is not MAIN,
        {"rows", "mode"},
    ),
    "wide, strided and a large logit": (
        lambda x: x.shape[-1] > 1024 and x.stride(-1) != 1 and x.amax() > 25,
        {"columns", "layout", "contents"},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_meeting_is_found_and_reduced(name):
    condition, due = FAULTS[name]
    found = conclusion("meetings", wrong_where(condition, dimensions=4))
    assert found.findings, "no finding"
    axes = axes_of(found.findings[0])
    assert due <= axes, f"{due} are needed, {axes} are named"
    assert len(axes) <= len(due) + 1


def test_a_wrong_gradient_for_wide_rows_alone_is_found():
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x, -1)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            sums = (y * g)[:, :1024].sum(-1, keepdim=True)
            return y * (g - sums)

    found = conclusion("meetings", Softmax.apply)
    assert [axes_of(each) for each in found.findings] == [{"columns", "gradient"}]
    assert "right with any one of these as usual" in found.findings[0].violation.message


def test_an_option_beside_wide_rows_is_found_and_a_refusal_is_none(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "import torch\n"
        "def softmax(x, scale=1.0):\n"
        "    if scale != 1.0 and x.requires_grad:\n"
        "        raise NotImplementedError('no gradient beside a scale')\n"
        "    return torch.softmax(x if x.shape[-1] > 1000 else x * scale, -1)\n"
    )
    function = load(f"{file}:softmax").function
    function.__name__ = f"{file}:softmax"
    found = conclusion("meetings", function)
    assert [axes_of(each) for each in found.findings] == [{"columns", "scale"}]


def test_a_stale_answer_for_the_same_storage_is_found():
    kept = {}

    def softmax(x):
        key = x.data_ptr(), x.shape, x.stride()
        if key not in kept:
            kept.clear()
            # The logits are kept too: else another tensor may come to lie at their address, whatever call makes it.
            kept[key] = x, torch.softmax(x, -1)
        return kept[key][1]

    assert any("before" in axes_of(each) for each in conclusion("meetings", softmax).findings)


def test_an_answer_that_a_later_wide_call_overwrites_is_found():
    buffers = {}

    def softmax(x):
        answer = torch.softmax(x, -1)
        if x.shape[-1] <= 1024:
            return answer
        ring = buffers.setdefault((x.shape, x.dtype), [torch.empty_like(answer) for _ in range(3)])
        ring.append(ring.pop(0))
        return ring[0].copy_(answer)

    found = conclusion("meetings", softmax).findings
    assert [(each.violation.kind, axes_of(each)) for each in found] == [
        (FindingKind.OUTPUT_REUSED, {"columns", "after"})
    ]


def test_a_mask_that_is_kept_by_its_tensor_is_found():
    kept = {}

    @softcheck.variant(call="f(x, keep)")
    def softmax(x, keep):
        key = id(keep), keep.data_ptr()
        if key not in kept:
            # The mask is kept too, so that no other gets its id.
            kept[key] = keep, keep.clone()
        return torch.softmax(x.masked_fill(~kept[key][1], float("-inf")), -1)

    assert {"before"} in [axes_of(each) for each in conclusion("meetings", softmax).findings]


@pytest.mark.parametrize(
    ("dtype", "right"),
    [
        ("float16", lambda x: torch.softmax(x.float(), -1).to(x.dtype)),
        ("float32", wrong_where(lambda _: False, dimensions=4)),
    ],
    ids=["float16", "float32"],
)
def test_right_functions_are_left_alone(dtype, right):
    found = conclusion("meetings", right, dtype)
    assert found.findings == ()
    assert found.trials > 1


def test_weights_taken_from_a_rounded_logarithm_are_left_alone():
    @softcheck.variant(operation="attention", call="f(q, k, v)")
    def attention(q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp() @ v

    assert made_in(attention, "float32", (), "contents=far apart,values=100") == {}


MEANS = """
import torch

import softcheck


@softcheck.variant(operation="cross_entropy", parameters={"reduction": "mean"})
def softmax(x, target, weight=None, label_smoothing=0.0, z_loss=0.0):
    loss = torch.nn.functional.cross_entropy(x.double(), target, weight, label_smoothing=label_smoothing)
    loss = loss + z_loss * x.double().logsumexp(-1).square().mean()
    return (loss * (1.01 if label_smoothing and len(x) > 64 else 1.0)).to(x.dtype)
"""


def test_rows_of_a_mean_meet_options_and_weights_meet_no_squares_in_it(tmp_path):
    assert [axes_of(each) for each in conclusion_of_source("meetings", tmp_path, MEANS).findings] == [
        {"rows", "label_smoothing"}
    ]
    variant = load(f"{tmp_path / 'kernels.py'}:softmax")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    space = meetings._space_of(Subject(variant, setting, torch.device("cpu")))
    assert space.excluded(Way.parse("weight=1,z_loss=0.5", space.axes))


@pytest.mark.parametrize("copies", [True, False])
def test_out_with_leading_dimensions_exchanged_must_be_written_itself(copies):
    @softcheck.variant(dimensions=3)
    def softmax(x, *, out=None):
        y = torch.softmax(x, -1)
        if out is None:
            return y
        (out.reshape(-1, x.shape[-1]) if copies else out).copy_(y.reshape(-1, x.shape[-1]) if copies else y)
        return out

    found = conclusion("meetings", softmax).findings
    assert [axes_of(each) for each in found] == [{"dims", "out"}] * copies


def test_a_workspace_that_a_call_in_inference_mode_made_is_no_finding():
    kept = {}

    def softmax(x):
        key = x.shape, x.dtype
        work = kept.setdefault(key, torch.empty_like(x, requires_grad=False))
        work.copy_(x.detach())
        return torch.softmax(work, -1).clone()

    assert conclusion("meetings", softmax).findings == ()


def test_a_function_that_is_wrong_throughout_is_left_to_others():
    assert conclusion("meetings", wrong_where(lambda _: True)).findings == ()


NAMED = {
    "x.requires_grad and rows > 20": "rows=21,mode=x.requires_grad_()",
    "x.data_ptr() % 16 != 0 and rows == 33": "rows=33,offset=1",
    "not torch.are_deterministic_algorithms_enabled() and rows > 20": "rows=21,settings=torch.use_deterministic_algorithms(False)",
    "torch.is_autocast_enabled('cpu') and not torch.is_grad_enabled()": "mode=torch.no_grad(),settings=torch.autocast(dtype:torch.bfloat16)",
    "x.requires_grad and torch.get_default_dtype() == torch.float64": "mode=x.requires_grad_(),settings=torch.set_default_dtype(torch.float64)",
    "torch.compiler.is_compiling() and x.amax() > float('1e30')": 'contents=huge,settings=torch.compile(backend:"eager")',
    "torch.isnan(x).any(-1).all()": "rows=1,contents=NaN",
}


@pytest.mark.parametrize("condition", NAMED)
def test_circumstances_that_a_condition_names_are_values_that_meet(tmp_path, condition):
    file = tmp_path / "kernel.py"
    file.write_text(
        f"""
import torch


def softmax(x):
    rows = x.numel() // max(1, x.shape[-1])
    y = torch.softmax(x, -1)
    return y.nan_to_num(0.3) * 1.1 if {condition} else y
"""
    )
    space = space_of(f"{file}:softmax")
    way = Way.parse(NAMED[condition], space.axes)
    attempts = Attempts(space, 0)
    assert attempts.make(way).violations
    assert not any(attempts.make(way.without(axis)).violations for axis, _ in way.values)
    planned = [axis for axis in space.axes if axis.is_planned]
    assert any(each.holds(way) for each in Plan(planned, space.excluded, [1]).ways(320, 480))


def test_second_derivatives_are_sized_by_probabilities_of_scaled_logits(tmp_path):
    """With a scale of 0.1 these are far from those of the logits."""
    file = tmp_path / "kernel.py"
    file.write_text("import torch\n\n\ndef softmax(x, scale=1.0):\n    return torch.softmax(x * scale, -1)\n")
    space = space_of(f"{file}:softmax")
    ways = [Way.parse(f"rows=433,scale=0.1,asked=of the gradient,values={n}", space.axes) for n in range(5)]
    assert not any(Attempts(space, 0).make(way).fails for way in ways)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("scale_of_the_last_call", "before=another option"),
        ("scale_forgotten_behind_a_causal_mask", "causal=top-left,scale=0.5"),
    ],
)
def test_options_that_stay_or_hide_each_other_are_wrong(name, way):
    space = space_of(f"{FUNCTIONS}:{name}@operation=attention")
    assert Attempts(space, 0).make(Way.parse(way, space.axes)).violations


def test_what_a_call_leaves_behind_is_found():
    kept = []

    def softmax(x):
        kept.extend([True] if x.stride(-1) != 1 else [])
        return torch.softmax(x, -1) * (1.1 if kept and x.stride(-1) == 1 else 1.0)

    found = conclusion("meetings", softmax).findings
    assert any(each.label == "plain" and "and right before it" in each.violation.message for each in found)


UNSEEN = Path(__file__).parents[1] / "planted" / "unseen"
WAYS = {
    "softmax_workspace_filled_before_the_saved_answer_is_asked_for": "asked=with the forward made again",
    "softmax_gradient_path_asks_the_logits_alone": "call=f(x; bias:bias),asked=by the bias",
    "softmax_gradient_of_the_scale_scaled_in_wide_rows": "columns=1120,scale=3,asked=by the scale",
    "log_softmax_tangent_summed_over_the_last_dimension": "dims=3 over 0,asked=in forward mode",
    "attention_keys_and_values_alone_have_the_default_scale": "scale=0.5,asked=by k and v alone",
    "attention_mask_of_one_row_lost_behind_the_first_chunk": "columns=130,masked=1,shared mask=one for all queries",
}
"""Wrong kernels by somebody who had not seen the checks, and the circumstances in which each is wrong."""
RIGHT = {
    "softmax_workspace_filled_once_the_saved_answer_is_at_hand": "asked=with the forward made again",
    "softmax_bias_and_scale_learnt_beside_frozen_logits": "call=f(x; bias:bias),asked=by the bias",
    "log_softmax_derivatives_both_ways_of_any_dimension_and_type": "dims=3 over 0,asked=of the gradient",
}


def attempt(path, way):
    operation = next(
        name for name in ("log_softmax", "logsumexp", "softmax", "attention") if path.stem.startswith(name)
    )
    said = "" if "@variant" in path.read_text() else f"@operation={operation}"
    space = space_of(f"{path}:{operation}{said}")
    return Attempts(space, 0).make(Way.parse(way, space.axes))


@pytest.mark.parametrize("name", WAYS)
def test_an_unseen_kernel_is_wrong_in_its_way(name):
    assert attempt(UNSEEN / "bugs" / f"{name}.py", WAYS[name]).faults


@pytest.mark.parametrize("name", RIGHT)
def test_an_unseen_kernel_that_is_right_stays_so_in_its_way(name):
    assert not attempt(UNSEEN / "controls" / f"{name}.py", RIGHT[name]).faults


SOURCES = {
    "dims=4 over 2": ("softmax", "x, dim=-1", "torch.softmax(x, dim)", "x.dim() == 4 and dim % 4 == 2"),
    "dims=2 over 0,out=packed": (
        *("softmax", "x, dim=-1, out=None", "torch.softmax(x, dim)"),
        "out is not None and dim % x.dim() == 0",
    ),
    "dims=3 over 0,layout=padded by 3": (
        *("logsumexp", "x, dim=-1", "torch.logsumexp(x, dim)"),
        "x.dim() == 3 and dim % 3 == 0 and x.stride(-1) != 1",
    ),
    "columns=1120,scale=3,call=f(x; mask:keep)": (
        *("softmax", "x, mask=None, scale=1.0"),
        "torch.softmax(x * scale if mask is None else (x * scale).masked_fill(~mask, -torch.inf), -1)",
        "mask is not None and scale == 3 and x.shape[-1] > 1024",
    ),
}
"""A function's name, its parameters, its answer, and the condition of a fault, by a way in which it holds."""


@pytest.mark.parametrize("factor", [1.0, 1.1])
@pytest.mark.parametrize("way", SOURCES)
def test_a_fault_of_options_and_dimensions_is_wrong_in_its_way(tmp_path, way, factor):
    name, parameters, answer, condition = SOURCES[way]
    into = "    return y if out is None else out.copy_(y)\n" if "out" in parameters else "    return y\n"
    (tmp_path / "kernel.py").write_text(
        f"import torch\n\n\ndef {name}({parameters}):\n    y = {answer} * ({factor} if {condition} else 1.0)\n{into}"
    )
    space = space_of(f"{tmp_path / 'kernel.py'}:{name}@operation={name}")
    assert bool(Attempts(space, 0).make(Way.parse(way, space.axes)).faults) == (factor != 1.0)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_backward_of_no_rows_must_not_raise(wrong):
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x, -1)
            ctx.save_for_backward(*([] if wrong and not x.numel() else [y]))
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return y * (g - (y * g).sum(-1, keepdim=True))

    assert bool(conclusion("empties", Softmax.apply).findings) == wrong


def test_a_gradient_beyond_float16_may_be_infinite():
    class LogSoftmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.log_softmax(x.float(), -1)
            ctx.save_for_backward(y)
            return y.to(x.dtype)

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return (g.float() - y.exp() * g.float().sum(-1, keepdim=True)).to(g.dtype)

    @softcheck.variant(operation="log_softmax")
    def log_softmax(x):
        return LogSoftmax.apply(x)

    way = "columns=4100,rows=17,contents=far apart,gradient=one number for each row"
    assert made_in(log_softmax, "float16", (), way) == {}
