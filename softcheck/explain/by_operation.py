"""Meanings of kinds of findings, and their fixes, where these differ from softmax's by the operation."""

from softcheck.contract import FindingKind as Kind

_BACKWARD = "compute the backward in float32 with the strides of g"

_LOGARITHM = (
    "compute (x - max) - log(sum(exp(x - max))) in float32 and in this order, with lanes beyond the row at -inf"
)

_BACKWARD_OPERANDS = "let a NaN or an infinity of an operand reach what is computed from it, and write every element"

MENDS: dict[Kind, dict[str, str]] = {
    Kind.ULP_EXCEEDS_BOUND: {
        "log_softmax": _LOGARITHM,
        "logsumexp": "compute max + log(sum(exp(x - max))) in float32, with lanes beyond the row at -inf",
        "cross_entropy": "compute (max - x[target]) + log(sum(exp(x - max))) in float32; look at defaults that the call leaves alone, such as a "
        "label smoothing",
        "softmax_backward": "compute y * (g - (y * g).sum(-1, keepdim=True)) in float32, with lanes beyond the row at 0",
        "log_softmax_backward": "compute g - exp(y) * g.sum(-1, keepdim=True) in float32, with lanes beyond the row at 0",
        "attention": "look at the scale, at masks and at defaults that the call leaves alone; keep scores and sums in float32, with keys beyond "
        "the last at -inf",
        "attention_logsumexp": "look at the scale and at masks; compute max + log(sum(exp(score - max))) in float32, with keys beyond the last at -inf",
    },
    Kind.SUM_VIOLATION: {"log_softmax": _LOGARITHM},
    Kind.NAN_MISMATCH: {
        "softmax_backward": _BACKWARD_OPERANDS,
        "log_softmax_backward": _BACKWARD_OPERANDS,
    },
    Kind.INF_MISMATCH: {
        "cross_entropy": "subtract the row's maximum first, and leave out terms whose weight is 0, as of a label smoothing where a logit is -inf",
        "softmax_backward": _BACKWARD_OPERANDS,
        "log_softmax_backward": _BACKWARD_OPERANDS,
    },
    Kind.OUT_OF_RANGE: {
        "attention": "divide by the sum of exactly the exponentials that are multiplied with values",
    },
    Kind.WRONG_GRADIENT: {
        "log_softmax": f"{_BACKWARD}; of log_softmax it is g - softmax(x) * g.sum(-1, keepdim=True)",
        "logsumexp": f"{_BACKWARD}; of logsumexp it is g[:, None] * softmax(x)",
        "cross_entropy": f"{_BACKWARD}; of cross_entropy it is g * (p - (1 - eps) * onehot - eps / V) with the probabilities p and a label smoothing "
        "eps, 0 in rows that are ignored, and of a mean over the rows divided by how many are counted",
        "softmax_backward": _BACKWARD,
        "log_softmax_backward": _BACKWARD,
        "attention": f"{_BACKWARD}; of attention it is dv = p^T g, ds = p * (g v^T - (g * o).sum(-1, keepdim=True)), dq = scale * ds k and "
        "dk = scale * ds^T q",
        "attention_logsumexp": f"{_BACKWARD}; of attention's logsumexp it is ds = g[:, None] * p, dq = scale * ds k and dk = scale * ds^T q",
    },
}
"""Fixes by kind and operation; softmax's, and those that hold for every operation, stand in ``kinds.py``."""

_NO_MAXIMUM = "an output is farther from the exact answer than float32 arithmetic can be"

MEANINGS: dict[Kind, dict[str, str]] = {
    Kind.ULP_EXCEEDS_BOUND: {"softmax_backward": _NO_MAXIMUM, "log_softmax_backward": _NO_MAXIMUM},
    Kind.SUM_VIOLATION: {
        "log_softmax": "the exponentials of a row's outputs miss a sum of 1 by more than rounding the outputs allows"
    },
}
"""Meanings by kind and operation, where softmax's speak of a maximum or of probabilities that are no part of the operation."""
