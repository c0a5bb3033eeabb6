"""Plans of ways in which every two values meet, and every three values of the core axes. Imports no torch.

A plan is a mixed covering array (Bryce and Colbourn, 2007): each way is the best of some that are drawn, by the meetings that it
is the first to hold. Generators of covering arrays know no costs, no budget and no values that fail together, which are known only
as calls are made.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from softcheck.probes.space.way import VALUES, Way, WayAxis

_DRAWN = 32
"""Ways that are drawn for one of a plan: half as many make it longer by a tenth."""
_PAIR, _OF_PAIRS = 8, 0.75
"""Weight of two values that meet, against that of three, and share of the ways that are drawn around two."""
_TRIES = 40
"""Draws in a row without a new meeting after which a plan ends: what is left are meetings that are excluded."""

_NAMED = 3
"""Axes that are named of meetings that a plan leaves out."""

Excluded = Callable[[Way], bool]
"""True for a way that can't be called."""

_Vector = NDArray[np.int64]


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
        self._sizes = np.array([len(axis.values) for axis in axes])
        core = [place for place, axis in enumerate(axes) if axis.is_core]
        self._groups: list[tuple[int, ...]] = [*combinations(range(len(axes)), min(2, len(axes)))]
        self._groups += combinations(core, 3) if triples else ()
        counts = [int(np.prod(self._sizes[list(group)])) for group in self._groups]
        self._firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._is_new = np.ones(int(self._firsts[-1]), dtype=np.bool_)
        self._weights = np.array([_PAIR if len(group) < 3 else 1 for group in self._groups])
        self._pairs = int(sum(count for count, group in zip(counts, self._groups, strict=True) if len(group) < 3))
        self._needed = self._companions()
        self._can_meet = np.array([not excluded(self._way(self._holding(n))) for n in range(self._pairs)], np.bool_)

    def _companions(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Returns another axis' value for each value that can't stand alone, as what lays a mask out needs a mask."""
        values = [(place, value) for place, size in enumerate(self._sizes.tolist()) for value in range(1, size)]

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

    def left_out(self) -> str | None:
        """Says which meetings no way holds, the axes of most of them first; None if every one that can be called is held."""
        missing = []
        for number in np.flatnonzero(self._is_new).tolist():
            if not self._excluded(self._way(self._holding(number))):
                group = self._group(number)
                missing.append([self._axes[place].name for place in group])
        if not missing:
            return None
        by_axis, by_size = Counter(name for names in missing for name in names), Counter(map(len, missing))
        counts = " and ".join(
            f"{count:,} {'pairs' if size == 2 else 'triples'}" for size, count in sorted(by_size.items())
        )
        named = ", ".join(f"{name} ({count:,})" for name, count in by_axis.most_common(_NAMED))
        return f"{counts} of values are left out, most of {named}"

    def _holding(self, meeting: int) -> _Vector:
        """Returns the way of one meeting, with all other values as usual."""
        vector = np.zeros(len(self._axes), dtype=np.int64)
        self._put(meeting, vector)
        return vector

    def _group(self, meeting: int) -> tuple[int, ...]:
        """Returns the places of a meeting's axes."""
        return self._groups[int(np.searchsorted(self._firsts, meeting, side="right")) - 1]

    def _put(self, meeting: int, vector: _Vector) -> tuple[int, ...]:
        """Writes the values of one meeting, and what these need beside them, into a way; returns the places of their axes."""
        number = int(np.searchsorted(self._firsts, meeting, side="right")) - 1
        left, places = meeting - int(self._firsts[number]), [*self._groups[number]]
        for place in reversed(places):
            left, vector[place] = divmod(left, int(self._sizes[place]))
        for place in self._groups[number]:
            other, value = self._needed.get((place, int(vector[place])), (place, 0))
            if other not in places:
                vector[other] = value
                places.append(other)
        return (*places,)

    def ways(self, count: int, most: int | None = None) -> list[Way]:
        """Returns so many ways, those with most new meetings first, and up to ``most`` while two values have not met.

        The plain way is the first.
        """
        found = [Way()]
        self._meet(np.zeros(len(self._axes), dtype=np.int64))
        misses = 0
        while misses < _TRIES and self._is_new.any():
            has_pairs = bool((self._is_new[: self._pairs] & self._can_meet).any())
            if len(found) >= ((most or count) if has_pairs else count):
                break
            drawn = self._drawn()
            ids = self._ids(drawn)
            gains = (self._is_new[ids] * self._weights).sum(axis=1)
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

    def _drawn(self) -> _Vector:
        """Draws ways, each of which holds a meeting that is new."""
        found: _Vector = (self._rng.random((_DRAWN, len(self._axes))) * self._sizes).astype(np.int64)
        # Two values meet before three do: most faults need no more.
        pairs = np.flatnonzero(self._is_new[: self._pairs] & self._can_meet)
        new = pairs if pairs.size and self._rng.random() < _OF_PAIRS else np.flatnonzero(self._is_new)
        sought = [
            self._put(meeting, vector)
            for meeting, vector in zip(self._rng.choice(new, _DRAWN).tolist(), found, strict=True)
        ]
        if self._is_spent:
            combined = np.array(list(self._combined.values()))
            found[:, self._compiled] = combined[self._rng.integers(len(combined), size=_DRAWN)]
        is_set = np.tile(self._compiled & self._is_spent, (_DRAWN, 1))
        for row, group in zip(is_set, sought, strict=True):
            row[[*group]] = True
        if pairs.size:
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

    def _fill(self, vectors: _Vector, is_set: NDArray[np.bool_]) -> None:
        """Gives the axes that are not set, one after the other, the values that meet most of those set for the first time.

        So does AETG (Cohen, Dalal, Fredman and Patton, 1997). Ties are broken by chance.
        """
        is_wanted = self._is_new[: self._pairs] & self._can_meet
        places, tables = range(len(self._axes)), dict[tuple[int, ...], NDArray[np.bool_]]()
        for group, first in zip(self._groups, self._firsts.tolist(), strict=False):
            shape = self._sizes[list(group)]
            if len(group) == 2 and (table := is_wanted[first : first + shape.prod()].reshape(shape)).any():
                tables |= {group: table, group[::-1]: table.T}
        for place in self._rng.permutation(len(places)).tolist():
            scores = self._rng.random((len(vectors), int(self._sizes[place])))
            for other in (each for each in places if (place, each) in tables):
                scores += tables[place, other][:, vectors[:, other]].T * is_set[:, other, None]
            vectors[:, place] = np.where(is_set[:, place], vectors[:, place], scores.argmax(axis=1))
            is_set[:, place] = True

    def _ids(self, vectors: _Vector) -> _Vector:
        """Returns the numbers of each way's meetings, [ways, groups]."""
        ids = np.empty((len(vectors), len(self._groups)), dtype=np.int64)
        for number, group in enumerate(self._groups):
            found = np.zeros(len(vectors), dtype=np.int64)
            for place in group:
                found = found * self._sizes[place] + vectors[:, place]
            ids[:, number] = found + self._firsts[number]
        return ids

    def _meet(self, vector: _Vector) -> None:
        self._is_new[self._ids(vector[None])[0]] = False
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
