"""Drafts: a family's cases before they become bits."""

from dataclasses import dataclass

import numpy as np

from oracles.formats import Bits, Format, Values, encode
from softcheck.cases.case import PACKED, Case, Layout, digest, format_rows
from softcheck.cases.recipe import AnyGenerator, AnyModifier, Recipe

MAX_STORED_ELEMENTS = 300
"""Elements up to which a case stores its bits, where a reader can see them; larger cases store a recipe."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One case of a family in one format. Build with ``made`` (from a recipe) or ``listed`` (from values)."""

    name: str
    shape: tuple[int, int]
    content: Recipe | Bits
    why: str
    tags: tuple[str, ...]
    layout: Layout

    def case(self, family: str, fmt: Format) -> Case:
        """The finished case, digest included."""
        recipe = self.content if isinstance(self.content, Recipe) else None
        bits = self.content.bits(*self.shape, fmt) if isinstance(self.content, Recipe) else self.content
        stored = recipe is None or bits.size <= MAX_STORED_ELEMENTS
        return Case(
            id=f"{family}/{self.name}/{fmt.name}",
            dtype=fmt.name,
            shape=self.shape,
            digest=digest(bits, fmt, self.layout),
            rows=format_rows(bits, fmt) if stored else None,
            recipe=None if stored else recipe,
            layout=self.layout,
            tags=self.tags,
            provenance=self.why,
        )


def made(
    name: str,
    rows: int,
    columns: int,
    start: AnyGenerator,
    *then: AnyModifier,
    why: str,
    tags: tuple[str, ...] = (),
    layout: Layout | None = None,
) -> Draft:
    """A draft of a generator and its modifiers."""
    return Draft(name, (rows, columns), Recipe(start, then), why, tags, layout or PACKED)


def listed(
    name: str, values: Values | list[list[float]], fmt: Format, *, why: str, tags: tuple[str, ...] = ()
) -> Draft:
    """A draft of values written out, shape [rows, columns], each rounded once to the format."""
    return from_bits(name, encode(np.array(values, dtype=np.float64), fmt), why=why, tags=tags)


def from_bits(name: str, bits: Bits, *, why: str, tags: tuple[str, ...] = ()) -> Draft:
    """A draft of bit patterns, shape [rows, columns]."""
    return Draft(name, (bits.shape[0], bits.shape[1]), bits, why, tags, PACKED)
