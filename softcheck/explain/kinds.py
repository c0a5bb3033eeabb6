"""Explanations of the kinds of findings."""

from softcheck.contract import FindingKind as Kind
from softcheck.explain.explanation import Explanation

_DEFECT = '@variant(known_defects=[KnownDefect(kinds=["{}"], reason="...")]), which gives the verdict known'


def _known(kind: Kind) -> str:
    return _DEFECT.format(kind)


KINDS: dict[Kind, Explanation] = {
    Kind.ULP_EXCEEDS_BOUND: Explanation(
        meaning="an output is farther from the exact answer than float32 arithmetic with a subtracted maximum can be",
        example="""
def softmax(x):
    return torch.softmax(x.bfloat16(), -1).to(x.dtype)  # each logit is rounded to 8 bits
""",
        shown_by="--family normal",
        cause="lanes beyond the row that take part, or a step in the input's own 16 bits",
        mend="load with other=-inf, convert to float32 before the maximum is subtracted, and look at defaults that the call leaves alone, such as a temperature",
        declare="a weaker arithmetic, as in @variant(arithmetic=Arithmetic(intermediate='input')); a note says which one fits",
    ),
    Kind.SUM_VIOLATION: Explanation(
        meaning="the outputs of a row miss a sum of 1 by more than rounding them allows",
        example="""
def softmax(x):
    padded = torch.nn.functional.pad(x, (0, 1))  # exp(0 - max) enters the sum
    return torch.softmax(padded, -1)[:, :-1]
""",
        shown_by="--family ties",
        cause="terms that are counted twice, left out, or come from lanes beyond the row",
        mend='load with other=-float("inf") and sum what is stored',
        declare=_known(Kind.SUM_VIOLATION),
    ),
    Kind.NAN_MISMATCH: Explanation(
        meaning="an output is NaN where a number is due, or a number where NaN is",
        example="""
def softmax(x):
    return torch.softmax(x, -1).nan_to_num()  # a row of -inf alone gives 0
""",
        shown_by="--family padding",
        cause="a row of -inf, an overflowing exponential, or a NaN that a maximum leaves out",
        mend="subtract the maximum, and nothing while it is -inf; let a NaN reach its whole row, and a row that is fully masked give what is declared; write every element",
        declare='for fully masked rows @variant(fully_masked="zero")',
    ),
    Kind.INF_MISMATCH: Explanation(
        meaning="an output is infinite where a number is due, or a number where an infinity is",
        example="""
def softmax(x):
    e = x.exp()  # exp(12) overflows float16
    return e / e.sum(-1, keepdim=True).clamp(max=60000)
""",
        shown_by="--family positive",
        cause="the exponential is taken without the row's maximum",
        mend="subtract the row's maximum first",
        declare=_known(Kind.INF_MISMATCH),
    ),
    Kind.OUT_OF_RANGE: Explanation(
        meaning="an output is outside its range: below 0 or above 1, above 0 for a logarithm, or beyond all values that attention mixes",
        example="""
def softmax(x):
    e = (x.float() - x.amax(-1, keepdim=True)).exp()
    return (e / e[:, 1:].sum(-1, keepdim=True)).to(x.dtype)  # the first term is left out
""",
        shown_by="--family one-hot",
        cause="a sum without some of its terms, or an approximation of the exponential that goes below 0",
        mend="sum every term that is stored",
        declare=_known(Kind.OUT_OF_RANGE),
    ),
    Kind.MASKED_NOT_ZERO: Explanation(
        meaning="a logit of -inf has a probability that is not exactly 0",
        example="""
def softmax(x):
    return torch.softmax(x.clamp(min=-10.0), -1)  # -inf becomes a number
""",
        shown_by="--family padding",
        cause="a clamp, or a finite number in place of -inf",
        mend="keep -inf until the exponential, which gives 0",
        declare=_known(Kind.MASKED_NOT_ZERO),
    ),
    Kind.ORDER_VIOLATION: Explanation(
        meaning="a larger logit has a smaller probability, by more than the errors allow",
        example="""
def softmax(x):
    d = (x - x.amax(-1, keepdim=True)).float()
    e = 1 + d + d * d / 2  # grows again below -1
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)
""",
        shown_by="--family ramp",
        cause="an approximation of the exponential beyond its range, or columns that are mixed up",
        mend="reduce the argument before the polynomial",
        declare=_known(Kind.ORDER_VIOLATION),
    ),
    Kind.UNWRITTEN_OUTPUT: Explanation(
        meaning="elements of the output were never written and hold what the memory held before",
        example="""
def softmax(x):
    y = torch.empty_like(x)
    whole = x.shape[1] // 4 * 4
    y[:, :whole] = torch.softmax(x, -1)[:, :whole]  # the last columns % 4
    return y
""",
        shown_by="--family widths",
        cause="a loop or a grid that ends too early, or stores at another place",
        mend="round the number of blocks up, and mask the last one",
        declare="@variant(max_columns=...) where it is a largest width",
    ),
    Kind.OUT_OF_BOUNDS_WRITE: Explanation(
        meaning="memory beside the output or the input was written to",
        example="""
@triton.jit
def kernel(y, x, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + row * stride + column, mask=column < n, other=-float("inf")).to(tl.float32))
    tl.store(y + row * n + column, e / tl.sum(e, axis=0))  # without mask=column < n


def softmax(x):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](y, x, x.stride(0), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
""",
        shown_by="--probe guard_bands",
        cause="a store without a mask, or 32-bit offsets that wrap",
        mend="mask every store; compute offsets in 64 bits",
        declare="@variant(max_elements=2**31) where only offsets of 32 bits wrap",
    ),
    Kind.OUT_OF_BOUNDS_READ: Explanation(
        meaning="memory beside the input is read: it changes the output, or there is none and the read faults",
        example="""
@triton.jit
def kernel(y, x, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x + row * stride + column).to(tl.float32))  # without mask=column < n
    tl.store(y + row * n + column, e / tl.sum(e, axis=0), mask=column < n)


def softmax(x):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](y, x, x.stride(0), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
""",
        shown_by="--probe guard_bands",
        cause="a load without a mask, or 32-bit offsets that wrap",
        mend="mask every load; convert row and column numbers with .to(tl.int64)",
        declare="@variant(max_elements=2**31) where only offsets of 32 bits wrap",
    ),
    Kind.INPUT_MODIFIED: Explanation(
        meaning="the call changed its input",
        example="""
def softmax(x):
    x -= x.amax(-1, keepdim=True)  # in place
    return torch.softmax(x, -1)
""",
        shown_by="--probe input_untouched",
        cause="an operation in place, or a kernel that is launched on the wrong pointer",
        mend="write to memory of the function's own; a function that only computes in place returns None",
        declare=_known(Kind.INPUT_MODIFIED),
    ),
    Kind.OUTPUT_REUSED: Explanation(
        meaning="the returned memory is the input's, or is written to by a later call",
        example="""
KEPT = {}


def softmax(x):
    y = KEPT.setdefault((x.shape, x.dtype), torch.empty_like(x))
    return y.copy_(torch.softmax(x, -1))  # the next call writes here too
""",
        shown_by="--probe input_untouched",
        cause="a buffer that is kept between calls",
        mend="return memory of the call's own",
        declare=_known(Kind.OUTPUT_REUSED),
    ),
    Kind.WRONG_SHAPE: Explanation(
        meaning="the output has another shape than the input",
        example="""
def softmax(x):
    return torch.softmax(x, -1).squeeze()  # drops a dimension of one row
""",
        shown_by="--case padding/all-of-1/float16",
        cause="rows and columns are swapped, or a dimension is dropped",
        mend="return y.view(x.shape), or say by --call which part of the value is the answer",
    ),
    Kind.WRONG_DTYPE: Explanation(
        meaning="the output has another dtype than the input",
        example="""
def softmax(x):
    if x.shape[1] <= 64:
        return torch.softmax(x, -1)
    y = torch.empty(x.shape, device=x.device)  # float32
    return y.copy_(torch.softmax(x, -1))
""",
        shown_by="--family widths",
        cause="the output is made without dtype=x.dtype",
        mend="make it with dtype=x.dtype",
    ),
    Kind.WRONG_LAYOUT: Explanation(
        meaning="a strided, offset or transposed input is answered wrongly, and its contiguous copy rightly",
        example="""
def softmax(x):
    packed = x.as_strided(x.shape, (x.shape[1], 1))  # whatever x.stride() is
    return torch.softmax(packed, -1)
""",
        shown_by="--probe layouts",
        cause="the kernel takes the row stride for the number of columns, or the column stride for 1, of the input or of a mask; "
        "or it takes the stride of targets for 1. Masks and targets have strides of their own where the input is not packed",
        mend="pass x.stride(0) and x.stride(1), and the strides of masks and targets, or begin with x = x.contiguous()",
        declare='@variant(layouts=["contiguous"])',
    ),
    Kind.WRONG_GRADIENT: Explanation(
        meaning="the gradient that autograd computes errs by more than its proven bound, or is promised and not there",
        example="""
class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g  # without the row's sum of y * g


softmax = Softmax.apply
""",
        shown_by="--probe gradients",
        cause="a backward pass that drops the sum over the row, or takes the incoming gradient for packed",
        mend="compute the backward in float32 with the strides of g; of softmax it is y * (g - (y * g).sum(-1, keepdim=True))",
        declare="@variant(backward=False), or --no-backward, which leaves gradients alone",
    ),
    Kind.NONDETERMINISTIC: Explanation(
        meaning="the same call gave other bits",
        example="""
CALLS = [0]


def softmax(x):
    CALLS[0] += 1
    return torch.softmax(x, -1) * (1 - CALLS[0] % 2 * 2**-9)  # as a race that every second call loses
""",
        shown_by="--probe determinism",
        cause="atomic sums in any order, a stale cache, or a race",
        mend="sum in a fixed order; wait for the caller's stream; look at what is kept from call to call",
        declare=_known(Kind.NONDETERMINISTIC),
    ),
    Kind.ROW_DEPENDENCE: Explanation(
        meaning="a row's answer depends on what other rows hold, or a query's on keys that it does not see",
        example="""
def softmax(x):
    e = (x - x.max()).float().exp()  # the maximum of the whole matrix
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)
""",
        shown_by="--probe neighbours",
        cause="a maximum or a sum over more than one row, or a tile whose rows are mixed",
        mend="reduce over the columns alone",
        declare=_known(Kind.ROW_DEPENDENCE),
    ),
    Kind.CRASH: Explanation(
        meaning="the call ended its process or left the device unusable",
        example="""
import ctypes


def softmax(x):
    return ctypes.string_at(0)
""",
        shown_by="--family ties",
        cause="an illegal address, an abort, or memory corrupted by an earlier call",
        mend="run the command that reproduces it under compute-sanitizer, or with --check-heap",
    ),
    Kind.TIMEOUT: Explanation(
        meaning="the call did not return in time",
        example="""
def softmax(x):
    while x.shape[1] > 100:  # as a lock that no program releases
        pass
    return torch.softmax(x, -1)
""",
        shown_by="--case normal/scale-3-129/float16 --time-limit 2",
        cause="a deadlock between programs, or far too many of them",
        mend="run the command that reproduces it; --time-limit allows more seconds",
    ),
    Kind.COMPILE_ERROR: Explanation(
        meaning="a kernel did not compile for this input",
        example="""
@triton.jit
def kernel(y, x, N: tl.constexpr):
    column = tl.program_id(0) * N + tl.arange(0, N)  # where N is no power of two
    e = tl.exp(tl.load(x + column).to(tl.float32))
    tl.store(y + column, e / tl.sum(e, axis=0))


def softmax(x):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](y, x, x.shape[1])
    return y
""",
        shown_by="--family widths --device cuda",
        cause="a shape or a dtype that the kernel is not written for",
        mend="take triton.next_power_of_2(n), with a mask",
        declare="@variant(dtypes=[...], max_columns=...)",
    ),
    Kind.OUT_OF_MEMORY: Explanation(
        meaning="the call asked for more than half of a GPU's memory at once, or for more than the host has",
        example="""
def softmax(x):
    table = torch.empty(2**48, device=x.device)
    return torch.softmax(x + table[: x.shape[1]], -1)
""",
        shown_by="--family ties",
        cause="a workspace that grows with the square of a size",
        mend="loop over the row in tiles",
        declare="@variant(max_columns=...)",
    ),
    Kind.RAISED: Explanation(
        meaning="the call raised an exception, or returned something that is no tensor",
        example="""
def softmax(x):
    return torch.softmax(x.view(-1).view(x.shape), -1)  # a transposed matrix has no such view
""",
        shown_by="--probe layouts",
        cause="an input that the function does not expect",
        mend="read the exception at the place that the finding names",
        declare="@variant(max_columns=..., layouts=[...], empty=False), whichever says what it expects",
    ),
    Kind.STATE_CHANGED: Explanation(
        meaning="the call left something changed on which other code in the process relies",
        example="""
def softmax(x):
    torch.manual_seed(0)
    return torch.softmax(x, -1)
""",
        shown_by="--family ties",
        cause="a seed, a default, a flag or a thread that a script needs and a function must not touch",
        mend="leave it to the caller, or put it back",
        declare=_known(Kind.STATE_CHANGED),
    ),
    Kind.SIZE_REFUSED: Explanation(
        meaning="sizes are refused that are promised (--require-all-sizes, or a declared max_columns)",
        example="""
def softmax(x):
    if x.shape[1] > 100:
        raise ValueError("too wide")
    return torch.softmax(x, -1)
""",
        shown_by="--family widths --require-all-sizes",
        cause="a limit that the declaration does not name",
        mend="loop over wider rows",
        declare="@variant(max_columns=1024)",
    ),
    Kind.EMPTY_REFUSED: Explanation(
        meaning="an input without rows or columns is refused, and every size is promised",
        example="""
def softmax(x):
    peak = x.max()  # of nothing
    return torch.softmax(x - peak.clamp(max=0), -1)
""",
        shown_by="--family empty --family ties --require-all-sizes",
        cause="a grid or a block of size 0",
        mend="return the empty output before anything is launched",
        declare="@variant(empty=False)",
    ),
    Kind.ARITHMETIC_CONTRADICTED: Explanation(
        meaning="the compiled kernel computes otherwise than it declares",
        example="""
@triton.jit
def kernel(y, x, stride, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x + row * stride + column, mask=column < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y + row * n + column, e / tl.sum(e, axis=0), mask=column < n)  # the PTX holds div.full.f32


@softcheck.variant(arithmetic=softcheck.Arithmetic(division="div_rn"))
def softmax(x):
    x, y = x.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(x.shape[0],)](y, x, x.stride(0), x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
""",
        shown_by="--probe arithmetic",
        cause="a compiler's default, such as ftz or an approximate division",
        mend="declare what the kernel does, or ask for the operation by name",
        declare="the arithmetic that the finding names",
    ),
}
"""Every kind of finding."""
