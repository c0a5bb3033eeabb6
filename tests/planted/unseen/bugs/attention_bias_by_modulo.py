"""The bias's matrix is (batch * heads + head) modulo their number, which is no broadcast of [batch, 1, queries, keys].

Wrong on: a bias of [batch, 1, queries, keys], as of Hugging Face's extended masks, with a batch of 2 or more. Right for
[1, 1, ..], [1, heads, ..] and [batch, heads, ..].
"""

import torch
import triton
import triton.language as tl

from softcheck import variant

EXPECTED = ("ulp_exceeds_bound", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def _attention(
    q_ptr,
    k_ptr,
    v_ptr,
    bias_ptr,
    o_ptr,
    q_b,
    q_h,
    q_m,
    q_d,
    k_b,
    k_h,
    k_n,
    k_d,
    v_b,
    v_h,
    v_n,
    v_d,
    o_b,
    o_h,
    o_m,
    o_d,
    heads,
    groups,
    matrices,
    n_queries,
    n_keys,
    dim,
    scale,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    b = head // heads
    h = head % heads
    rows = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, D)
    inside = (rows[:, None] < n_queries) & (d[None, :] < dim)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None].to(tl.int64) * q_m + d[None, :] * q_d, mask=inside, other=0.0)
    k_ptr += b * k_b + (h // groups) * k_h
    v_ptr += b * v_b + (h // groups) * v_h
    bias_ptr += (head % matrices) * n_queries * n_keys
    m = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for start in range(0, n_keys, N):
        n = start + tl.arange(0, N)
        there = (n[:, None] < n_keys) & (d[None, :] < dim)
        k = tl.load(k_ptr + n[:, None].to(tl.int64) * k_n + d[None, :] * k_d, mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        both = (rows[:, None] < n_queries) & (n[None, :] < n_keys)
        s += tl.load(bias_ptr + rows[:, None].to(tl.int64) * n_keys + n[None, :], mask=both, other=-float("inf")).to(
            tl.float32
        )
        new = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(new == -float("inf"), 0.0, new)
        alpha = tl.exp(m - shift)
        p = tl.exp(s - shift[:, None])
        total = total * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + n[:, None].to(tl.int64) * v_n + d[None, :] * v_d, mask=there, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = new
    tl.store(
        o_ptr + b * o_b + h * o_h + rows[:, None].to(tl.int64) * o_m + d[None, :] * o_d,
        acc / total[:, None],
        mask=inside,
    )


@variant(operation="attention", parameters={"biased": 1}, call="f(q, k, v, bias)")
def attention(q, k, v, bias):
    """[batch, heads, length, head_dim]; a bias [.., queries, keys] that is broadcast."""
    batch, heads, n_queries, dim = q.shape
    o = torch.empty((batch, heads, n_queries, dim), device=q.device, dtype=q.dtype)
    if not o.numel():
        return o
    bias = bias.expand(*bias.shape[:-2], n_queries, k.shape[2]).contiguous()
    matrices = bias.shape[:-2].numel()
    _attention[(triton.cdiv(n_queries, 32), batch * heads)](
        q,
        k,
        v,
        bias,
        o,
        *q.stride(),
        *k.stride(),
        *v.stride(),
        *o.stride(),
        heads,
        heads // k.shape[1],
        matrices,
        n_queries,
        k.shape[2],
        dim,
        dim**-0.5,
        M=32,
        N=32,
        D=max(16, triton.next_power_of_2(dim)),
    )
    return o


def _both(q, k, v, bias):
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5 + bias.double()
    return attention(q, k, v, bias), torch.softmax(scores, -1) @ v.double()


def demonstrate():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 50, 64) for _ in range(3))
    return _both(q, k, v, torch.randn(2, 1, 50, 50))


def ordinary(dtype):
    q, k, v = (torch.randn(2, 4, 50, 64).to(dtype) for _ in range(3))
    for shape in ((1, 1), (1, 4), (2, 4)):
        yield f"{shape}", _both(q, k, v, torch.randn(*shape, 50, 50).to(dtype))
