"""Rows in which each pattern of a format stands beside logits that show its share. Only workers import this module.

A kernel may treat one value apart: 8.0, -1e4, the largest finite value, -0.0, subnormals, a NaN's payload, magnitudes
below some threshold. Such a value shows where its probability is no rounding error, so the other logits lie near it.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Format, decode, encode
from softcheck.cases.edges import edge_patterns
from softcheck.cases.random_rows import SIGNED, torch_dtype

_LEADING = 3
"""Bits of the fraction that count in formats with too many patterns to try all."""

_SPAN = 6.0
"""Largest difference of the patterns in one row: the least of them then weighs e^-6 as much as the largest."""


def patterns(fmt: Format, seed: int) -> NDArray[np.int64]:
    """Every pattern of a 16-bit format, ordered by value with NaN last.

    Of a wider format every sign and exponent with every three leading bits of the fraction, where the bits below are
    all 0, all 1, or random; and the values that programs are likely to name.
    """
    if fmt.width == 16:
        found = np.arange(1 << 16, dtype=np.uint64)
    else:
        low = fmt.precision - 1 - _LEADING
        upper = np.arange(1 << (fmt.width - low), dtype=np.uint64) << np.uint64(low)
        ones = np.uint64((1 << low) - 1)
        drawn = np.random.default_rng(seed).integers(0, int(ones), len(upper), dtype=np.uint64)
        named = np.array(sorted(telling(fmt)), dtype=np.int64).view(np.uint64)
        found = np.unique(np.concatenate([upper, upper | ones, upper | drawn, named]))
    values = decode(found.astype(fmt.storage), fmt)
    # The sign of a zero decides between two equal values.
    order = np.lexsort((~np.signbit(values), values))
    return found[order].astype(np.int64)


def telling(fmt: Format) -> set[int]:
    """Patterns that programs are likely to name: the format's edges, infinities, NaN, decimals and powers of two."""
    round_ones = [m * 10.0**e for e in range(-8, 9) for m in (1, 2, 3, 5)] + [2.0**e for e in range(-24, 24)]
    values = np.array([s * v for v in round_ones for s in (1.0, -1.0)])
    named = encode(np.concatenate([values, [math.inf, -math.inf, math.nan]]), fmt).astype(np.uint64)
    # Of NaN the least payload, and all bits set.
    others = np.array([*edge_patterns(fmt), fmt.exponent_mask + 1, (1 << fmt.width) - 1], dtype=np.uint64)
    return set(np.append(named, others).astype(np.int64).tolist())


def groups(ordered: NDArray[np.int64], fmt: Format, most: int) -> list[NDArray[np.int64]]:
    """Cuts patterns ordered by value into runs of at most ``most`` that all show beside one another in a row.

    Each infinity and each NaN has a row of its own, since it decides the whole row's answer.
    """
    values = decode(ordered.astype(np.uint64).astype(fmt.storage), fmt)
    found = []
    first = 0
    while first < len(ordered):
        end = first + 1
        if np.isfinite(values[first]):
            end = first + int(np.searchsorted(values[first : first + most], values[first] + _SPAN, side="right"))
        found.append(ordered[first:end])
        first = end
    return found


def rows_with(
    chosen: torch.Tensor, places: torch.Tensor, columns: int, fmt: Format, generator: torch.Generator, *, near: bool
) -> torch.Tensor:
    """Rows of normal logits with the chosen patterns at these places, [rows, columns] of the format's dtype.

    ``chosen`` and ``places`` are int64 [rows, patterns per row], on the generator's device. With ``near`` the logits
    lie around the row's first pattern, if that is finite, so that neither it nor they vanish; else they lie around 0.
    """
    integer = SIGNED[fmt.width]
    bits = chosen.to(integer)
    wide = torch.float64 if fmt.width == 64 else torch.float32
    logits = torch.randn((len(chosen), columns), generator=generator, device=generator.device, dtype=wide)
    if near:
        middle = bits[:, :1].view(torch_dtype(fmt)).to(wide)
        logits += torch.where(middle.isfinite(), middle, 0.0)
    rows = logits.clamp_(-fmt.max, fmt.max).to(torch_dtype(fmt))
    # As numbers, signalling NaNs would turn into quiet ones.
    return rows.view(integer).scatter_(1, places, bits).view(torch_dtype(fmt))
