"""Explanations of the columns of the verdict table."""

from softcheck.explain.explanation import Explanation

COLUMNS: dict[str, Explanation] = {
    "max ULP": Explanation(
        meaning="the largest error |y - r| / ulp(r), where r is the exact softmax of the input's bits and ulp(r) the spacing of the "
        "format at r. With a star, ulp is that of the size which the line below the table names, since a result that cancels may "
        "be as small as you like. A correctly rounded result shows at most 0.5. A sign ≥ means the largest of those run, = the largest "
        "there is"
    ),
    "mean ULP": Explanation(meaning="the mean error of all elements in ULPs; wide cases weigh most"),
    "p99.9 ULP": Explanation(meaning="the error in ULPs that 99.9 % of the elements do not exceed"),
    "error/bound": Explanation(
        meaning="the largest error over the most that the variant's arithmetic can be off on that element, which is proven "
        "(docs/bounds.md); above 1 it is a finding"
    ),
    "flushed": Explanation(
        meaning="the number of outputs that are 0 where the correctly rounded result is a subnormal number",
        cause="an exponential or a division that flushes subnormal numbers (ftz)",
        declare="@variant(arithmetic=Arithmetic(flush_to_zero=True))",
    ),
    "max |Σ\N{MINUS SIGN}1|": Explanation(
        meaning="the largest deviation of a row's sum from 1, summed exactly. It is judged by what rounding allows, and by no "
        "tolerance"
    ),
    "sum viol.": Explanation(meaning="the number of rows whose sum misses 1 by more than rounding allows"),
    "special mism.": Explanation(
        meaning="the number of rows of the cases that hold a NaN, +inf or -inf alone and are not what is due for these; NaN in another row is counted by nan_mismatch alone"
    ),
    "sampled": Explanation(
        meaning="the number of elements of fresh random rows that the probe volume judged; the rows repeat until the code or "
        "--seed changes"
    ),
    "regimes": Explanation(
        meaning="the number of paths that calls take, by kernels, compile-time constants and executed lines; softcheck regimes "
        "VARIANT names their shapes"
    ),
    "coverage": Explanation(
        meaning="the share of the lines of the variant's own code that calls ran, in any dtype (before Python 3.12 the probe regimes' alone "
        "count); on a GPU a kernel's lines count where it is launched; a note names the others, and conditions that came out one way"
    ),
    "peers": Explanation(
        meaning="what usual rules say of the outputs of cases, with --peers, each against the exact answer rounded. 2x is the rule of "
        "flash-attention's tests: the largest error is at most twice that of the same formula by single operations in the dtype (three times with "
        "a soft cap), and what adding 0.3 and taking it away rounds, twice; for 16 bits. For operations other than attention torch's own is "
        "compared with. assert_close is torch.testing's, with the tolerances of the dtype. Elements whose answer is no finite number are left out"
    ),
    "Tflop/s": Explanation(
        meaning="floating-point operations of attention's two products per second, 4 Lq Lk d for each head and half of that with a causal mask, as "
        "flash-attention counts them; timed on a GPU with a cold cache and fresh inputs"
    ),
    "GB/s": Explanation(
        meaning="bytes of all operands and of the output per second, timed on a GPU with a cold cache and fresh inputs"
    ),
    "vs torch": Explanation(meaning="the time of torch.softmax over the variant's; above 1 the variant is quicker"),
    "findings": Explanation(meaning="broken promises by kind, each with the number of cases and trials that show it"),
}
"""Every column."""
