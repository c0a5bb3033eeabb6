"""Explanations of the kinds of findings."""

from softcheck.contract import FindingKind as Kind
from softcheck.explain.explanation import Explanation

_DEFECT = '@variant(known_defects=[KnownDefect(kinds=["{}"], reason="...")]), which gives the verdict known'


def _known(kind: Kind) -> str:
    return _DEFECT.format(kind)


KINDS: dict[Kind, Explanation] = {
    Kind.ULP_EXCEEDS_BOUND: Explanation(
        meaning="an output is farther from the exact answer than float32 arithmetic with a subtracted maximum can be",
        example="e = tl.exp(x)  # in float16: each term is rounded to 11 bits\ntl.store(out, e / tl.sum(e, axis=0))",
        cause="lanes beyond the row that take part, or a step in the input's own 16 bits",
        mend="load with other=-inf, and convert to float32 before the maximum is subtracted",
        declare="a weaker arithmetic, as in @variant(arithmetic=Arithmetic(intermediate='input')); a note says which one fits",
    ),
    Kind.SUM_VIOLATION: Explanation(
        meaning="the outputs of a row miss a sum of 1 by more than rounding them allows",
        example="x = tl.load(p, mask=column < n, other=0.0)  # exp(0 - max) enters the sum\ne = tl.exp(x - tl.max(x, axis=0))",
        cause="terms that are counted twice, left out, or come from lanes beyond the row",
        mend='load with other=-float("inf") and sum what is stored',
        declare=_known(Kind.SUM_VIOLATION),
    ),
    Kind.NAN_MISMATCH: Explanation(
        meaning="an output is NaN where a number is due, or a number where NaN is",
        example="m = tl.max(x, axis=0)\ne = tl.exp(x - m)  # -inf - -inf is NaN in a row of -inf alone",
        cause="a row of -inf, an overflowing exponential, or a NaN that a maximum leaves out",
        mend="subtract the maximum; decide what a fully masked row gives, and let a NaN reach its whole row",
        declare='for fully masked rows @variant(fully_masked="zero")',
    ),
    Kind.INF_MISMATCH: Explanation(
        meaning="an output is infinite; a probability never is",
        example="tl.store(out, tl.exp(x) / tl.sum(tl.exp(x), axis=0))  # exp(100) overflows",
        cause="the exponential is taken without the row's maximum",
        mend="subtract the row's maximum first",
        declare=_known(Kind.INF_MISMATCH),
    ),
    Kind.OUT_OF_RANGE: Explanation(
        meaning="an output is below 0 or above 1",
        example="tl.store(out, e * (1.0 / s))  # with s a sum of fewer terms",
        cause="a sum without some of its terms, or an approximation of the exponential that goes below 0",
        mend="sum every term that is stored",
        declare=_known(Kind.OUT_OF_RANGE),
    ),
    Kind.MASKED_NOT_ZERO: Explanation(
        meaning="a logit of -inf has a probability that is not exactly 0",
        example="x = tl.maximum(x, -1e4)  # -inf becomes a number",
        cause="a clamp, or a finite number in place of -inf",
        mend="keep -inf until the exponential, which gives 0",
        declare=_known(Kind.MASKED_NOT_ZERO),
    ),
    Kind.ORDER_VIOLATION: Explanation(
        meaning="a larger logit has a smaller probability, by more than the errors allow",
        example="e = 1 + x + x * x / 2  # no longer monotonic below -1",
        cause="an approximation of the exponential beyond its range, or columns that are mixed up",
        mend="reduce the argument before the polynomial",
        declare=_known(Kind.ORDER_VIOLATION),
    ),
    Kind.UNWRITTEN_OUTPUT: Explanation(
        meaning="elements of the output were never written and hold what the memory held before",
        example="for i in range(n // 128):  # the last n % 128 columns\n    tl.store(out + i * 128 + lane, y)",
        cause="a loop or a grid that ends too early, or stores at another place",
        mend="round the number of blocks up, and mask the last one",
        declare="@variant(max_columns=...) where it is a largest width",
    ),
    Kind.OUT_OF_BOUNDS_WRITE: Explanation(
        meaning="memory beside the output or the input was written to",
        example="tl.store(out + column, y)  # without mask=column < n",
        cause="a store without a mask, or 32-bit offsets that wrap",
        mend="mask every store; compute offsets in 64 bits",
        declare="@variant(max_elements=2**31) where only offsets of 32 bits wrap",
    ),
    Kind.OUT_OF_BOUNDS_READ: Explanation(
        meaning="what lies beside the input changes the output",
        example="x = tl.load(p + row * stride + column)  # row * stride wraps beyond 2^31",
        cause="a load without a mask, or 32-bit offsets that wrap",
        mend="mask every load; convert row and column numbers with .to(tl.int64)",
        declare="@variant(max_elements=2**31) where only offsets of 32 bits wrap",
    ),
    Kind.INPUT_MODIFIED: Explanation(
        meaning="the call changed its input",
        example="x -= x.max(-1, keepdim=True).values  # in place",
        cause="an operation in place, or a kernel that is launched on the wrong pointer",
        mend="write to memory of the function's own; a function that only computes in place returns None",
        declare=_known(Kind.INPUT_MODIFIED),
    ),
    Kind.OUTPUT_REUSED: Explanation(
        meaning="the returned memory is the input's, or is written to by a later call",
        example="def softmax(x):\n    kernel[grid](BUFFER, x)\n    return BUFFER",
        cause="a buffer that is kept between calls",
        mend="return memory of the call's own",
        declare=_known(Kind.OUTPUT_REUSED),
    ),
    Kind.WRONG_SHAPE: Explanation(
        meaning="the output has another shape than the input",
        example="return y.T",
        cause="rows and columns are swapped, or a dimension is dropped",
        mend="return y.view(x.shape), or say by --call which part of the value is the answer",
    ),
    Kind.WRONG_DTYPE: Explanation(
        meaning="the output has another dtype than the input",
        example="y = torch.empty(x.shape, device=x.device)  # float32",
        cause="the output is made without dtype=x.dtype",
        mend="make it with dtype=x.dtype",
    ),
    Kind.WRONG_LAYOUT: Explanation(
        meaning="a strided, offset or transposed input is answered wrongly, and its contiguous copy rightly",
        example="x = tl.load(p + row * n + column)  # for x.stride(0) != n",
        cause="the kernel takes the row stride for the number of columns, or the column stride for 1",
        mend="pass x.stride(0) and x.stride(1), or begin with x = x.contiguous()",
        declare='@variant(layouts=["contiguous"])',
    ),
    Kind.WRONG_GRADIENT: Explanation(
        meaning="the gradient that autograd computes errs by more than its proven bound, or is promised and not there",
        example="def backward(ctx, g):\n    (y,) = ctx.saved_tensors\n    return y * g  # without the row's sum of y * g",
        cause="a backward pass that drops the sum over the row, or takes the incoming gradient for packed",
        mend="compute y * (g - (y * g).sum(-1, keepdim=True)) in float32, with the strides of g",
        declare="@variant(backward=False), or --no-backward, which leaves gradients alone",
    ),
    Kind.NONDETERMINISTIC: Explanation(
        meaning="the same call gave other bits",
        example="tl.atomic_add(total, tl.sum(e, axis=0))",
        cause="atomic sums in any order, a stale cache, or a race",
        mend="sum in a fixed order; wait for the stream that the caller uses",
        declare=_known(Kind.NONDETERMINISTIC),
    ),
    Kind.ROW_DEPENDENCE: Explanation(
        meaning="a row's answer depends on what other rows hold",
        example="m = x.max()  # of the whole matrix",
        cause="a maximum or a sum over more than one row, or a tile whose rows are mixed",
        mend="reduce over the columns alone",
        declare=_known(Kind.ROW_DEPENDENCE),
    ),
    Kind.CRASH: Explanation(
        meaning="the call ended its process or left the device unusable",
        example="tl.load(p + 2**40)",
        cause="an illegal address, an abort, or memory corrupted by an earlier call",
        mend="run the command that reproduces it under compute-sanitizer, or with --check-heap",
    ),
    Kind.TIMEOUT: Explanation(
        meaning="the call did not return in time",
        example="while tl.atomic_cas(lock, 0, 1) == 1:  # never released\n    pass",
        cause="a deadlock between programs, or far too many of them",
        mend="run the command that reproduces it; --time-limit allows more seconds",
    ),
    Kind.COMPILE_ERROR: Explanation(
        meaning="a kernel did not compile for this input",
        example="column = tl.arange(0, n)  # n is no power of two",
        cause="a shape or a dtype that the kernel is not written for",
        mend="take triton.next_power_of_2(n), with a mask",
        declare="@variant(dtypes=[...], max_columns=...)",
    ),
    Kind.OUT_OF_MEMORY: Explanation(
        meaning="the call ran out of memory, registers or shared memory",
        example="x = tl.load(p + tl.arange(0, 2**20))",
        cause="a block as wide as the row",
        mend="loop over the row in tiles",
        declare="@variant(max_columns=...)",
    ),
    Kind.RAISED: Explanation(
        meaning="the call raised an exception, or returned something that is no tensor",
        example="assert x.shape[1] % 8 == 0",
        cause="an input that the function does not expect",
        mend="read the exception at the place that the finding names",
        declare="@variant(max_columns=..., layouts=[...], empty=False), whichever says what it expects",
    ),
    Kind.STATE_CHANGED: Explanation(
        meaning="the call left something changed on which other code in the process relies",
        example="torch.manual_seed(0)",
        cause="a seed, a default, a flag or a thread that a script needs and a function must not touch",
        mend="leave it to the caller, or put it back",
        declare=_known(Kind.STATE_CHANGED),
    ),
    Kind.SIZE_REFUSED: Explanation(
        meaning="sizes are refused that are promised (--require-all-sizes, or a declared max_columns)",
        example='if x.shape[1] > 1024:\n    raise ValueError("too wide")',
        cause="a limit that the declaration does not name",
        mend="loop over wider rows",
        declare="@variant(max_columns=1024)",
    ),
    Kind.EMPTY_REFUSED: Explanation(
        meaning="an input without rows or columns is refused, and every size is promised",
        example="kernel[(0,)](out, x)  # no program: an error in some versions",
        cause="a grid or a block of size 0",
        mend="return the empty output before anything is launched",
        declare="@variant(empty=False)",
    ),
    Kind.ARITHMETIC_CONTRADICTED: Explanation(
        meaning="the compiled kernel computes otherwise than it declares",
        example='@variant(arithmetic=Arithmetic(division="rn"))  # the PTX holds div.full.f32',
        cause="a compiler's default, such as ftz or an approximate division",
        mend="declare what the kernel does, or ask for the operation by name",
        declare="the arithmetic that the finding names",
    ),
}
"""Every kind of finding."""
