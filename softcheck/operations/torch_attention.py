"""Exact values and limits of attention and of its log-sum-exp, in torch's float64 on any device, some queries at a time.

The formulas are those of ``oracles.attention`` and ``softcheck.operations.attention_bounds``. docs/bounds.md, section 29, derives how far
float64 itself is off, with the products of its matrices added up in any order.
"""

import math
from collections.abc import Iterator
from functools import cached_property

import torch

from oracles.attention import LARGEST, UNKNOWN
from oracles.formats import FLOAT32, Format
from softcheck.operations.attention_bounds import (
    BIASED,
    CAPPED,
    FAR_SINK,
    LOGARITHM,
    SCALED,
    SECOND_ORDER,
    TRUNCATED,
    error_of_sums,
    error_of_total,
    underflow,
)
from softcheck.operations.bounds import LARGEST_EXPONENT, VANISHED, Model
from softcheck.operations.expression import half_ulp
from softcheck.operations.heads import Attending
from softcheck.operations.operation import Limits
from softcheck.operations.torch_bounds import inverse_ulp, with_rounding

SCORES = {"cpu": 1 << 20, "cuda": 1 << 24}
"""Scores that are held at once: their float64 temporaries take some twelve times 8 bytes each."""
_UNIT = 2.0**-53
_LEAST, _LARGEST = torch.finfo(torch.float64).tiny, torch.finfo(torch.float64).max


