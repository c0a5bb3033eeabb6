"""Attention: softmax(scale q k^T) v for each query of a head, with causal masks, windows, shared keys, soft caps, biases and sinks.

One row of the matrix is one head (``operations.heads``), and its answer has a part for each query. The bound is derived in
docs/bounds.md, section 26. Errors are counted in the ULP of sum_j p_j |v_j|, since the sum over keys cancels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oracles.attention import Heads, attention, attention_ball
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, RowClass, classify
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.operations.attention_bounds import error_of_sums, errors, lost
from softcheck.operations.attention_parameters import arguments_of, attending_of, families_of
from softcheck.operations.block import Block, joined, reshaped
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.expression import half_ulp
from softcheck.operations.heads import Attending
from softcheck.operations.logsumexp import bounds_of
from softcheck.operations.operation import Limits, Operand, Operation, Parameter
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND, ElementRule, number
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

_AT_ONCE = 1 << 20
"""Scores of the heads that the oracle takes at once."""
WIDEST = 640
"""Keys of the longest head that is judged: an output has queries times keys scores behind it."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention with these parameters, as the functions of an operation."""

    attending: Attending

    def heads(self, values: Values, fmt: Format) -> Heads:
        """The heads of a matrix's rows. Raises UsageError for float64."""
        if fmt == FLOAT64:
            raise UsageError("attention is judged in formats of up to 32 bits; leave float64 out of the dtypes")
        return self.attending.heads(values, fmt)

    def logits(self, values: Values, fmt: Format) -> Values:
        """The scores of each query, [rows * queries, keys]: NaN or +inf where it sees a key with such a logit.

        A sink stands behind them: a query that sees it alone has the answer 0.
        """
        heads = self.heads(values, fmt)
        special = np.isnan(values) | np.isposinf(values)
        scores = np.where(heads.visible & special[:, None], values[:, None], heads.scores).reshape(-1, values.shape[1])
        sink = self.attending.sink
        return np.column_stack([scores, np.full(len(scores), sink)]) if np.isfinite(sink) else scores

    def answer(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """In float64, [rows, queries * dimension]."""
        return in_chunks(lambda rows: self.by(attention, rows, fmt, masked), values, self.attending)

    def prove(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """Enclosed by Arb, of the same shape."""
        return self.by(attention_ball, values, fmt, masked)

    def by(self, oracle: Callable[[Heads], Reference], values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """The oracle's answers, [rows, queries * dimension], but for special queries, whose answers are conventions."""
        found = oracle(self.heads(values, fmt))
        classes = classify(self.logits(values, fmt))
        convention = np.where((classes == RowClass.FULLY_MASKED) & (masked == "zero"), 0.0, np.nan)[:, None]
        return by_convention(found, classes != RowClass.ORDINARY, convention, len(values))

    def decimal(self, row: Values, column: int, fmt: Format, masked: FullyMasked) -> str:
        """One number of a row's answer, to 17 digits."""
        return f"{self.prove(row[None], fmt, masked).values[0, column]:.17g}"

    def scale(self, values: Values, _answers: Values, fmt: Format) -> Values:
        """The size of the terms that may cancel, sum p |v|, [rows * queries, dimension]."""
        return self.of_queries(self.heads(values, fmt).sizes_of_values)

    def of_queries(self, array: Values) -> Values:
        """[heads, queries, ...] as [heads * queries, ...]."""
        return array.reshape(-1, array.shape[2])

    def undefined(self, values: Values, fmt: Format) -> Flags:
        """Queries with a product that float32 can't hold, and those with an infinite or hidden logit that was not promised."""
        heads = self.heads(values, fmt)
        found = (heads.sizes * max(1.0, heads.scale)).max(axis=2, initial=0.0) > FLOAT32.max / 8
        infinite = np.isinf(values) if not self.attending.masked else np.zeros(values.shape, dtype=np.bool_)
        special = np.isnan(values) | np.isposinf(values)
        unseen = special[:, None] & ~heads.visible & ~np.isneginf(values)[:, None]
        found |= infinite.any(axis=1, keepdims=True)
        if not self.attending.ignores_nan:
            found |= unseen.any(axis=2)
        of_queries: Flags = found.ravel()
        return of_queries

    def bounds(self, values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        """The errors that an arithmetic allows, [rows * queries, dimension]."""
        heads = self.heads(values, exact.fmt)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            error = self.of_queries(errors(heads, model, exact.fmt))
        return bounds_of(error, answers, exact, model)

    def outside(self, block: Block) -> Values:
        """By how much outputs lie outside of the values of their query's keys, beyond what rounding allows; at most 0 inside."""
        heads = self.heads(block.values, block.fmt)
        least, most = (_extremes(heads, sign) for sign in (-1.0, 1.0))
        if np.isfinite(heads.sink):
            least, most = np.minimum(least, 0.0), np.maximum(most, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.maximum(np.abs(least), np.abs(most))
            allowed = error_of_sums(heads.k.shape[1], block.model, block.fmt) * size + lost(
                heads, block.model, block.fmt
            )
            allowed = allowed + half_ulp(size + allowed, block.fmt)
            by = np.maximum(
                least - allowed - _by_query(block.output, heads), _by_query(block.output, heads) - most - allowed
            )
        return self.of_queries(by)

    def limits(self, x: "torch.Tensor", fmt: Format, model: Model) -> Limits:
        """Exact values and limits where the heads' matrix lies, [rows * queries, dimension]."""
        from softcheck.operations.torch_attention import attention_limits

        return attention_limits(x, fmt, model, self.attending)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """By torch's attention where it knows all parameters, else by single operations."""
        from softcheck.operations import torch_backends

        return torch_backends.yardstick(self.attending, x)

    def plain(self, x: "torch.Tensor") -> "torch.Tensor":
        """By single operations in the dtype of the matrix."""
        from softcheck.operations import torch_backends

        return torch_backends.plain(self.attending, x)

    def ways(self) -> "Mapping[str, Callable[[Mapping[str, torch.Tensor]], torch.Tensor]]":
        """Torch's ways to compute it from the operands of a call, by name."""
        from softcheck.operations import torch_backends

        return torch_backends.ways(self.attending)

    def operand_gradients(
        self, values: Values, grads: Values, fmt: Format, model: Model
    ) -> Mapping[str, tuple[Values, Values]]:
        """Exact gradients by q, k, v, a bias and sinks, and the largest errors. Each query of the heads sees a key."""
        from softcheck.operations.attention_gradient import gradients

        heads = self.heads(values, fmt)
        return gradients(heads, _by_query(grads, heads), model, fmt, self.attending.groups)

    @property
    def is_differentiated(self) -> bool:
        """True if gradients are judged: not where NaN may stand behind a mask, of which a backward may make another one."""
        return not self.attending.ignores_nan

    def flops(self, heads: int, keys: int) -> float:
        """2 Lq Lk d for each product of a head; half of that with a causal mask, whatever its alignment, as flash-attention counts."""
        queries, value_dim = self.attending.parts(keys)
        return (
            2.0
            * heads
            * queries
            * keys
            * (self.attending.head_dim + value_dim)
            * (0.5 if self.attending.causal else 1.0)
        )


def in_chunks(answer: Callable[[Values], Reference], values: Values, attending: Attending) -> Reference:
    """The answers of rows, of some at once, since each has queries times keys scores."""
    step = max(1, _AT_ONCE // max(1, attending.parts(values.shape[1])[0] * values.shape[1]))
    return joined([answer(values[first : first + step]) for first in range(0, max(1, len(values)), step)])


def by_convention(found: Reference, special: Flags, convention: Values, rows: int) -> Reference:
    """The answers of queries, [queries, numbers], as those of rows, with conventions, [queries, 1], for special queries."""
    chosen = special[:, None]
    found = replace(
        found,
        high=np.where(chosen, convention, found.high),
        low=np.where(chosen, 0.0, found.low),
        relative_error=np.where(chosen, 0.0, found.relative_error),
    )
    return reshaped(found, (rows, found.high.size // max(1, rows)))


def _by_query(output: Values, heads: Heads) -> Values:
    return output.reshape(*heads.q.shape[:2], heads.v.shape[2])


def _extremes(heads: Heads, sign: float) -> Values:
    """The least (sign -1) or largest values of the keys that each query sees, [heads, queries, dimension]."""
    if heads.visible.all() and heads.visible.size:
        of_all = sign * (sign * heads.v).max(axis=1, keepdims=True)
        return np.broadcast_to(of_all, (*heads.q.shape[:2], heads.v.shape[2]))
    found = np.empty((*heads.q.shape[:2], heads.v.shape[2]))
    for head, query in np.ndindex(*found.shape[:2]):
        seen = sign * heads.v[head][heads.visible[head, query]]
        found[head, query] = sign * seen.max(axis=0, initial=-np.inf)
    return np.where(np.isfinite(found), found, 0.0)


def _rule(attention_: Attention) -> ElementRule:
    def broken(block: Block) -> Flags:
        found: Flags = (attention_.outside(block) > 0) & block.specials.bounded
        return found

    def describe(block: Block, row: int, column: int) -> str:
        by, output = float(attention_.outside(block)[row, column]), float(block.output[row, column])
        return f"output {number(output)} lies outside of all values that its query sees, by {by:.6g} more than rounding allows"

    return ElementRule(FindingKind.OUT_OF_RANGE, broken, attention_.outside, describe)


def _no_keys(block: Block, row: int, column: int) -> str:
    return f"output {number(float(block.output[row, column]))}, expected exactly 0: the query sees no key"


NOTHING_SEEN = ElementRule(
    FindingKind.MASKED_NOT_ZERO, lambda block: block.specials.masked_wrong, lambda block: np.abs(block.output), _no_keys
)
"""A query that sees no key gives 0 where that is declared."""


def _of(**parameters: Parameter) -> Operation:
    """Attention with these parameters. Raises UsageError for a value that is not judged."""
    attending, found = attending_of(parameters)
    attention_ = Attention(attending)
    q, k, v = (("rows", *dims) for dims in (("queries", "head_dim"), ("columns", "head_dim"), ("columns", "value_dim")))
    return Operation(
        name="attention",
        operands=(Operand("q", q), Operand("k", k), Operand("v", v)),
        outputs=(Operand("o", ("rows", "queries", "value_dim")),),
        families=families_of(attending),
        relations=("keys",),
        answer=attention_.answer,
        prove=attention_.prove,
        decimal=attention_.decimal,
        bounds=attention_.bounds,
        rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, NOTHING_SEEN, _rule(attention_)),
        yardstick=attention_.yardstick,
        plain=attention_.plain,
        parameters=found,
        with_parameters=_of,
        parts=attending.parts,
        logits=attention_.logits,
        most_columns=WIDEST,
        ways=attention_.ways,
        flops=attention_.flops,
        operand_gradients=attention_.operand_gradients if attention_.is_differentiated else None,
        timed_shape=(64, 4096),
        arguments=arguments_of(attending),
        undefined=attention_.undefined,
        scale=attention_.scale,
        scale_text="of sum p |v|",
        limits=attention_.limits,
    )


ATTENTION = _of()
