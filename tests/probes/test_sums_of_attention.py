"""Gradients of an attention's log-sum-exp by queries and keys: wrong ones are found, right ones left alone."""

import pytest
import torch
from probe_helpers import made_in

from softcheck import variant


class Logsumexp(torch.autograd.Function):
    """Keeps scores' weights, and forgets what ``wrong`` says."""

    @staticmethod
    def forward(ctx, q, k, wrong):
        scores = (q.float() @ k.float().mT) * q.shape[-1] ** -0.5
        found = torch.logsumexp(scores, -1)
        ctx.save_for_backward(q, k, (scores - found[..., None]).exp())
        ctx.wrong = wrong
        return found.to(q.dtype)

    @staticmethod
    def backward(ctx, grad):
        q, k, weights = ctx.saved_tensors
        of_scores = weights * grad.float()[..., None]
        scale = q.shape[-1] ** -0.5
        by_q = (of_scores @ k.float()) * (1.0 if ctx.wrong == "the scale" else scale)
        by_k = (of_scores.mT @ q.float()) * scale
        if ctx.wrong == "a query":
            by_k = by_k - of_scores[..., :1, :].mT @ q.float()[..., :1, :] * scale
        return by_q.to(q.dtype), by_k.to(k.dtype), None


def function(wrong, call="f(q, k)"):
    @variant(operation="attention_logsumexp", call=call)
    def logsumexp(q, k, v=None):
        return Logsumexp.apply(q, k, wrong)

    return logsumexp


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_gradients_of_a_right_log_sum_exp_are_left_alone(dtype):
    ways = (
        "gradient=varying",
        "gradient=ones expanded",
        "asked=by q alone",
        "asked=twice",
        "gradient=varying,columns=200",
    )
    assert made_in(function(""), dtype, (), *ways) == {}


@pytest.mark.parametrize("call", ["f(q, k)", "f(q, k, v)"])
@pytest.mark.parametrize(("wrong", "by"), [("the scale", "q"), ("a query", "k")])
def test_a_wrong_gradient_is_found(wrong, by, call):
    found = made_in(function(wrong, call), "float32", (), "gradient=varying", f"asked=by {by} alone")
    assert [each.kind for wrongs in found.values() for each in wrongs] == ["wrong_gradient"] * 2
    assert f"the gradient by {by} of" in found[f"asked=by {by} alone"][0].message