class _Tile:
    """Some queries of each head and what they see; tensors of scores are float64 [heads, queries, keys]."""

    def __init__(self, whole: "_Whole", first: int, end: int) -> None:
        self.attending, self.whole, self.place = whole.attending, whole, slice(first, end)
        self.q = whole.q[:, self.place]
        numbers = torch.arange(first, end, device=self.q.device)
        self.visible = whole.attending.visible(whole.given, numbers)
        self.bias = whole.attending.bias(whole.given, numbers).to(torch.float64) if whole.attending.biased else None
        self.sizes = self.q.abs() @ whole.k.abs().mT
        """|q| . |k|."""
        self.products = (self.q @ whole.k.mT).masked_fill_(~self.visible, -math.inf)
        """q . k, -inf where a key is not seen."""
        terms = (torch.count_nonzero(self.q, dim=2)[..., None].to(torch.float64) - 1).clamp_(min=0)
        self.terms = terms + (terms > 0)
        """Products of a query that are not 0, and 0 where one alone is not, [heads, queries, 1]."""

    @cached_property
    def scores(self) -> torch.Tensor:
        """The scores, -inf where a key is not seen."""
        found, cap = self.products * self.attending.scale, self.attending.softcap
        found = found.div_(cap).tanh_().mul_(cap).masked_fill_(~self.visible, -math.inf) if cap else found
        return found if self.bias is None else found.add_(self.bias)

    @cached_property
    def largest(self) -> torch.Tensor:
        """The largest score of each query, [heads, queries, 1], -inf if it sees no key."""
        return self.scores.amax(dim=2, keepdim=True)

    @cached_property
    def top(self) -> torch.Tensor:
        """The same, but if a query sees no key the sink, or 0 without one."""
        sink = self.attending.sink
        return self.largest.masked_fill(self.largest == -math.inf, sink if math.isfinite(sink) else 0.0)

    @property
    def shift(self) -> torch.Tensor:
        """What is taken from all exponents, [heads, queries, 1]: the largest score, or the sink where that is larger."""
        return self.top.clamp(min=self.attending.sink)

    @property
    def subtracted(self) -> torch.Tensor:
        """What kernels take from them, as ``attention_bounds.subtracted`` has it."""
        return torch.where(self.has_far_sink, self.attending.sink, self.top)

    @property
    def has_far_sink(self) -> torch.Tensor:
        """Queries whose sink is so far above their scores, bool [heads, queries, 1]."""
        return self.attending.sink - self.top > FAR_SINK

    @cached_property
    def distance(self) -> torch.Tensor:
        """Distances from ``shift``; infinite where a key is not seen."""
        if self.attending.softcap or math.isfinite(self.attending.sink) or self.bias is not None:
            return self.shift - self.scores
        # The difference comes first, so that its product with the scale is all that large scores round.
        first = self.products.amax(dim=2, keepdim=True)
        return (first.masked_fill_(first == -math.inf, 0.0) - self.products).mul_(self.attending.scale)

    @cached_property
    def parts(self) -> torch.Tensor:
        """The exponentials of these distances below 0."""
        return self.distance.neg().exp_()

    @cached_property
    def total(self) -> torch.Tensor:
        """The sum of the exponentials, with the sink's, [heads, queries, 1]; 0 if there are none."""
        return self.parts.sum(dim=2, keepdim=True) + self.of_sink

    @property
    def of_sink(self) -> torch.Tensor:
        """The sink's exponential less ``shift``, [heads, queries, 1]; 0 without a sink."""
        return (self.attending.sink - self.shift).exp_()

    @cached_property
    def weights(self) -> torch.Tensor:
        """The softmax of the scores; 0 where a key is not seen."""
        return self.parts / self.divisor

    @property
    def divisor(self) -> torch.Tensor:
        """``total``, but 1 where that is 0."""
        return self.total.masked_fill(self.total == 0, 1.0)

    @cached_property
    def peak(self) -> torch.Tensor:
        """The largest logit of each query, [heads, queries, 1]: NaN, infinite, a score, or the sink."""
        found = self.largest.clamp(min=self.attending.sink)
        if not self.whole.has_special:
            return found
        x, special = self.whole.x[:, None], self.whole.special[:, None]
        return torch.maximum(torch.where(self.visible & special, x, -math.inf).amax(dim=2, keepdim=True), found)

    @cached_property
    def undefined(self) -> torch.Tensor:
        """Queries of which nothing is demanded, bool [heads, queries], as ``Attention.undefined`` has them."""
        found = self.sizes.amax(dim=2) * max(1.0, self.attending.scale) > FLOAT32.max / 8
        if not self.attending.masked:
            found |= (self.whole.masked | (self.whole.x == math.inf)).any(dim=1, keepdim=True)
        if self.whole.has_special and not self.attending.ignores_nan:
            found |= (self.whole.special[:, None] & ~self.visible).any(dim=2)
        return found

    @cached_property
    def uncertainty(self) -> torch.Tensor:
        """The largest error of a weight in float64, in the logarithm, before all are divided by their sum, [heads, queries, 1]."""
        size = torch.where(self.visible, self.sizes, 0.0).amax(dim=2, keepdim=True) * self.attending.scale
        has_sink = math.isfinite(self.attending.sink)
        units = 2 * self.terms * size + 3 * (LARGEST if has_sink else (2 * size).clamp(max=LARGEST)) + 2
        if self.attending.softcap or has_sink or self.bias is not None:
            size = size + self.attending.softcap
            if self.bias is not None:
                size = size + self.bias.abs().amax(dim=2, keepdim=True)
            units = units + 16 * size
        return units * _UNIT

    @property
    def range_of_values(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The same as ``_Whole.range_of_values`` for these queries, whatever a mask hides from each."""
        if not self.attending.hides_by_query:
            least, most = self.whole.range_of_values
            return least[:, self.place], most[:, self.place]
        found = []
        for sign in (-1.0, 1.0):
            values = (sign * self.whole.v).unbind(dim=2)
            # One number of all values at a time, since a tile has as many scores as memory holds.
            largest = torch.stack(
                [torch.where(self.visible, each[:, None], -math.inf).amax(dim=2) for each in values], dim=2
            )
            found.append(_of_seen(largest, sign, self.attending.sink))
        return found[0], found[1]

    def log_errors(self, model: Model) -> tuple[torch.Tensor, torch.Tensor]:
        """Largest errors of the weights' logarithms, and of that of their sum, [heads, queries, 1]; the former without meaning where unseen."""
        known = self.attending
        errors = self.sizes * ((TRUNCATED * model.roundoff * self.terms + 2 * model.products) * known.scale)
        raw = self.products.abs().mul_(known.scale)
        if known.softcap:
            raw.clamp_(max=known.softcap)
        if self.bias is not None:
            raw.add_(self.bias.abs())
        rounded = (SCALED if self.bias is None else BIASED) * model.roundoff * (1 + model.exponent)
        errors.add_(raw, alpha=rounded)
        errors.add_(CAPPED * model.roundoff * known.softcap).masked_fill_(~self.visible, 0.0)
        at_top = errors.amax(dim=2, keepdim=True)
        distance = self.top - self.scores if math.isfinite(known.sink) else self.distance
        torch.clamp(distance, max=VANISHED, out=raw)
        errors.add_(raw, alpha=model.exponent).add_(at_top + model.exponential)
        far = (known.sink - self.subtracted).abs_().clamp_(max=VANISHED)
        of_sink = at_top.masked_fill(self.has_far_sink, 0.0) + model.exponential + model.exponent * far
        return errors, self.growth(errors, of_sink)

    def growth(self, errors: torch.Tensor, of_sink: torch.Tensor) -> torch.Tensor:
        """The logarithm of the growth of the sum of all exponentials, [heads, queries, 1], as ``Heads.growth`` has it."""
        grown = errors.clamp(max=UNKNOWN).expm1_().mul_(self.weights).sum(dim=2, keepdim=True)
        found = torch.log1p(grown.addcmul_(self.of_sink / self.divisor, of_sink.clamp(max=UNKNOWN).expm1_()))
        far = self._lost(errors).any(dim=2, keepdim=True)
        if bool(far.any()):
            exponents = (errors - self.distance).masked_fill_(~self.visible, -math.inf)
            sink = of_sink + (self.attending.sink - self.shift)
            larger = torch.logaddexp(exponents.logsumexp(dim=2, keepdim=True), sink) - self.divisor.log()
            found = torch.where(far, torch.maximum(found, larger), found)
        return found

    def grown(self, errors: torch.Tensor) -> torch.Tensor:
        """The changes that errors of the weights' logarithms make in the weights at most, as ``Heads.grown`` has them."""
        found = errors.clamp(max=UNKNOWN).expm1_().mul_(self.weights)
        lost = self._lost(errors)
        if bool(lost.any()):
            found = torch.where(lost, self.weights + (errors - self.distance).clamp_(max=0.0).exp_(), found)
        return found

    def _lost(self, errors: torch.Tensor) -> torch.Tensor:
        """Weights of which float64 or their own errors say nothing."""
        found = ((errors > UNKNOWN) & (self.weights > 0)).logical_or_(self.distance > LARGEST)
        return found.logical_and_(self.visible)

    def errors(self, model: Model) -> torch.Tensor:
        """The error that the weights' own errors make in each number, [heads, queries, dimension]."""
        errors, of_sum = self.log_errors(model)
        return self.grown(errors.add_(of_sum)) @ self.whole.sizes_of_v


class _Whole:
    """All operands of the heads of a matrix, float64 as ``Attending.heads`` makes them."""

    def __init__(self, attending: Attending, x: torch.Tensor) -> None:
        self.attending, self.given, self.x = attending, x, x.to(torch.float64)
        q, k, v = attending.operands(x)
        self.q = q.to(torch.float64)
        self.k, self.v = (part.to(torch.float64).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0) for part in (k, v))
        self.masked = x == -math.inf
        self.special = x.isnan() | (x == math.inf)
        self.has_special = bool(self.special.any())

    @cached_property
    def sizes_of_v(self) -> torch.Tensor:
        """|v|, [heads, keys, dimension]."""
        return self.v.abs()

    def tiles(self) -> Iterator[_Tile]:
        """All queries, as many at a time as ``SCORES`` allows."""
        heads, queries = self.q.shape[:2]
        step = max(1, SCORES[self.q.device.type] // max(1, heads * self.k.shape[1]))
        for first in range(0, queries, step):
            yield _Tile(self, first, min(first + step, queries))

    @cached_property
    def range_of_values(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The least and the largest value that each query sees, [heads, queries, dimension], with 0 for a sink; 0 if it sees none."""
        keys, queries = self.v.shape[1], torch.arange(self.q.shape[1], device=self.v.device)
        last = self.attending.last(queries, keys)
        found = []
        for sign in (-1.0, 1.0):
            largest = (self.v * sign).masked_fill_(self.masked[..., None], -math.inf)
            if self.attending.causal:
                beyond = max(0, int(last.max()) - keys + 1)
                largest = torch.nn.functional.pad(largest, (0, 0, 0, beyond), value=-math.inf)
                largest = _running_maximum(largest, self.attending.window or largest.shape[1])
                largest = largest[:, last.clamp(min=0)].masked_fill_((last < 0)[:, None], -math.inf)
            else:
                largest = largest.amax(dim=1, keepdim=True).expand(-1, len(queries), -1)
            found.append(_of_seen(largest, sign, self.attending.sink))
        return found[0], found[1]


def _of_seen(largest: torch.Tensor, sign: float, sink: float) -> torch.Tensor:
    """The least (sign -1) or the largest value seen, from the largest of ``sign`` times the values, -inf where none is seen."""
    found = torch.where(largest == -math.inf, 0.0, sign * largest)
    return sign * (sign * found).clamp(min=0.0) if math.isfinite(sink) else found


def _running_maximum(values: torch.Tensor, width: int) -> torch.Tensor:
    """The largest of each value and of those before it, ``width`` in all, along the second dimension."""
    covered = 1
    while covered < min(width, values.shape[1]):
        shift = min(covered, width - covered)
        values = torch.cat([values[:, :shift], torch.maximum(values[:, shift:], values[:, :-shift])], dim=1)
        covered += shift
    return values


def attention_limits(x: torch.Tensor, fmt: Format, model: Model, attending: Attending) -> Limits:
    """Returns exact values, and limits by an arithmetic, of the attention of heads, [rows * queries, dimension]."""
    whole, tiles = _Whole(attending, x), []
    keys = x.shape[1]
    for tile in whole.tiles():
        exact, size = tile.weights @ whole.v, tile.weights @ whole.sizes_of_v
        off = torch.expm1((2 * tile.uncertainty + (keys + 8) * _UNIT).clamp(max=LARGEST_EXPONENT)) + (keys + 4) * _UNIT
        per_ulp = inverse_ulp(torch.maximum(size, exact.abs()), fmt, of_scale=True)
        found = {
            "exact": exact,
            "per_ulp": per_ulp,
            "logits": tile.peak,
            "undefined": tile.undefined,
            "uncertainty": off[..., 0] * 2.0**fmt.precision,
        }
        of_sums = error_of_sums(keys, model, fmt)
        lost = underflow(model) * keys * whole.sizes_of_v.amax(dim=1, keepdim=True)
        if fmt.width == 16:
            lost = lost + 0.5 * fmt.least_subnormal * (tile.visible.to(torch.float64) @ whole.sizes_of_v)
        of_weights = tile.errors(model)
        error = (of_weights + of_sums * (size + of_weights)) * SECOND_ORDER + lost
        if model.rounds_result:
            error = with_rounding(error, exact, fmt)
        found["limits"] = error.mul_(per_ulp).clamp_(min=_LEAST, max=_LARGEST)
        least, most = tile.range_of_values
        largest = torch.maximum(least.abs(), most.abs())
        allowed = of_sums * largest + lost
        allowed = allowed + half_ulp(largest + allowed, fmt)
        found["least"], found["most"] = least - allowed, most + allowed
        exact.masked_fill_(~tile.peak.isfinite(), math.nan)
        tiles.append(found)
    return _joined(tiles)


def attention_logsumexp_limits(
    x: torch.Tensor,
    fmt: Format,
    model: Model,
    attending: Attending,
    factor: float,
    *,
    no_keys: float,
) -> Limits:
    """Returns the same of the log-sum-exp of each query, [rows * queries, 1], times a ``factor`` for another base than e.

    A query that sees no key and no sink has the answer ``no_keys``.
    """
    tiles, keys = [], x.shape[1]
    for tile in _Whole(attending, x).tiles():
        logarithm = tile.divisor.log()
        exact, top = (tile.shift + logarithm) * factor, tile.subtracted
        size = (top * factor).abs() + (exact - top * factor).abs()
        per_ulp = inverse_ulp(torch.maximum(size, exact.abs()).clamp_(min=1.0), fmt, of_scale=True)
        off = 2 * tile.uncertainty + 12 * _UNIT * (tile.shift.abs() + logarithm.abs() + 1)
        peak = tile.peak
        found = {"per_ulp": per_ulp, "logits": peak, "undefined": tile.undefined}
        found["uncertainty"] = (off * factor * per_ulp)[..., 0]
        of_size = 1.0 + math.log1p(keys) + top.abs() + (attending.sink - top).clamp_(min=0.0)
        error = tile.log_errors(model)[1] + error_of_total(keys, model) + LOGARITHM * model.roundoff * of_size
        error = (error * SECOND_ORDER + model.underflow) * factor
        if model.rounds_result:
            error = with_rounding(error, exact, fmt)
        found["limits"] = error.mul_(per_ulp).clamp_(min=_LEAST, max=_LARGEST)
        special = torch.where(peak.isinf(), peak, math.nan).masked_fill_(peak == -math.inf, no_keys)
        found["exact"] = torch.where(peak.isfinite(), exact, special)
        tiles.append(found)
    return _joined(tiles)


def _joined(tiles: list[dict[str, torch.Tensor]]) -> Limits:
    """The limits of all queries, from those of some queries of each head at a time."""
    found = {name: torch.cat([tile[name] for tile in tiles], dim=1).flatten(0, 1) for name in tiles[0]}
    return Limits(**found)
