"""The log-sum-exp of each query's scores, which attention kernels return beside their answer, in base e or 2.

The bound is derived in docs/bounds.md, section 27. Errors are counted in ulp(max(|m| + L, 1)), m the largest score.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oracles.attention import Heads, logsumexp, logsumexp_ball
from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference, RowClass, classify
from softcheck.errors import UsageError, near_matches
from softcheck.operations.attention import NOTHING_SEEN, WIDEST, Attention, by_convention, in_chunks
from softcheck.operations.attention_bounds import errors_of_logarithm, subtracted
from softcheck.operations.attention_parameters import arguments_of, attending_of, families_of
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.logsumexp import bounds_of
from softcheck.operations.operation import Limits, Operand, Operation, Parameter
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_UNIT = 2.0**-53

NO_KEYS = {"-inf": -math.inf, "inf": math.inf, "zero": 0.0}
"""What the log-sum-exp of a query that sees no key may be declared to be."""


@dataclass(frozen=True, slots=True)
class _OfQueries:
    of: Attention
    base: float
    no_keys: float
    """The answer for a query that sees no key, and no sink."""

    @property
    def factor(self) -> float:
        """The number by which a logarithm of base e is multiplied."""
        return 1.0 / math.log(self.base) if self.base != math.e else 1.0

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return in_chunks(lambda rows: self.by(logsumexp, rows, fmt), values, self.of.attending)

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.by(logsumexp_ball, values, fmt)

    def by(self, oracle: Callable[[Heads], Reference], values: Values, fmt: Format) -> Reference:
        found = oracle(self.of.heads(values, fmt))
        if self.factor != 1.0:
            # The constant and the product round; what is left of the second part is less than that.
            high, exact = (found.high + found.low) * self.factor, found.relative_error == 0
            off = np.where(exact & (high == 0), 0.0, found.relative_error + 4 * _UNIT)
            found = replace(found, high=high, low=np.zeros_like(high), relative_error=off)
        logits = self.logits(values, fmt)
        largest = logits.max(axis=1, initial=-np.inf)
        convention = np.where(np.isneginf(largest), self.no_keys, np.where(np.isinf(largest), largest, np.nan))
        return by_convention(found, classify(logits) != RowClass.ORDINARY, convention[:, None], len(values))

    def logits(self, values: Values, fmt: Format) -> Values:
        """The scores of each query, with the sink, if there is one, behind them: the answer for it alone is the sink."""
        return self.of.logits(values, fmt)

    def decimal(self, row: Values, column: int, fmt: Format, masked: FullyMasked) -> str:
        return f"{self.prove(row[None], fmt, masked).values[0, column]:.17g}"

    def scale(self, values: Values, answers: Values, fmt: Format) -> Values:
        top = self.of.of_queries(subtracted(self.of.heads(values, fmt))) * self.factor
        size: Values = np.maximum(np.abs(top) + np.abs(answers - top), 1.0)
        return size

    def bounds(self, values: Values, exact: Scaled, answers: Values, model: Model) -> Bounds:
        heads = self.of.heads(values, exact.fmt)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            error = self.of.of_queries(errors_of_logarithm(heads, model)) * self.factor
        return bounds_of(error, answers, exact, model)

    def limits(self, x: "torch.Tensor", fmt: Format, model: Model) -> Limits:
        from softcheck.operations.torch_attention import attention_logsumexp_limits

        return attention_logsumexp_limits(x, fmt, model, self.of.attending, self.factor, no_keys=self.no_keys)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """By single operations in float32."""
        from softcheck.operations import torch_backends

        return torch_backends.logsumexp(self.of.attending, x) * self.factor


def _of(**parameters: Parameter) -> Operation:
    """The log-sum-exp of attention with these parameters. Raises UsageError for a value that is not judged."""
    base = float(parameters.pop("base", math.e))
    if base not in (2, math.e):
        raise UsageError(f"base is {base:g}; expected 2, or none for the base e")
    no_keys = str(parameters.pop("no_keys", "-inf"))
    if no_keys not in NO_KEYS:
        raise UsageError(f"no_keys is {no_keys!r}; {near_matches(no_keys, list(NO_KEYS))}")
    attending, found = attending_of(parameters)
    if no_keys != "-inf" and math.isfinite(attending.sink):
        raise UsageError("no_keys stands beside a sink, which every query sees; leave one of them out")
    of_queries = _OfQueries(Attention(attending), base, NO_KEYS[no_keys])
    of_head = ("rows", "queries", "head_dim")
    return Operation(
        name="attention_logsumexp",
        operands=(Operand("q", of_head), Operand("k", ("rows", "columns", "head_dim"))),
        outputs=(Operand("lse", ("rows", "queries")),),
        families=families_of(attending),
        relations=("keys",),
        answer=of_queries.answer,
        prove=of_queries.prove,
        decimal=of_queries.decimal,
        bounds=of_queries.bounds,
        rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE, *([NOTHING_SEEN] if no_keys == "zero" else [])),
        yardstick=of_queries.yardstick,
        parameters={**found, "base": base, "no_keys": no_keys},
        with_parameters=_of,
        parts=lambda keys: (attending.parts(keys)[0], 1),
        logits=of_queries.logits,
        most_columns=WIDEST,
        arguments=arguments_of(attending),
        undefined=of_queries.of.undefined,
        scale=of_queries.scale,
        scale_text="of max(|m| + log-sum, 1)",
        limits=of_queries.limits,
    )


ATTENTION_LOGSUMEXP = _of()
