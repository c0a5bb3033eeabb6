"""Drafts: a family's cases before they become bits."""

from dataclasses import dataclass

import numpy as np

from oracles.formats import Bits, Format, Values, encode
from softcheck.cases.case import PACKED, Case, Layout
from softcheck.cases.families.provenance import field_report
from softcheck.cases.operands import Operands
from softcheck.cases.recipe import AnyGenerator, AnyModifier, Recipe

NARROW = "few columns, so that a fault of every width is not taken for one of wide rows"
"""Provenance of a family's narrowest cases."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One case of a family in one format. Build with ``made`` (from a recipe) or ``listed`` (from values)."""

    name: str
    shape: tuple[int, int]
    content: Recipe | Bits
    why: str
    tags: tuple[str, ...]
    layout: Layout
    operands: Operands | None

    def case(self, family: str, fmt: Format) -> Case:
        """The finished case, digest included."""
        recipe = self.content if isinstance(self.content, Recipe) else None
        bits = self.content.bits(*self.shape, fmt) if isinstance(self.content, Recipe) else self.content
        return Case.of(
            bits,
            fmt,
            family=family,
            name=self.name,
            recipe=recipe,
            layout=self.layout,
            operands=self.operands,
            tags=self.tags,
            provenance=self.why,
        )


def made(
    name: str,
    rows: int,
    columns: int,
    start: AnyGenerator,
    *then: AnyModifier,
    why: int | str,
    tags: str = "",
    layout: Layout = PACKED,
    operands: Operands | None = None,
) -> Draft:
    """A draft of a generator and its modifiers.

    ``why`` is the provenance, or the number of the field report that asks for the case. ``tags`` are parted by spaces.
    """
    return _draft(name, (rows, columns), Recipe(start, then), why, tags, layout, operands)


def listed(name: str, values: Values | list[list[float]], fmt: Format, *, why: int | str, tags: str = "") -> Draft:
    """A draft of values written out, shape [rows, columns], each rounded once to the format."""
    return from_bits(name, encode(np.array(values, dtype=np.float64), fmt), why=why, tags=tags)


def from_bits(name: str, bits: Bits, *, why: int | str, tags: str = "") -> Draft:
    """A draft of bit patterns, shape [rows, columns]."""
    return _draft(name, (bits.shape[0], bits.shape[1]), bits, why, tags)


def _draft(
    name: str,
    shape: tuple[int, int],
    content: Recipe | Bits,
    why: int | str,
    tags: str,
    layout: Layout = PACKED,
    operands: Operands | None = None,
) -> Draft:
    origin = field_report(why) if isinstance(why, int) else why
    return Draft(name, shape, content, origin, tuple(tags.split()), layout, operands)
