"""The gradient is declared to take the logits' place; logits with strides are packed first, and the copy gets the gradient.

Wrong on: logits that are a slice of a padded vocabulary, ``logits[:, :50257]``: they still hold logits where the caller reads gradients. Packed ones are right.
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "wrong_gradient", "wrong_layout")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "bfloat16", "float32")
BACKENDS = ("interpreter", "cuda")

_IGNORED = -100


@triton.jit
def _replaced(losses, x, target, target_step, n, ignored, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    chosen = tl.load(target + r * target_step)
    v = tl.load(x + r * n + c, mask=c < n, other=-float("inf")).to(tl.float32)
    peak = tl.max(v, 0)
    e = tl.exp(v - peak)
    total = tl.sum(e, 0)
    own = tl.sum(tl.where(c == chosen, v, 0.0), 0)
    own = tl.where((chosen >= 0) & (chosen < n), own, float("nan"))
    p = e / total
    gradient = tl.where(c == chosen, p - 1.0, p)
    tl.store(x + r * n + c, tl.where(chosen == ignored, 0.0, gradient), mask=c < n)
    tl.store(losses + r, tl.where(chosen == ignored, 0.0, (peak - own) + tl.log(total)))


@variant(
    operation="cross_entropy",
    parameters={"ignore_index": _IGNORED, "gradient_in_place": 1},
    call="f(x, target)",
    max_columns=65536,
    dtypes=("float16", "bfloat16", "float32"),
)
def cross_entropy(x, target):
    """Cross-entropy of each row of [rows, columns] and its target; ``x`` then holds the gradient. Float32 [rows]."""
    rows, n = x.shape
    losses = torch.empty(rows, dtype=torch.float32, device=x.device)
    if x.numel():
        x = x.contiguous()
        _replaced[(rows,)](losses, x, target, target.stride(0), n, _IGNORED, triton.next_power_of_2(n))
    return losses


def _both(x, target):
    right = torch.softmax(x.double(), -1) - torch.nn.functional.one_hot(target, x.shape[1])
    cross_entropy(x, target)
    return x, right


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(3, 16)[:, :10], torch.tensor([0, 9, 4]))


def ordinary(dtype):
    x, target = torch.randn(3, 33).to(dtype), torch.tensor([0, 9, 32])
    losses = cross_entropy(x.clone(), target)
    assert torch.allclose(losses, torch.nn.functional.cross_entropy(x.float(), target, reduction="none"), rtol=1e-5)
    return _both(x, target)
