"""Fresh random rows of every case family, made on the device that judges them.

``softcheck.cases.families`` holds a few fixed cases of each family. Here each family's values are drawn anew, row by
row, from the same ranges and at any width. The random numbers are torch's, so the same seed gives the same rows on one
device and one version of torch. A row that matters is kept as bits. Only the worker and benchmarks import this module.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from oracles.formats import FLOAT16, Format
from softcheck.cases.families.magnitude import exp_overflow
from softcheck.cases.families.patterns import edge_patterns
from softcheck.cases.families.tiny import EXP_THRESHOLDS, least_normal_distance, subnormals, zero_distance

SIGNED = {16: torch.int16, 32: torch.int32, 64: torch.int64}

_ALWAYS_SPECIAL = 1 << 16
"""Columns beyond which a special value is put into only one row in two, so that ordinary rows are among them."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A matrix to fill. Every method gives float32 values on the device."""

    rows: int
    columns: int
    fmt: Format
    generator: torch.Generator

    @property
    def device(self) -> torch.device:
        """The device on which the rows are made."""
        return self.generator.device

    @property
    def index(self) -> torch.Tensor:
        """Column numbers, shape [1, columns]."""
        return torch.arange(self.columns, device=self.device)[None, :]

    def normal(self, scale: float | torch.Tensor = 1.0, shift: float = 0.0) -> torch.Tensor:
        """Normal values, [rows, columns]."""
        drawn = torch.randn((self.rows, self.columns), generator=self.generator, device=self.device)
        return drawn.mul_(scale).add_(shift)

    def uniform(self, low: float, high: float, columns: int | None = None) -> torch.Tensor:
        """Uniform values between two limits, [rows, columns] or as many columns as given."""
        shape = (self.rows, self.columns if columns is None else columns)
        return torch.rand(shape, generator=self.generator, device=self.device).mul_(high - low).add_(low)

    def whole(self, low: int, high: int, columns: int | None = None) -> torch.Tensor:
        """Whole numbers, ``high`` excluded, [rows, columns] or as many columns as given, as int64."""
        shape = (self.rows, self.columns if columns is None else columns)
        return torch.randint(low, high, shape, generator=self.generator, device=self.device)

    def pick(self, values: Sequence[float], columns: int | None = None) -> torch.Tensor:
        """One of the values per element; per row with ``columns`` 1."""
        table = torch.tensor(values, dtype=torch.float32, device=self.device)
        return table[self.whole(0, len(values), columns)]

    def by_row(self, *choices: "Filler") -> torch.Tensor:
        """One of several ways of filling for each run of rows."""
        cuts = [self.rows * i // len(choices) for i in range(len(choices) + 1)]
        parts = zip(choices, pairwise(cuts), strict=True)
        return torch.cat([choice(replace(self, rows=end - first)) for choice, (first, end) in parts if end > first])

    def put(self, values: torch.Tensor, number: float | torch.Tensor, chance: float = 1.0) -> torch.Tensor:
        """Overwrites one random column, of each row or of a share of them."""
        place = self.whole(0, self.columns, 1)
        new = torch.as_tensor(number, dtype=values.dtype, device=self.device).expand(self.rows, 1)
        if chance < 1:
            new = torch.where(self.uniform(0.0, 1.0, 1) < chance, new, values.gather(1, place))
        return values.scatter_(1, place, new)

    def finite(self, values: torch.Tensor) -> torch.Tensor:
        """The values within the format's range."""
        largest = min(self.fmt.max, torch.finfo(values.dtype).max)
        return values.clamp_(-largest, largest)

    def masks(self) -> torch.Tensor:
        """True for masked elements, [rows, columns]: leading, trailing, every second column, or all but one."""
        count, stays = self.whole(0, self.columns + 1, 1), self.whole(0, self.columns, 1)
        kind = self.whole(0, 5, 1)
        index = self.index
        masked = torch.where(kind == 0, index < count, index >= count)
        masked = torch.where(kind == 2, (index % 2 == 0).expand_as(masked), masked)
        masked = torch.where(kind == 3, (index % 2 == 1).expand_as(masked), masked)
        return torch.where(kind == 4, index != stays, masked)


Filler = Callable[[Draw], torch.Tensor]


def fill(
    filler: Filler,
    rows: int,
    columns: int,
    fmt: Format,
    generator: torch.Generator,
) -> torch.Tensor:
    """Rows of a family, contiguous, shape [rows, columns], of the format's dtype, on the generator's device.

    ``filler`` is one of ``FILLERS`` or ``ORDINARY``; both counts are at least 1.
    """
    return filler(Draw(rows, columns, fmt, generator)).to(torch_dtype(fmt))


def torch_dtype(fmt: Format) -> torch.dtype:
    """Torch's name for a format."""
    found: torch.dtype = getattr(torch, fmt.name)
    return found


def _normal(d: Draw) -> torch.Tensor:
    return d.normal(d.pick((0.1, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0), 1))


def _equal(d: Draw) -> torch.Tensor:
    return d.uniform(-8.0, 8.0, 1).expand(d.rows, d.columns).contiguous()


def _neighbours(d: Draw) -> torch.Tensor:
    step = 2.0 ** (1 - d.fmt.precision)
    return (1.0 + step * d.whole(0, 4)) * d.pick((1.0, -1.0), 1)


def _ties(d: Draw) -> torch.Tensor:
    return d.by_row(
        _neighbours,
        lambda d: d.pick((0.0, -0.5, 3.25, 3.0, -7.0)),
        lambda d: d.put(d.put(d.put(d.normal(), 6.5), 6.5), 6.5),
        lambda d: d.pick((0.0, -0.0)),
    )


def _one_hot(d: Draw) -> torch.Tensor:
    low = d.pick((-2.0, -9.0, -12.0, -20.0, -100.0), 1) + d.uniform(-1.0, 1.0, 1)
    return d.put(low.expand(d.rows, d.columns).contiguous(), d.pick((0.0, 1.0), 1))


def _stairs(d: Draw) -> torch.Tensor:
    """Logits that rise or fall by one amount from tile to tile, so that a running maximum grows, or is never passed."""
    tile = d.pick((32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0), 1)
    step = d.pick((1.0, 20.0, 50.0, 88.0, 89.0, 104.0, 150.0, 1e4), 1) * d.pick((1.0, -1.0), 1)
    return d.finite(d.normal().add_((d.index / tile).floor_() * step))


def _ramp(d: Draw) -> torch.Tensor:
    return d.by_row(_slope, _stairs)


def _slope(d: Draw) -> torch.Tensor:
    steps = d.pick((0.03125, -0.25, 2.0**-10, -0.34657359, 2.0**-8, 0.1, -1.0), 1)
    return d.finite(d.uniform(-20.0, 4.0, 1) + steps * d.index)


def _sorted(d: Draw) -> torch.Tensor:
    values = d.by_row(lambda d: d.uniform(-100.0, 0.0), lambda d: d.normal(20.0), lambda d: d.normal(3.0))
    rising = values.sort(dim=1).values
    return torch.where(d.whole(0, 2, 1) == 0, rising, rising.flip(1))


def _huge(d: Draw) -> torch.Tensor:
    top = d.fmt.max
    scales = (top, -top, top / 2, -top / 2, top / 4, 2.0**d.fmt.max_exponent, 0.0, 1.0, -1.0)
    return d.by_row(
        lambda d: d.pick(scales),
        lambda d: d.uniform(-100.0, 100.0),
        lambda d: d.uniform(-1000.0, 1000.0),
        lambda d: d.finite(d.normal(min(1e14, top / 8))),
        lambda d: d.put(torch.full((d.rows, d.columns), -top, device=d.device), top),
    )


def _shifted(d: Draw) -> torch.Tensor:
    """Multiples of a spacing far from zero, exact in the format."""
    spacing = d.pick((2.0**-5, 0.25, 1.0, 8.0), 1)
    base = spacing * 2.0 ** (d.fmt.precision - 1) * d.pick((1.0, -1.0, 1.5, -1.5), 1)
    return d.finite(base + spacing * d.whole(0, min(256, 2 ** (d.fmt.precision - 2))))


def _padding(d: Draw) -> torch.Tensor:
    values = d.normal(2.0, -3.0)
    return values.masked_fill_(d.masks(), float("-inf"))


def _special(d: Draw) -> torch.Tensor:
    chance = 1.0 if d.columns <= _ALWAYS_SPECIAL else 0.5
    numbers = d.pick((float("inf"), float("nan"), float("-inf")), 1)
    return d.put(d.put(d.normal(2.0), numbers, chance), d.pick((float("inf"), float("nan"), 0.0), 1), 0.25)


def _far_below(d: Draw) -> torch.Tensor:
    return d.normal(2.0, -10.0)


def _finfo_min(d: Draw) -> torch.Tensor:
    return d.normal(2.0).masked_fill_(d.masks(), -d.fmt.max)


def _subnormal_logits(d: Draw) -> torch.Tensor:
    return d.put(d.pick(subnormals(d.fmt)), d.pick((-4.0, 2.0, 0.0), 1), 0.5)


def _subnormal_results(d: Draw) -> torch.Tensor:
    normal, zero = least_normal_distance(d.fmt), zero_distance(d.fmt)
    return d.by_row(
        lambda d: d.put(d.uniform(-zero, 0.0), 0.0),
        lambda d: d.put(d.uniform(-zero, -normal), 0.0),
        lambda d: d.put(d.uniform(-zero - 1, -zero + 1), 0.0),
        lambda d: d.put(d.uniform(-normal - 1, -normal + 1), 0.0),
        lambda d: d.put(torch.full((d.rows, d.columns), -2 * zero, device=d.device), 0.0),
    )


def _negative(d: Draw) -> torch.Tensor:
    return d.by_row(
        lambda d: d.normal(1.0, -100.0),
        lambda d: d.uniform(-9064.0, -9000.0),
        lambda d: d.put(torch.full((d.rows, d.columns), -80.0, device=d.device), -50.0),
    )


def _positive(d: Draw) -> torch.Tensor:
    threshold = exp_overflow(d.fmt)
    large = 65504.0 if d.fmt == FLOAT16 else 3e38
    return d.by_row(
        lambda d: d.uniform(threshold, threshold + 8),
        lambda d: d.uniform(threshold, 2 * threshold),
        lambda d: torch.full((d.rows, d.columns), large, device=d.device),
    )


def _one_column(d: Draw) -> torch.Tensor:
    values = (d.fmt.max, -d.fmt.max, 88.72284, 0.0, d.fmt.least_subnormal, -100.0)
    return d.by_row(lambda d: d.pick(values), lambda d: d.normal(30.0))


def _wide(d: Draw) -> torch.Tensor:
    return d.by_row(lambda d: d.normal(2.0, -10.0), lambda d: d.normal(3.0, -10.0), lambda d: d.uniform(-40.0, 0.0))


def _temperature(d: Draw) -> torch.Tensor:
    return d.finite(d.normal(d.pick((1e4, 4e4, 1e-4), 1)))


def _format_specials(d: Draw) -> torch.Tensor:
    patterns = torch.tensor(edge_patterns(d.fmt), dtype=torch.int64, device=d.device)
    return _from_patterns(d, patterns[d.whole(0, len(patterns))])


def _random_bits(d: Draw) -> torch.Tensor:
    """Any finite pattern; one row in four holds any pattern at all in its first columns."""
    patterns = d.whole(0, 1 << d.fmt.width)
    lowest = 1 << (d.fmt.precision - 1)
    keeps = (d.whole(0, 4, 1) == 0) & (d.index < 8)
    infinite = (patterns & d.fmt.exponent_mask) == d.fmt.exponent_mask
    return _from_patterns(d, torch.where(infinite & ~keeps, patterns ^ lowest, patterns))


def _finite_bits(d: Draw) -> torch.Tensor:
    patterns = d.whole(0, 1 << d.fmt.width)
    infinite = (patterns & d.fmt.exponent_mask) == d.fmt.exponent_mask
    return _from_patterns(d, torch.where(infinite, patterns ^ (1 << (d.fmt.precision - 1)), patterns))


def _from_patterns(d: Draw, patterns: torch.Tensor) -> torch.Tensor:
    # Integer conversion keeps the low bits, which are the pattern.
    return patterns.to(SIGNED[d.fmt.width]).view(torch_dtype(d.fmt))


def _cancellation(d: Draw) -> torch.Tensor:
    return d.by_row(
        lambda d: d.put(d.pick((-17.5, -16.75), 1).expand(d.rows, d.columns).contiguous(), 0.0),
        lambda d: d.pick(EXP_THRESHOLDS),
        lambda d: d.put(d.normal(0.01), 20.0),
        lambda d: torch.where(d.index % 2 == 1, 1000.125, d.normal(1000.0)),
    )


FILLERS: dict[str, Filler] = {
    "huge": _huge,
    "shifted": _shifted,
    "padding": _padding,
    "special": _special,
    "widths": _far_below,
    "finfo-min": _finfo_min,
    "subnormal-logits": _subnormal_logits,
    "subnormal-results": _subnormal_results,
    "ties": _ties,
    "one-hot": _one_hot,
    "ramp": _ramp,
    "normal": _normal,
    "uniform": _equal,
    "negative": _negative,
    "positive": _positive,
    "sorted": _sorted,
    "one-column": _one_column,
    "layout": _normal,
    "sources": _normal,
    "wide": _wide,
    "rows": _far_below,
    "temperature": _temperature,
    "format-specials": _format_specials,
    "random-bits": _random_bits,
    "cancellation": _cancellation,
}
"""Functions that draw each family's rows. "empty" has none. "one-column", "layout", "wide" and "rows" are special only
by their shape or strides, which the caller gives."""

ORDINARY: dict[str, Filler] = {
    **{name: FILLERS[name] for name in FILLERS if name not in {"special", "one-column", "layout", "sources", "rows"}},
    "random-bits": _finite_bits,
}
"""The families whose rows have a finite answer, but for a few that are masked whole; none twice."""


def mixed(
    rows: int,
    columns: int,
    fmt: Format,
    generator: torch.Generator,
    fillers: Sequence[Filler] = tuple(ORDINARY.values()),
) -> torch.Tensor:
    """Rows of all ``fillers``, a run of each; where there are fewer rows than fillers, of some of them."""
    first = 0
    if rows < len(fillers):
        first = int(torch.randint(len(fillers), (1,), generator=generator, device=generator.device))
    cuts = [rows * i // len(fillers) for i in range(len(fillers) + 1)]
    parts = [
        fill(fillers[(i + first) % len(fillers)], end - begin, columns, fmt, generator)
        for i, (begin, end) in enumerate(pairwise(cuts))
        if end > begin
    ]
    return torch.cat(parts)
