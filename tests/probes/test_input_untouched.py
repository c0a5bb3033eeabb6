"""Inputs that are written to, outputs that share memory, first calls that differ; and what leaves its input alone."""

import pytest
import torch
from probe_helpers import conclusion


def in_place(x):
    return torch.softmax(x, dim=-1).copy_(x.sub_(x.amax(dim=-1, keepdim=True)).exp_()).div_(x.sum(-1, keepdim=True))


def in_place_where_rows_lie_apart(x):
    if not x.is_contiguous():
        x[0, 0] = 0.0
    return torch.softmax(x, dim=-1)


def in_place_without_gradients(x):
    if not torch.is_grad_enabled():
        x.zero_()
    return torch.softmax(x, dim=-1)


def in_place_with_gradients(x):
    if x.requires_grad:
        x.data[0, 0] = 0.0
    return torch.softmax(x, dim=-1)


def in_place_the_second_time():
    seen = set()

    def function(x):
        if x.data_ptr() in seen:
            x[0, 0] = 0.0
        seen.add(x.data_ptr())
        return torch.softmax(x, dim=-1)

    return function


def returns_the_input(x):
    return x.copy_(torch.softmax(x, dim=-1))


def returns_a_view_of_the_input(x):
    return x.view_as(x)


def keeps_a_buffer_per_shape():
    buffers = {}

    def function(x):
        buffer = buffers.setdefault((x.shape, x.dtype), torch.empty_like(x))
        return buffer.copy_(torch.softmax(x, dim=-1))

    return function


def keeps_the_largest_buffer():
    kept = []

    def function(x):
        if not kept or kept[0].numel() < x.numel():
            kept[:] = [torch.empty(x.numel(), dtype=x.dtype)]
        return kept[0][: x.numel()].view(x.shape).copy_(torch.softmax(x, dim=-1))

    return function


def clears_an_old_output():
    old = []

    def function(x):
        for output in old:
            output.zero_()
        output = torch.softmax(x, dim=-1)
        old.append(output)
        return output

    return function


def tunes_on_its_first_call():
    """Trial runs of an autotuner add to the output that is then returned."""
    tuned = set()

    def function(x):
        output = torch.softmax(x, dim=-1)
        if x.shape not in tuned:
            tuned.add(x.shape)
            output *= 2
        return output

    return function


def detaches_its_input(x):
    if x.requires_grad and not torch.is_grad_enabled():
        x.detach_()
    return torch.softmax(x, dim=-1)


def turns_its_input_into_a_column(x):
    y = torch.softmax(x, dim=-1)
    x.t_()
    return y


def native(x):
    return torch.softmax(x, dim=-1)


def reads_through_a_copy(x):
    packed = x.contiguous()
    return torch.softmax(packed, dim=-1).contiguous()


CASES = [
    (lambda: in_place, "input_modified", "reused"),
    (in_place_the_second_time, "input_modified", "reused"),
    (lambda: detaches_its_input, "input_modified", "called/no-grad-in-a-model"),
    (lambda: turns_its_input_into_a_column, "input_modified", "reused"),
    (lambda: returns_the_input, "input_modified", "reused"),
    (lambda: returns_a_view_of_the_input, "output_reused", "returned"),
    (keeps_a_buffer_per_shape, "output_reused", "returned"),
    (keeps_the_largest_buffer, "output_reused", "returned"),
    (clears_an_old_output, "output_reused", "returned"),
    (tunes_on_its_first_call, "nondeterministic", "reused"),
]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("make", "kind", "label"), CASES, ids=range(len(CASES)))
def test_planted_faults_are_found(make, kind, label, dtype):
    found = conclusion("input_untouched", make(), dtype)
    assert (label, kind) in {(shown.label, str(shown.violation.kind)) for shown in found.findings}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [native, reads_through_a_copy])
def test_what_leaves_its_input_alone_is_left_alone(function, dtype):
    found = conclusion("input_untouched", function, dtype)
    assert (found.findings, found.skipped) == ((), ())
    assert found.trials == 5


@pytest.mark.parametrize(
    ("function", "axis"),
    [
        (in_place_where_rows_lie_apart, "layout"),
        (in_place_without_gradients, "mode"),
        (in_place_with_gradients, "gradient"),
    ],
)
def test_an_input_that_is_changed_in_some_circumstances_alone_is_found_where_these_meet(function, axis):
    found = conclusion("meetings", function)
    assert "input_modified" in {str(each.violation.kind) for each in found.findings if each.label.startswith(axis)}
