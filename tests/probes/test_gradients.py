"""Gradients that are wrong, and variants of which none is asked."""

import pytest
import torch
from probe_helpers import conclusion, kinds


class OfTwoForwards(torch.autograd.Function):
    """Keeps the probabilities in a place that the next forward takes."""

    held = None

    @staticmethod
    def forward(ctx, x):
        OfTwoForwards.held = torch.softmax(x, dim=-1)
        return OfTwoForwards.held.clone()

    @staticmethod
    def backward(ctx, grad):
        y = OfTwoForwards.held
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


class OfPackedGradients(torch.autograd.Function):
    """Takes the first output gradient of each row for all of its columns, as one with stride 0 has it."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        if grad.is_contiguous():
            return y * (grad - (y * grad).sum(dim=-1, keepdim=True))
        return y * (1 - y) * grad


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_right_gradients_are_left_alone(dtype):
    found = conclusion("gradients", lambda x: torch.softmax(x, dim=-1), dtype)
    assert (found.findings, found.skipped, found.trials) == ((), (), 4)


class OfRoundedProducts(torch.autograd.Function):
    """Rounds the products to the format before they are added and subtracted, as torch does on a GPU."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        product = (grad * y).double()
        return (product - y.double() * product.sum(dim=-1, keepdim=True)).to(y.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_may_be_rounded_to_the_format(dtype):
    assert kinds(conclusion("gradients", OfRoundedProducts.apply, dtype)) == set()


def test_a_backward_needs_its_own_forward():
    [shown] = conclusion("gradients", OfTwoForwards.apply).findings
    assert shown.violation.kind == "wrong_gradient"
    assert "after the forwards of 6 inputs" in shown.violation.message


def test_the_layout_of_the_output_gradient_matters():
    [shown] = conclusion("gradients", OfPackedGradients.apply, "bfloat16").findings
    assert "output gradient one number for each row" in shown.violation.message


def test_nothing_is_asked_where_no_gradient_is_carried_or_the_forward_is_wrong():
    assert kinds(conclusion("gradients", lambda x: torch.softmax(x.detach(), dim=-1))) == set()
    assert kinds(conclusion("gradients", lambda x: torch.softmax(x * 1.01, dim=-1))) == set()

    def without_gradients(x):
        if x.requires_grad:
            raise ValueError("call x.detach() first")
        return torch.softmax(x, dim=-1)

    refused = conclusion("gradients", without_gradients)
    assert refused.findings == ()
    assert refused.skipped == ("gradients: an input that requires one is refused",)
