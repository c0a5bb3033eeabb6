"""Right softmaxes with the signatures that people's functions have, each recognised without being told."""

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
