"""Circumstances of a call that conditions in a variant's source name, tried where they lead to other paths.

A wrapper that asks for strides, alignment, a gradient or a mode may take a path that no packed input in an ordinary call
takes. Exploration tells for which shapes that is so, and these are judged in the circumstance. Conditions on values meet
calls whose rows are all of one kind, and conditions on what a module keeps meet many calls in a row.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations, takewhile
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Format, Values, encode
from softcheck.calling.call import place
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.telling import telling_batch
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.errors import UninterpretableError
from softcheck.probes.base import Setting, Subject
from softcheck.probes.judged import Calls
from softcheck.probes.layouts import strided_layouts
from softcheck.probes.modes import COMPILED, asks_for_gradient, in_mode, modes, together, with_gradient
from softcheck.probes.outcome import Outcome
from softcheck.probes.regime_plans import TrialLimits
from softcheck.probes.shape_plan import Shape, Space, interleaved
from softcheck.probes.shape_predicate import describe_shapes
from softcheck.probes.sweep import merged
from softcheck.variants.exploration import explore
from softcheck.variants.signatures import CallPath
from softcheck.variants.source import Source

_STRIDED = ("transposed", "row-step", "every-second-column", "expanded-rows", "column-slice", "transposed-slice")
_ROWS, _COLUMNS = (1, 2, 3, 17, 33, 65, 129), (1, 2, 8, 17, 40, 129, 257, 1025)
_SECONDS, _LEAST_SHARE = 0.3, 0.5
"""Seconds of a processor for the exploration of one circumstance: a wrapper that launches takes 0.08 for the whole grid."""
_PER_PATH = 6
_COMPILED_ROWS = 12
"""Rows of compiled calls, of which the first may be the only one: some of them have targets that are ignored."""
_WIDTH = 129
"""Columns of rows that are all of one kind."""
_CALLS_IN_A_ROW, _MOST_IN_A_ROW = 12, 300


@dataclass(frozen=True, slots=True)
class _Variation:
    """A layout or a mode of a call, as a caller would write it."""

    words: str
    layout: Callable[[Shape], Layout] = lambda _: PACKED
    mode: str = ""

    def called(self, function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
        called = in_mode(function, self.mode)
        if asks_for_gradient(self.mode):
            return lambda x: _detached(called(with_gradient(x.detach(), self.mode)))
        return called


@dataclass(frozen=True, slots=True)
class _Planned:
    """A call to judge."""

    way: _Variation
    words: str
    """The way, and the shapes that take the path."""
    bits: Callable[[], Bits]
    """Makes the input: telling rows take time."""
    path: CallPath | None = None
    """The path that exploration found for the call."""


def try_circumstances(
    subject: Subject, source: Source, space: Space, limits: TrialLimits, rng: np.random.Generator
) -> Outcome:
    """Judges calls in each circumstance that a condition in the source names, until the time is over."""
    named = source.circumstances
    ways = list(_ways(named, subject.setting))
    explored = partial(_explored, subject, source, space, limits.most_batch)
    ordinary = {path.key for path in explored(_Variation("")).values()} if ways else set()
    plans = [list(_on_paths(subject, source, space, rng, way, explored(way), ordinary)) for way in ways]
    fmt = subject.setting.fmt
    if "values" in named and subject.setting.takes(_WIDTH):
        plans.append(
            [
                _Planned(_Variation(words), words, partial(encode, rows, fmt))
                for words, rows in _of_one_kind(source, fmt, rng)
            ]
        )
    compiling: list[_Planned] = []
    if "compiling" in named and subject.setting.takes(_WIDTH):
        compiled = _Variation(COMPILED, mode=COMPILED)
        ordinary_rows = ("ordinary rows", rng.standard_normal((_COMPILED_ROWS, _WIDTH)))
        # Of one shape, since another one is compiled for anew.
        others = ((words, np.resize(rows, ordinary_rows[1].shape)) for words, rows in _of_one_kind(Source(), fmt, rng))
        kinds = chain([ordinary_rows], others)
        compiling = [_Planned(compiled, f"{COMPILED}, {words}", partial(encode, rows, fmt)) for words, rows in kinds]
    calls = [number for number in source.sizes if number <= _MOST_IN_A_ROW]
    if "history" in named:
        count = max(calls, default=_CALLS_IN_A_ROW) + 2
        often = _Variation(f"{count} calls in a row")
        shape = 2, min(17, space.most_columns)
        drawn = (2.0 * rng.standard_normal(shape) for _ in range(count))
        plans.append([_Planned(often, often.words, partial(encode, rows, fmt)) for rows in drawn])
    # The first compiled call compiles for all, which takes longer than any other call.
    in_time = partial(_in_time, subject.setting.now, limits.seconds)
    return _judged(subject, chain(in_time(interleaved_by_way(plans)), compiling[:1], in_time(compiling[1:])))


def _in_time(now: Callable[[], float], seconds: float, planned: Iterable[_Planned]) -> Iterator[_Planned]:
    """Yields calls until these seconds have passed since the first was asked for."""
    end = now() + seconds
    yield from takewhile(lambda _: now() < end, planned)


def interleaved_by_way(plans: Sequence[Sequence[_Planned]]) -> Iterator[_Planned]:
    """Yields the calls of all ways in turn."""
    places = [[(way, place) for place in range(len(plan))] for way, plan in enumerate(plans)]
    return (plans[way][place] for way, place in interleaved(places))


def _ways(named: frozenset[str], setting: Setting) -> Iterator[_Variation]:
    strided = [_Variation(name, partial(_strided, name)) for name in _STRIDED]
    if "strides" in named and "strided" in setting.declaration.layouts:
        yield from strided
    if named & {"strides", "alignment"}:
        for offset in (1, max(1, 8 // setting.fmt.itemsize)):
            yield _Variation(f"offset {offset}", lambda _, offset=offset: Layout(offset=offset))  # type: ignore[misc]
    if "alignment" in named and "strided" in setting.declaration.layouts:
        yield _Variation("padded-by-1", partial(_strided, "padded-by-1"))
    asked = {
        "gradient": ("grad", "inference"),
        "parameter": ("Parameter",),
        "autocast": ("autocast",),
        "defaults": ("set_default",),
        "determinism": ("deterministic",),
    }
    marks = tuple(chain.from_iterable(words for name, words in asked.items() if name in named))
    known = modes(on_gpu=setting.on_gpu, dtype=setting.dtype, has_heads=setting.has_heads)
    asked_for = [mode for mode in chain.from_iterable(known) if any(mark in mode for mark in marks)]
    both = (together(*pair) for pair in combinations(asked_for, 2))
    for mode in dict.fromkeys((*asked_for, *both)):
        yield _Variation(mode, mode=mode)


def _strided(name: str, shape: Shape) -> Layout:
    return strided_layouts(shape.rows, shape.columns)[name]


def _explored(subject: Subject, source: Source, space: Space, most: int, way: _Variation) -> dict[Shape, CallPath]:
    """Maps shapes of up to ``most`` elements to the paths of calls on them."""
    around = {n + d for n in space.boundaries for d in (0, 1)}
    setting = subject.setting

    def make(shape: tuple[int, int], _dtype: torch.dtype) -> torch.Tensor:
        zeros = np.zeros(shape, dtype=setting.fmt.storage)
        return place(zeros, setting.fmt, way.layout(Shape(*shape)), torch.device("cpu")).view

    found = explore(
        way.called(subject.variant.function),
        source,
        setting.dtype,
        subject.device,
        rows=sorted({*_ROWS, *around}),
        columns=sorted({n for n in (*_COLUMNS, *around) if n <= space.most_columns}),
        make=make,
        most_elements=most,
        seconds=_SECONDS * max(_LEAST_SHARE, setting.time_share) * setting.slowness,
    )
    return {Shape(*shape): path for shape, path in found.items()}


def _on_paths(
    subject: Subject,
    source: Source,
    space: Space,
    rng: np.random.Generator,
    way: _Variation,
    found: Mapping[Shape, CallPath],
    ordinary: Collection[Any],
) -> Iterator[_Planned]:
    """Calls at the smallest shape, the widest and others of each path that no packed input in an ordinary call takes."""
    alike: dict[Any, list[Shape]] = defaultdict(list)
    for shape, path in found.items():
        if path.key not in ordinary:
            alike[path.key].append(shape)
    for shapes in alike.values():
        words = f"{way.words}, {describe_shapes(set(found), set(shapes))}"
        shapes.sort(key=lambda shape: (shape.elements, shape))
        some = [shapes[i] for i in rng.integers(0, len(shapes), _PER_PATH)]
        for shape in dict.fromkeys([shapes[0], max(shapes, key=lambda s: s.columns), max(shapes), *some]):
            if space.fits(shape):
                yield _Planned(
                    way, words, partial(_rows_of, shape, source, subject.setting.fmt, rng, way), found[shape]
                )


def _rows_of(shape: Shape, source: Source, fmt: Format, rng: np.random.Generator, way: _Variation) -> Bits:
    rows, columns = shape
    values = [n for n in source.numbers if n]
    batch = telling_batch(columns, max(1, columns // 4), fmt, rng, values=values, most=rows)
    bits = np.take(batch, range(rows), axis=0, mode="wrap")
    if way.words == "expanded-rows":
        bits[:] = bits[0]
    return np.ascontiguousarray(bits)


def _of_one_kind(source: Source, fmt: Format, rng: np.random.Generator) -> Iterator[tuple[str, Values]]:
    """Inputs on which a condition on a whole tensor's values comes out alike: all rows are of one kind."""
    noise = rng.standard_normal((3, _WIDTH))
    low = -np.abs(noise)

    def marked(value: float) -> Any:
        rows = noise.copy()
        rows[:, _WIDTH // 2] = value
        return rows

    kinds = {
        "no special values": noise,
        "a +inf in each row": marked(np.inf),
        "a NaN in each row": marked(np.nan),
        "a -inf in each row": marked(-np.inf),
        "fully masked rows": np.full((3, _WIDTH), -np.inf),
        "zeros": np.zeros((3, _WIDTH)),
        "equal rows": np.repeat(noise[:1], 3, axis=0),
        "rows of one value": np.repeat(noise[:, :1], _WIDTH, axis=1),
        "sorted rows": np.sort(noise, axis=1),
        "positive logits": np.abs(noise),
        "negative logits": low,
        "tiny logits": noise * 2.0**-20,
        "huge logits": noise * (fmt.max / 8.0),
    }
    for value in (v for number in source.numbers for v in (number, -number) if 0 < abs(number) < fmt.max):
        step = max(abs(value) * 2.0 ** (2 - fmt.precision), fmt.least_subnormal)
        for name, peak in (("above", value + step), ("below", value - step), ("at", value)):
            kinds[f"largest logits {name} {value:g}"] = marked(peak) + np.where(
                np.arange(_WIDTH) == _WIDTH // 2, 0.0, peak - 5.0
            )
    for words, rows in kinds.items():
        rows[:, _WIDTH // 2] = np.where(
            np.isfinite(rows[:, _WIDTH // 2]), np.clip(rows[:, _WIDTH // 2], -fmt.max, fmt.max), rows[:, _WIDTH // 2]
        )
        yield words, rows


def _judged(subject: Subject, planned: Iterator[_Planned]) -> Outcome:
    tried: dict[str, list[Shape]] = defaultdict(list)
    failing: dict[tuple[str, FindingKind], list[Shape]] = defaultdict(list)
    first: dict[tuple[str, FindingKind], Violation] = {}
    fatal, skipped = False, None
    taken: set[CallPath] = set()
    for each in planned:
        bits = each.bits()
        words, shape = each.words, Shape(*bits.shape)
        calls = Calls(subject, each.way.called(subject.variant.function))
        try:
            calls.make(bits, 0, each.way.layout(shape))
        except UninterpretableError as error:
            skipped = str(error)
            continue
        [(_, found)] = calls.settle()
        tried[words].append(shape)
        taken |= {each.path} if each.path is not None else set()
        for violation in found.violations:
            if violation.kind in WRONG_KINDS:
                key = words, violation.kind
                first[key] = merged(first.get(key), violation, first=False)
                failing[key].append(shape)
        fatal = found.fatal
        if fatal:
            break
    return Outcome(
        violations=tuple(
            msgspec.structs.replace(
                violation,
                message=f"with {words} ({len(failing[words, kind])} of {len(tried[words])} calls); at rows = "
                f"{failing[words, kind][0].rows}, columns = {failing[words, kind][0].columns}: {violation.message}",
            )
            for (words, kind), violation in first.items()
        ),
        lines=tuple(sorted(set().union(*(path.lines for path in taken)))),
        arcs=tuple(sorted(set().union(*(path.arcs for path in taken)))),
        fatal=fatal,
        skipped=skipped,
    )


def _detached(output: Any) -> Any:
    return output.detach() if isinstance(output, torch.Tensor) else output
