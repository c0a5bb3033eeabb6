"""Plans of ways in which every two values meet, and every three values of the core axes. Imports no torch.

A plan is a mixed covering array (Bryce and Colbourn, 2007): each way is the best of some that are drawn, by the meetings that it
is the first to hold. Generators of covering arrays know no costs, no budget and no values that fail together, which are known only
as calls are made.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from softcheck.probes.space.way import VALUES, Way, WayAxis

_DRAWN = 32
"""Ways that are drawn for one of a plan: half as many make it longer by a tenth."""
_PAIR, _OF_PAIRS = 8, 0.75
"""Weight of two values that meet, against that of three, and share of the ways that are drawn around two."""
_OF_DEAR = 2
"""New meetings that a value of an axis of several calls must have more than the plain one."""
_TRIES = 40
"""Draws in a row without a new meeting after which a plan ends: what is left are meetings that are excluded."""

_NAMED = 3
"""Axes that are named of meetings that a plan leaves out."""

Excluded = Callable[[Way], bool]
"""True for a way that can't be called."""

_Vector = NDArray[np.int64]
_Mask = NDArray[np.bool_]

_BARRED = -1000.0
"""Weight of two values that can't stand together, beyond all that meet for the first time."""


class Plan:
    """Ways to call a function, and how many meetings of values they hold.

    Of the axes whose values are compiled for, at most ``compilations`` combinations are in a plan, if that is not None: beyond these the
    other axes meet them.
    """

    def __init__(
        self,
        axes: Sequence[WayAxis],
        excluded: Excluded,
        seed: Sequence[int],
        *,
        triples: bool = True,
        compilations: int | None = None,
    ) -> None:
        self._axes, self._excluded = axes, excluded
        self._compiled = np.array([axis.compiles for axis in axes], dtype=np.bool_)
        self._compilations = compilations
        self._combined: dict[bytes, _Vector] = {}
        self._rng = np.random.default_rng(seed)
        self._sizes = np.array([len(axis.values) for axis in axes], dtype=np.int64)
        self._firsts = np.cumsum(self._sizes) - self._sizes
        """Number of each axis' first value among the values of all."""
        self._values = [(place, value) for place, size in enumerate(self._sizes.tolist()) for value in range(size)]
        self._needed = self._companions()
        self._pairs = self._of_pairs()
        """Of two values 1 where they have not met, 0 where they have, and ``_BARRED`` where they can't; [values, values]."""
        self._core = np.array([p for p, axis in enumerate(axes) if axis.is_core and triples], dtype=np.int64)
        of_core = np.array([n for n, (place, _) in enumerate(self._values) if place in self._core], dtype=np.int64)
        self._place_in_core = np.searchsorted(of_core, self._firsts)
        self._of_core = of_core
        is_first = np.triu(self._pairs[np.ix_(of_core, of_core)] > 0)
        self._triples: _Mask = is_first[:, :, None] & is_first[:, None, :] & is_first[None, :, :]
        """True of three values of core axes, in the order of their numbers, that have not met."""

    def _companions(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Returns another axis' value for each value that can't stand alone, as what lays a mask out needs a mask."""
        values = [(place, value) for place, value in self._values if value]

        def is_excluded(*held: tuple[int, int]) -> bool:
            vector = np.zeros(len(self._axes), dtype=np.int64)
            for place, value in held:
                vector[place] = value
            return self._excluded(self._way(vector))

        found = {}
        for each in (each for each in values if is_excluded(each)):
            others = (other for other in values if other[0] != each[0] and not is_excluded(each, other))
            if (other := next(others, None)) is not None:
                found[each] = other
        return found

    def _of_pairs(self) -> NDArray[np.float32]:
        found, is_lone = np.zeros((len(self._values),) * 2, dtype=np.float32), len(self._axes) == 1
        for one, (place, _) in enumerate(self._values):
            # Values of a single axis meet themselves.
            others = [one] if is_lone else range(int(self._firsts[place] + self._sizes[place]), len(self._values))
            for other in others:
                is_barred = self._excluded(self._way(self._holding((one, other))))
                found[one, other] = found[other, one] = _BARRED if is_barred else 1.0
        return found

    def left_out(self) -> str | None:
        """Says which meetings no way holds, the axes of most of them first; None if every one that can be called is held."""
        triples = self._of_core[np.argwhere(self._triples)].tolist()
        missing = [*np.argwhere(np.triu(self._pairs > 0)).tolist()]
        missing += [each for each in triples if not self._excluded(self._way(self._holding(each)))]
        if not missing:
            return None
        by_axis = Counter(self._axes[self._values[number][0]].name for numbers in missing for number in numbers)
        by_size = Counter(map(len, missing))
        counts = " and ".join(
            f"{count:,} {'pairs' if size == 2 else 'triples'}" for size, count in sorted(by_size.items())
        )
        named = ", ".join(f"{name} ({count:,})" for name, count in by_axis.most_common(_NAMED))
        return f"{counts} of values are left out, most of {named}"

    def _holding(self, numbers: Sequence[int]) -> _Vector:
        """Returns the way of one meeting, with all other values as usual."""
        vector = np.zeros(len(self._axes), dtype=np.int64)
        self._put(numbers, vector)
        return vector

    def _put(self, numbers: Sequence[int], vector: _Vector) -> list[int]:
        """Writes the values of one meeting, and what these need beside them, into a way; returns the places of their axes."""
        held = dict(self._values[number] for number in numbers)
        needed = (self._needed[each] for each in held.items() if each in self._needed)
        held = {**dict(needed), **held}
        for place, value in held.items():
            vector[place] = value
        return [*held]

    def ways(self, count: int, most: int | None = None) -> list[Way]:
        """Returns so many ways, those with most new meetings first, and up to ``most`` while two values have not met.

        The plain way is the first.
        """
        found = [Way()]
        self._meet(np.zeros(len(self._axes), dtype=np.int64))
        misses = 0
        while misses < _TRIES:
            pairs, triples = np.flatnonzero(self._pairs > 0), np.flatnonzero(self._triples)
            if len(found) >= ((most or count) if pairs.size else count) or not pairs.size + triples.size:
                break
            drawn = self._drawn(pairs, triples)
            gains = self._gains(drawn)
            if self._is_spent:
                gains *= [self._combination(vector) in self._combined for vector in drawn]
            best = int(gains.argmax())
            way = self._way(drawn[best])
            if not gains[best] or self._excluded(way):
                misses += 1
                continue
            misses = 0
            self._meet(drawn[best])
            found.append(Way((*way.values, (VALUES, str(len(found))))))
        return found

    def _drawn(self, pairs: _Vector, triples: _Vector) -> _Vector:
        """Draws ways, each of which holds one of these meetings, which are new."""
        found = np.zeros((_DRAWN, len(self._axes)), dtype=np.int64)
        # Two values meet before three do: most faults need no more.
        is_of_pairs = not triples.size or (pairs.size and self._rng.random() < _OF_PAIRS)
        table, new = (self._pairs, pairs) if is_of_pairs else (self._triples, triples)
        chosen = np.stack(np.unravel_index(self._rng.choice(new, _DRAWN), table.shape), axis=1)
        chosen = chosen if is_of_pairs else self._of_core[chosen]
        sought = [self._put(numbers, vector) for numbers, vector in zip(chosen.tolist(), found, strict=True)]
        is_set = np.zeros(found.shape, dtype=np.bool_)
        if self._is_spent:
            combined = np.array(list(self._combined.values()))
            found[:, self._compiled] = combined[self._rng.integers(len(combined), size=_DRAWN)]
            is_set[:, self._compiled] = True
        for row, group in zip(is_set, sought, strict=True):
            row[group] = True
        self._fill(found, is_set)
        for vector, group in zip(found, sought, strict=True):
            if not self._excluded(self._way(vector)):
                continue
            # Values that can't stand together give way, one after the other, those that are to meet last.
            for place in sorted(self._rng.permutation(len(vector)).tolist(), key=group.__contains__):
                vector[place] = 0
                if not self._excluded(self._way(vector)):
                    break
        return found

    def _fill(self, vectors: _Vector, is_set: _Mask) -> None:
        """Gives the axes that are not set, one after the other, the values that meet most of those set for the first time.

        So does AETG (Cohen, Dalal, Fredman and Patton, 1997). Ties are broken by chance.
        """
        rows = np.arange(len(vectors))
        held = self._one_hot(vectors) * np.repeat(is_set, self._sizes, axis=1)
        for place in self._rng.permutation(len(self._axes)).tolist():
            first, size = int(self._firsts[place]), int(self._sizes[place])
            scores = self._rng.random((len(vectors), size)) + held @ self._pairs[:, first : first + size]
            scores[:, 0] += _OF_DEAR * self._axes[place].is_dear
            vectors[:, place] = np.where(is_set[:, place], vectors[:, place], scores.argmax(axis=1))
            held[rows, first + vectors[:, place]] = 1.0

    def _one_hot(self, vectors: _Vector) -> NDArray[np.float32]:
        """Returns 1 for each value that a way has, [ways, values]."""
        found = np.zeros((len(vectors), len(self._values)), dtype=np.float32)
        np.put_along_axis(found, vectors + self._firsts, 1.0, axis=1)
        return found

    def _in_core(self, vectors: _Vector) -> _Vector:
        """Returns the numbers of each way's values of core axes among the values of these, [ways, core axes]."""
        found: _Vector = (vectors + self._place_in_core)[:, self._core]
        return found

    def _gains(self, vectors: _Vector) -> NDArray[np.float64]:
        """Returns the weight of the meetings that each way is the first to hold, [ways]."""
        held, core = self._one_hot(vectors), self._in_core(vectors)
        of_pairs = (held @ (self._pairs > 0) * held).sum(axis=1) / 2
        of_triples = self._triples[core[:, :, None, None], core[:, None, :, None], core[:, None, None, :]]
        found: NDArray[np.float64] = _PAIR * of_pairs.astype(np.float64) + of_triples.sum(axis=(1, 2, 3))
        return found

    def _meet(self, vector: _Vector) -> None:
        numbers, (core,) = vector + self._firsts, self._in_core(vector[None])
        self._pairs[np.ix_(numbers, numbers)] = 0.0
        self._triples[np.ix_(core, core, core)] = False
        self._combined.setdefault(self._combination(vector), vector[self._compiled])

    @property
    def _is_spent(self) -> bool:
        return self._compilations is not None and len(self._combined) >= self._compilations

    def _combination(self, vector: _Vector) -> bytes:
        found: bytes = vector[self._compiled].tobytes()
        return found

    def _way(self, vector: _Vector) -> Way:
        return Way(
            tuple((a.name, a.values[value]) for a, value in zip(self._axes, vector.tolist(), strict=True) if value)
        )
