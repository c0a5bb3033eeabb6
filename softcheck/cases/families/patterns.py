"""Families of bit patterns: the values at a format's edges, and random ones."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Bits, Format
from softcheck.cases.families.draft import Draft, from_bits, made
from softcheck.cases.recipe import Cycle, Put, RandomBits

if TYPE_CHECKING:
    import torch

    from softcheck.cases.random_rows import Draw


def edge_patterns(fmt: Format) -> list[int]:
    """Patterns of the finite values at the format's edges, both signs, in order of magnitude."""
    least_normal = 1 << (fmt.precision - 1)
    largest = fmt.exponent_mask - 1
    one = (fmt.exponent_mask >> 1) & ~(least_normal - 1)
    magnitudes = [
        0,
        1,
        2,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one - 1,
        one,
        one + 1,
        largest - 1,
        largest,
    ]
    sign = 1 << (fmt.width - 1)
    return [pattern for magnitude in magnitudes for pattern in (magnitude, sign | magnitude)]


def format_specials(fmt: Format) -> Iterator[Draft]:
    """Every interesting pattern of the format.

    These are zeros, least and largest subnormal, least normal, maximum, and NaN payloads.
    """
    finite = edge_patterns(fmt)
    infinity, sign = fmt.exponent_mask, 1 << (fmt.width - 1)
    small = [p for p in finite if p & ~sign <= 1 << (fmt.precision - 1)]
    negative_infinity = infinity | sign
    quiet, payload = infinity | 1 << (fmt.precision - 2), infinity | 1
    yield from_bits("edges", _rows(fmt, finite, finite[::-1]), why="the finite values at the format's edges")
    yield from_bits("small-edges", _rows(fmt, small, small[::-1]), why="zeros and subnormal values of both signs")
    payloads = [
        [payload, 0, 0],
        [0, payload | sign, 0],
        [0, 0, quiet | sign],
        [quiet | 1, infinity, negative_infinity],
        [0, 0, 0],
    ]
    reason = "signalling, negative and filled NaN patterns are NaN too"
    yield from_bits("nan-payloads", _rows(fmt, *payloads), why=reason, tags="special")
    powers = tuple(sign_of * 2.0**e for e in range(-4, 8) for sign_of in (1.0, -1.0))
    yield made("powers-of-two", 2, 129, Cycle(powers), why="logits at the edges of binades")


def format_specials_rows(d: "Draw") -> "torch.Tensor":
    """Draws rows of ``format_specials``, of finite patterns."""
    return d.of_patterns(d.pick_whole(edge_patterns(d.fmt)))


def random_bits(_fmt: Format) -> Iterator[Draft]:
    """Uniformly random bit patterns."""
    why = "every pattern of the format alike, so that all magnitudes meet"
    yield made("finite-129", 4, 129, RandomBits(1), why=why)
    yield made("finite-513", 2, 513, RandomBits(2), why=why)
    yield made("any-33", 8, 33, RandomBits(3, specials=True), Put(0, "nan", row=1), why=why, tags="special")
    yield made("any-257", 3, 257, RandomBits(4, specials=True), Put(200, "-inf"), why=why, tags="special")


def random_bits_rows(d: "Draw", special: int = 4) -> "torch.Tensor":
    """Draws rows of ``random_bits``; one row in ``special``, if it is not 0, holds any pattern in its first columns."""
    patterns = d.whole(0, 1 << d.fmt.width)
    infinite = (patterns & d.fmt.exponent_mask) == d.fmt.exponent_mask
    if special:
        infinite &= ~((d.whole(0, special, 1) == 0) & (d.index < 8))
    return d.of_patterns((patterns ^ (1 << (d.fmt.precision - 1))).where(infinite, patterns))


def _rows(fmt: Format, *rows: list[int]) -> Bits:
    return np.array(rows, dtype=fmt.storage)
