"""Right softmaxes with the signatures that people's functions have, each recognised without being told."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl


def with_dim(x, dim):
    return torch.softmax(x, dim)


def with_default_dim(x, dim=1):
    return torch.softmax(x, dim)


def with_axis_by_name(logits, *, axis):
    return torch.softmax(logits, axis)


def with_scale_and_mask(scores, scale, mask, is_causal):
    assert mask is None
    assert not is_causal
    return torch.softmax(scores * scale, -1)


def out_keyword(x, *, out):
    return torch.softmax(x, -1, out=out)


def out_last(x, out):
    out.copy_(torch.softmax(x, -1))


def out_first_and_sizes(output, input, n_rows, n_cols):  # noqa: A002 - people's own name
    assert input.shape == (n_rows, n_cols)
    output.copy_(torch.softmax(input, -1))


def unnamed_out_last(a, b):
    b.copy_(torch.softmax(a, -1))


def unnamed_out_first(a, b):
    a.copy_(torch.softmax(b, -1))


def unnamed_dimension(a, k):
    return torch.softmax(a, k)


def four_dimensions(x):
    _, _, _, columns = x.shape
    return torch.softmax(x.reshape(-1, columns), -1).view(x.shape)


def three_dimensions_and_dim(x, dim):
    batch, rows, columns = x.shape
    return torch.softmax(x, dim).reshape(batch, rows, columns)


def with_maxima(x):
    return torch.softmax(x, -1), x.amax(-1)


def maxima_first(x):
    return x.amax(-1), torch.softmax(x, -1)


def in_place(x):
    x.copy_(torch.softmax(x, -1))


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y


class FunctionOfDim(torch.autograd.Function):
    @staticmethod
    def forward(x, dim):
        return torch.softmax(x, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


class Module(torch.nn.Module):
    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask=None):
        return torch.softmax(x, self.dim)


module = torch.nn.Softmax(dim=-1)


class WithForward:
    def forward(self, x):
        return torch.softmax(x, -1)


class WithApply:
    @staticmethod
    def apply(x, dim):
        return torch.softmax(x, dim)


without_signature = torch.softmax
torchs_own = torch.nn.functional.softmax


@triton.jit
def kernel(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n_cols
    logits = tl.load(in_ptr + row * in_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(logits - tl.max(logits, axis=0))
    tl.store(out_ptr + row * out_stride + column, exponentials / tl.sum(exponentials, axis=0), mask=inside)


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=w) for w in (2, 4)], key=["n_cols"])
@triton.jit
def tuned_kernel(
    y_ptr, x_ptr, x_row_stride, y_row_stride, n_rows, n_cols, BLOCK: tl.constexpr, num_stages: tl.constexpr
):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=num_stages):
        column = tl.arange(0, BLOCK)
        inside = column < n_cols
        x = tl.load(x_ptr + row * x_row_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * y_row_stride + column, e / tl.sum(e, axis=0), mask=inside)


def with_four_strides(Y, X, stride_ym, stride_yn, stride_xm, stride_xn, M, N):
    assert (stride_xm, stride_xn, stride_ym, stride_yn, N) == (*X.stride(), *Y.stride(), X.shape[1])
    Y.copy_(torch.softmax(X, -1))


def row_alone(x):
    (_,) = x.shape
    return torch.softmax(x, 0)


def row_into_output(input, output, N):  # noqa: A002 - people's own name
    assert input.shape == output.shape == (N,)
    output.copy_(torch.softmax(input, 0))


def five_dimensions(x):
    _, _, _, _, _ = x.shape
    return torch.softmax(x, -1)


def over_rows(x):
    return torch.softmax(x, 0)


def log_probabilities_over_rows(x):
    return torch.log_softmax(x, 0)


def over_second_of_three(x):
    _, _, _ = x.shape
    return torch.softmax(x, 1)


def over_channels(x):
    _, _, _, _ = x.shape
    return torch.softmax(x, 1)


def softmax_(x):
    return x.copy_(torch.softmax(x, -1))


def pair(data):
    x, out = data
    return out.copy_(torch.softmax(x, -1))


def returns_dictionary(x):
    return {"lse": x.logsumexp(-1), "output": torch.softmax(x, -1)}


class Named(NamedTuple):
    lse: torch.Tensor
    probs: torch.Tensor


def returns_named(x):
    return Named(x.logsumexp(-1), torch.softmax(x, -1))


@dataclass
class Answer:
    probs: torch.Tensor


def returns_dataclass(x):
    return Answer(torch.softmax(x, -1))


def with_required_mask(x, mask):
    assert mask.dtype == torch.bool
    return torch.softmax(x.masked_fill(mask, -10000.0), -1)


def with_mask_of_zeros(x, mask):
    return torch.softmax(x, -1) * ~mask.bool()


def with_optional_mask(x, mask=None, scale=1.0):
    x = x * scale
    return torch.softmax(x if mask is None else x.masked_fill(mask, -float("inf")), -1)


class KeepsWhereTrue(torch.nn.Module):
    def forward(self, logits, mask=None):
        return torch.softmax(logits if mask is None else logits.masked_fill(~mask, -float("inf")), -1)


def with_optional_bias(x, mask=None):
    return torch.softmax(x if mask is None else x + mask, -1)


def with_optional_mask_overlooked(x, mask=None):
    return torch.softmax(x, -1)


def with_added_mask(x, attn_mask, scale):
    return torch.softmax(x * scale + attn_mask, -1)


def with_temperatures(logits, temperatures):
    return torch.softmax(logits / temperatures[:, None], -1).to(logits.dtype)


def with_any_arguments(*args, **kwargs):
    return torch.softmax(*args, **kwargs)


with_dim_bound = partial(torch.softmax, dim=-1)


@torch.library.custom_op("softcheck_signatures::softmax", mutates_args=())
def registered(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x, dim)


@torch.library.custom_op("softcheck_signatures::softmax_out", mutates_args={"out"})
def registered_out(out: torch.Tensor, x: torch.Tensor) -> None:
    out.copy_(torch.softmax(x, -1))


operator = torch.ops.aten._softmax


class OfWidth(torch.nn.Module):
    def __init__(self, hidden_size, mask=None):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x):
        return torch.softmax(x + self.bias.to(x.dtype), -1)


class Caller:
    def __init__(self, n_cols):
        self.columns = n_cols

    def __call__(self, x):
        assert x.shape[-1] == self.columns
        return torch.softmax(x, -1)


class Positional(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, log_outputs, causal):
        assert (mask, log_outputs, causal) == (None, False, False)
        return torch.softmax(x, -1)


apply = Positional.apply


def make(dim):
    def inner(x):
        return torch.softmax(x, dim)

    return inner


closure = make(-1)


@triton.jit
def kernel_with_a_table(out_ptr, in_ptr, table_ptr, n_cols):
    column = tl.program_id(0)
    tl.store(out_ptr + column, tl.load(in_ptr + column) * tl.load(table_ptr + column))


def nothing(x):
    return None


def of_another_table(x, table):
    return torch.softmax(x * table, -1)


def of_three_unknown(x, weights, table):
    return torch.softmax(x * weights + table, -1)


class NeedsSizes(torch.nn.Module):
    def __init__(self, heads, depth):
        super().__init__()


class Nothing:
    pass
