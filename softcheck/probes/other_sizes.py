"""Sizes at which a variant takes another path than for the ordinary calls of a history, or may take one.

What a wrapper keeps, or how it asks for a mode or a thread, may differ between its paths: histories are played in each.
"""

from collections.abc import Iterator

import numpy as np

from softcheck.probes import shape_plan
from softcheck.probes.base import Subject
from softcheck.probes.regime_map import paths_of, regimes_of
from softcheck.probes.shape_plan import Shape, Space
from softcheck.variants.source import source_of

_ROWS = 8
"""Rows of a call, if the path takes so many."""
_MOST_ROWS, _MOST_COLUMNS = 130, 8193
_MOST_ROWS_ON_GPU, _MOST_COLUMNS_ON_GPU = 70_000, 65_537
_REGIMES, _WIDTHS = 3, 3
"""Most sizes of paths that were seen, and most widths that a source's numbers suggest."""


def other_sizes(subject: Subject, ordinary: Shape) -> list[Shape]:
    """Returns sizes of other regimes than an ordinary call's, the smallest of each, and widths beyond numbers of the source."""
    setting = subject.setting
    source = source_of(subject.variant.function)
    on_gpu = setting.on_gpu
    widest = _MOST_COLUMNS_ON_GPU if on_gpu else _MOST_COLUMNS
    limit = min(n for n in (widest, setting.declaration.column_limit(setting.dtype), setting.widest) if n is not None)
    numbers = shape_plan.numbers_of(source.sizes_for(setting.fmt.itemsize), largest=limit)
    space = Space(numbers, limit, (2**24 if on_gpu else 2**17) // setting.operation.per_logit(limit))
    rng = np.random.default_rng([source.digest, setting.seed, 1])
    usual = frozenset(path.name for path in paths_of(subject, source, [ordinary]).values())

    def of_regimes() -> Iterator[Shape]:
        for regime in regimes_of(subject, source, space, rng):
            most_rows = max(shape.rows for shape in regime.shapes)
            fitting = [shape for shape in regime.shapes if space.fits(shape) and shape.columns > 2]
            if fitting and usual.isdisjoint(regime.paths):
                rows, columns = fitting[0]
                yield Shape(max(rows, min(_ROWS, most_rows)), columns)

    wider = [Shape(_ROWS, n + 1) for n in numbers if ordinary.columns <= n < limit]
    drawn = [wider[int(i)] for i in sorted(rng.permutation(len(wider))[:_WIDTHS])]
    most = _MOST_ROWS_ON_GPU if on_gpu else _MOST_ROWS
    regimes = [shape for shape in of_regimes() if shape.rows <= most][:_REGIMES]
    return [shape for shape in dict.fromkeys([*regimes, *drawn]) if space.fits(shape)]
