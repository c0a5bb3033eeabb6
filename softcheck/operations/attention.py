"""Attention, softmax(scale q k^T) v for each query of a head, and the log-sum-exp of each query's scores, which kernels return beside it.

Heads have causal masks, windows, shared keys, soft caps, biases and sinks. One row of the matrix is one head (``operations.heads``), and
its answer has a part for each query. The bounds are derived in docs/bounds.md#attention. Errors of attention are counted in
the ULP of sum_j p_j |v_j|, since the sum over keys cancels, and those of a log-sum-exp in ulp(max(|m| + L, 1)), m the largest score.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles import attention as oracle
from oracles.arrays import Array, largest, module_of, quiet
from oracles.attention import Heads
from oracles.formats import FLOAT32, FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, stated
from softcheck.errors import UsageError
from softcheck.numbers.expression import Number
from softcheck.numbers.model import EXACT, Model
from softcheck.operations import attention_bounds as formulas
from softcheck.operations import rules
from softcheck.operations.attention_parameters import arguments_of, attending_of, families_of
from softcheck.operations.block import joined, reshaped
from softcheck.operations.bounds import OTHER_BASE, Bounds, bounds_of
from softcheck.operations.heads import Attending
from softcheck.operations.operation import Exact, Limits, Operand, Operation, Parameter, functions_of
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_VANISHED = 2.0**-860
"""More than the shares of all keys that underflow, times any value of float32."""
_AT_ONCE = 1 << 20
"""Scores of the heads that the oracle takes at once."""
SCORES = {"cpu": 1 << 20, "cuda": 1 << 23}
"""Scores that are held at once on a device: their float64 temporaries take some thirty times 8 bytes each."""
WIDEST = 640
"""Keys of the longest head that is judged: an output has queries times keys scores behind it."""
NO_KEYS = {"-inf": -math.inf, "inf": math.inf, "zero": 0.0}
"""Values that the log-sum-exp of a query that sees no key may be declared to have."""


@dataclass(frozen=True, slots=True)
class _OfHeads:
    """The functions of an operation that attention and its log-sum-exp share."""

    attending: Attending
    given: Heads | None = None
    """Some queries of all heads of a matrix, tensors; None for all queries of the heads that are made of a matrix."""

    def computed(self, heads: Heads, model: Model, fmt: Format) -> Number:
        """The answers before their last rounding, [heads, queries, numbers]."""
        raise NotImplementedError

    def proven(self, heads: Heads) -> Reference:
        """The same enclosed by Arb, [heads * queries, numbers]."""
        raise NotImplementedError

    def scale(self, values: Array, answers: Array, fmt: Format) -> Array:
        """The size of what is rounded on the way, [rows * queries, numbers]."""
        raise NotImplementedError

    def convention(self, top: Array, masked: FullyMasked) -> Array:
        """The answers of queries whose largest logit, [queries, 1], is not finite."""
        raise NotImplementedError

    def heads(self, values: Array, fmt: Format) -> Heads:
        """The heads of a matrix's rows. Raises UsageError for float64."""
        if fmt == FLOAT64:
            raise UsageError("attention is judged in formats of up to 32 bits; leave float64 out of the dtypes")
        return self.given or self.attending.heads(values, fmt)

    def logits(self, values: Array, fmt: Format) -> Array:
        """The scores of each query, [rows * queries, keys]: NaN or +inf where it sees a key with such a logit.

        A sink stands behind them: a query that sees it alone has the answer 0, or the sink.
        """
        heads, xp = self.heads(values, fmt), module_of(values)
        special = xp.isnan(values) | xp.isposinf(values)
        scores = xp.where(special[:, None], values[:, None], formulas.scores(heads, EXACT).value)
        scores = xp.where(heads.visible, scores, -np.inf).reshape(-1, values.shape[1])
        if not np.isfinite(heads.sink):
            return scores
        return xp.concatenate([scores, xp.full_like(largest(scores), heads.sink)], axis=1)

    def answer(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """In float64, [rows, queries * numbers], of some heads at once, since each has queries times keys scores."""
        step = max(1, _AT_ONCE // max(1, self.attending.parts(values.shape[1])[0] * values.shape[1]))
        parts = [values[first : first + step] for first in range(0, max(1, len(values)), step)]
        return joined([self.by(self.in_float64, part, fmt, masked) for part in parts])

    def in_float64(self, heads: Heads) -> Reference:
        """Float64's answers with their own errors, [heads * queries, numbers]."""
        with quiet(heads.q):
            found = self.computed(heads, formulas.IN_FLOAT64, FLOAT64)
            return stated(of_queries(found.value), of_queries(found.error), absolute=_VANISHED)

    def prove(self, values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """Enclosed by Arb, of the same shape."""
        return self.by(self.proven, values, fmt, masked)

    def by(self, answers: Callable[[Heads], Reference], values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        """An oracle's answers, but for special queries, whose answers are conventions."""
        found, top = answers(self.heads(values, fmt)), largest(self.logits(values, fmt))
        special = ~np.isfinite(top) & bool(values.shape[1] or np.isfinite(self.attending.sink))
        found = found.known(special, self.convention(top, masked))
        return reshaped(found, (len(values), found.high.size // max(1, len(values))))

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        """The answers of given heads where they lie, [rows * queries, numbers]."""
        found = self.computed(self.heads(x, fmt), formulas.IN_FLOAT64, FLOAT64)
        exact, off = of_queries(found.value), of_queries(found.error)
        top = largest(self.logits(x.double(), fmt))
        # An ULP of a size is at least 2^-p of it.
        off = off / self.scale(x, exact, fmt).clamp(min=np.finfo(np.float64).tiny)
        exact = exact.where(top.isfinite(), self.convention(top, "nan"))
        return Exact(exact, off.amax(dim=1) * 2.0**fmt.precision)

    def undefined(self, values: Array, fmt: Format) -> Array:
        """Queries with a product that float32 can't hold, and those with an infinite or hidden logit that was not promised."""
        heads, xp = self.heads(values, fmt), module_of(values)
        found = largest(heads.sizes * max(1.0, heads.scale), 2, 0.0)[..., 0] > FLOAT32.max / 8
        if not self.attending.masked:
            found |= xp.isinf(values).any(axis=1)[:, None]
        if not self.attending.ignores_nan:
            special = xp.isnan(values) | xp.isposinf(values)
            found |= (special[:, None] & ~heads.visible & ~xp.isneginf(values)[:, None]).any(axis=2)
        return found.reshape(-1)

    def bounds(self, values: Array, exact: Scaled, answers: Array, model: Model) -> Bounds:
        """The errors that an arithmetic allows, [rows * queries, numbers]."""
        with quiet(values):
            error = of_queries(self.computed(self.heads(values, exact.fmt), model, exact.fmt).error)
        return bounds_of(error, answers, exact, model)

    def limits(self, x: "torch.Tensor", fmt: Format, model: Model) -> Limits:
        """Exact values and limits where the heads' matrix lies, [rows * queries, numbers], of some queries at a time."""
        from softcheck.operations.torch_bounds import joined_limits, limits_by

        tiles = self.attending.tiles(x, SCORES[x.device.type])
        return joined_limits([limits_by(replace(self, given=heads), x, fmt, model) for heads in tiles], len(x))


class Attention(_OfHeads):
    """Attention with these parameters."""

    def proven(self, heads: Heads) -> Reference:
        """By Arb's matrix products."""
        return oracle.attention_ball(heads)

    def parts(self, keys: int) -> tuple[int, int]:
        """The queries of a head, and the numbers of an answer."""
        return self.attending.parts(keys)

    def convention(self, top: Array, masked: FullyMasked) -> Array:
        """0 where that is declared of a query that sees no key, else NaN."""
        xp = module_of(top)
        return xp.where(xp.isneginf(top) & (masked == "zero"), 0.0, np.nan)

    def scale(self, values: Array, _answers: Array, fmt: Format) -> Array:
        """The size of the terms that may cancel, sum p |v|."""
        with quiet(values):
            return of_queries(formulas.sizes_of_values(self.heads(values, fmt)))

    def computed(self, heads: Heads, model: Model, fmt: Format) -> Number:
        """The products of weights and values."""
        return formulas.attention(heads, model, fmt)

    def range_of(self, values: Array, fmt: Format, model: Model) -> tuple[Array, Array]:
        """The least and the largest value that each query sees, and what rounding allows beyond, [rows * queries, numbers]."""
        heads, xp = self.heads(values, fmt), module_of(values)
        least, most = (_extremes(heads, sign) for sign in (-1.0, 1.0))
        if np.isfinite(heads.sink):
            least, most = xp.clip(least, None, 0.0), xp.clip(most, 0.0, None)
        with quiet(values):
            allowed = formulas.beyond_values(heads, xp.maximum(abs(least), abs(most)), model, fmt)
        return of_queries(least - allowed), of_queries(most + allowed)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """By torch's attention where it knows all parameters, else by single operations."""
        return _torch().yardstick(self.attending, x)  # type: ignore[no-any-return]

    def plain(self, x: "torch.Tensor") -> "torch.Tensor":
        """By single operations in the dtype of the matrix."""
        return _torch().plain(self.attending, x)  # type: ignore[no-any-return]

    def ways(self) -> "Mapping[str, Callable[[Mapping[str, torch.Tensor]], torch.Tensor]]":
        """Torch's ways to compute it from the operands of a call, by name."""
        return _torch().ways(self.attending)  # type: ignore[no-any-return]

    def operand_gradients(
        self, values: Values, grads: Values, fmt: Format, model: Model
    ) -> Mapping[str, tuple[Values, Values]]:
        """Exact gradients by q, k, v, a bias and sinks, and the largest errors. Each query of the heads sees a key."""
        heads = self.heads(values, fmt)
        by_query = grads.reshape(*heads.q.shape[:2], heads.v.shape[2])
        with quiet(values):
            return formulas.gradients(heads, by_query, model, fmt, self.attending.groups)

    def flops(self, heads: int, keys: int) -> float:
        """2 Lq Lk d for each product of a head; half of that with a causal mask, whatever its alignment, as flash-attention counts."""
        queries, value_dim = self.attending.parts(keys)
        whole = 2.0 * heads * queries * keys * (self.attending.head_dim + value_dim)
        return whole * (0.5 if self.attending.causal else 1.0)


@dataclass(frozen=True, slots=True)
class _Logsumexp(_OfHeads):
    base: float = math.e
    no_keys: float = -math.inf
    """The answer for a query that sees no key, and no sink."""

    @property
    def factor(self) -> float:
        """The number by which a logarithm of base e is multiplied."""
        return 1.0 / math.log(self.base) if self.base != math.e else 1.0

    def proven(self, heads: Heads) -> Reference:
        return oracle.logsumexp_ball(heads, self.base)

    def parts(self, keys: int) -> tuple[int, int]:
        return self.attending.parts(keys)[0], 1

    def convention(self, top: Array, _masked: FullyMasked) -> Array:
        xp = module_of(top)
        return xp.where(xp.isneginf(top), self.no_keys, xp.where(xp.isinf(top), top, np.nan))

    def scale(self, values: Array, answers: Array, fmt: Format) -> Array:
        top = of_queries(formulas.subtracted(self.heads(values, fmt))) * self.factor
        return module_of(values).clip(abs(top) + abs(answers - top), 1.0, None)

    def computed(self, heads: Heads, model: Model, _fmt: Format) -> Number:
        found = formulas.logsumexp(heads, model)
        return found if self.factor == 1.0 else found.rounded(OTHER_BASE, self.factor)

    def operand_gradients(
        self, values: Values, grads: Values, fmt: Format, model: Model
    ) -> Mapping[str, tuple[Values, Values]]:
        """Exact gradients by q, k, a bias and sinks, and the largest errors. Each query of the heads sees a key."""
        heads = self.heads(values, fmt)
        by_query = self.factor * grads.reshape(*heads.q.shape[:2], 1)
        with quiet(values):
            return formulas.gradients_of_logsumexp(heads, by_query, model, fmt, self.attending.groups)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """By single operations in float32."""
        return _torch().logsumexp(self.attending, x) * self.factor  # type: ignore[no-any-return]


def of_queries(array: Array) -> Array:
    """[heads, queries, ...] as [heads * queries, ...]."""
    return array.reshape(-1, array.shape[2])


def _torch() -> Any:
    from softcheck.operations import torch_backends

    return torch_backends


def _extremes(heads: Heads, sign: float) -> Array:
    """The least (sign -1) or largest values of the keys that each query sees, [heads, queries, dimension]; 0 without keys."""
    xp, values = module_of(heads.v), sign * heads.v
    if heads.visible.all() and heads.k.shape[1]:
        shape = (*heads.q.shape[:2], values.shape[2])
        return sign * xp.broadcast_to(largest(values), shape)
    # One number of all values at a time, since there are as many scores as memory holds.
    each = (values[:, None, :, number] for number in range(values.shape[2]))
    found = xp.concatenate([largest(xp.where(heads.visible, one, -np.inf), 2) for one in each], axis=2)
    return xp.where(xp.isfinite(found), sign * found, 0.0)


def _operation(of: _OfHeads, parameters: Mapping[str, Parameter], **own: Any) -> Operation:
    # Where NaN may stand behind a mask, a backward may make another one of it.
    own |= {"operand_gradients": None} if of.attending.ignores_nan else {}
    return Operation(
        families=families_of(of.attending),
        relations=("keys",),
        parameters=parameters,
        most_columns=WIDEST,
        arguments=arguments_of(of.attending),
        **{**functions_of(of), "on_device": None, **own},
    )


_Q, _K = Operand("q", ("rows", "queries", "head_dim")), Operand("k", ("rows", "columns", "head_dim"))


def _attention(**parameters: Parameter) -> Operation:
    """Attention with these parameters. Raises UsageError as ``attending_of`` does."""
    attending, found = attending_of(parameters)
    return _operation(
        Attention(attending),
        found,
        name="attention",
        operands=(_Q, _K, Operand("v", ("rows", "columns", "value_dim"))),
        outputs=(Operand("o", ("rows", "queries", "value_dim")),),
        rules=(*rules.NUMBERS, rules.NOTHING_SEEN, rules.WITHIN_ITS_VALUES),
        with_parameters=_attention,
        timed_shape=(64, 4096),
        sums="attention_logsumexp",
        scale_text="of sum p |v|",
    )


def _logsumexp(**parameters: Parameter) -> Operation:
    """The log-sum-exp of attention with these parameters. Raises UsageError as attention does, and for ``no_keys`` beside a sink."""
    base, no_keys = float(parameters.pop("base", math.e)), str(parameters.pop("no_keys", "-inf"))
    attending, found = attending_of(parameters)
    if no_keys != "-inf" and math.isfinite(attending.sink):
        raise UsageError("no_keys stands beside a sink, which every query sees; leave one of them out")
    return _operation(
        _Logsumexp(attending, base=base, no_keys=NO_KEYS[no_keys]),
        {**found, "base": base, "no_keys": no_keys},
        name="attention_logsumexp",
        operands=(_Q, _K),
        outputs=(Operand("lse", ("rows", "queries")),),
        rules=(*rules.NUMBERS, *([rules.NOTHING_SEEN] if no_keys == "zero" else [])),
        with_parameters=_logsumexp,
        sum_sign=1,
        sums="attention_logsumexp",
        scale_text="of max(|m| + log-sum, 1)",
    )


ATTENTION, ATTENTION_LOGSUMEXP = _attention(), _logsumexp()
