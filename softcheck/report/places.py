"""The lines of variants' code in a report, so that a saved one can be drawn as annotations elsewhere."""

from collections.abc import Iterable

import msgspec

from softcheck.report.model import VariantResult
from softcheck.variants.place import place_of


def with_places(rows: Iterable[VariantResult]) -> tuple[VariantResult, ...]:
    """The rows, each with the line at which the variant's code begins."""
    found = list(rows)
    places = {name: place_of(name) for name in dict.fromkeys(row.name for row in found)}
    return tuple(msgspec.structs.replace(row, place=places[row.name]) for row in found)
