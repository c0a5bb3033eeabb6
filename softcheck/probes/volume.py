"""Rare values in adversarial rows, and fresh random rows of every family at widths drawn at random, as many as time allows.

On a GPU the random rows hold up to 10^10 elements. Widths and rows come from the trial's seed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Format
from softcheck.cases import rare_values
from softcheck.cases.random_rows import FILLERS, ORDINARY, mixed
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.outcome import Outcome
from softcheck.probes.sampling import ON_CPU, ON_GPU, Batch, SampleLimits, sample

_WIDTHS = 16
_WIDEST = {True: 1 << 17, False: 1 << 10}
"""Columns of the widest rows on a GPU, and without one, where most of a call's time goes by rows."""
_DENSE_TO = 1100
"""Columns up to which the probe of sizes has tried every width."""
_UNUSUAL = 3
"""Wider rows of which the number of columns is any, not next to a power of two: kernels may be compiled for each."""
_USUAL = range(256, (1 << 15) + 2)
"""Columns of rows that are drawn in every turn: of narrower ones the judge reads fewer elements a second, and in wider ones
a single element in doubt has the whole row judged on the host. They are drawn in one turn out of four."""
_ROUNDS = 1 << 16
_TALL = ((1 << 24) + 1025, 3)
"""Rows and columns of a batch with more rows than float32 has consecutive whole numbers."""

_DOUBTFUL = ("subnormal-logits", "format-specials")
"""Families whose answers often lie so close to a power of two that only Arb can tell their ULPs."""
_FEW = 8
"""Rows of a batch for each family, where doubtful ones take part."""
_NO_DOUBT = 256
"""Columns beyond which doubtful families are left out, since Arb takes its time for every element."""
_BEYOND_FLOAT32 = ("huge", "shifted", "finfo-min", *_DOUBTFUL, "random-bits", "subnormal-results")
"""Families that are drawn as float32 or as its patterns, and have no float64 rows."""

_RARE_COLUMNS = (33, 129, 1025)
_PACKED = 64
"""Columns of rows that show many patterns each, where a row costs a program under the interpreter."""


class _Volume(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        return [
            Trial("rare-values", _rare_alone if setting.on_gpu else _rare_packed),
            Trial("random-rows", _random_batches),
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting = subject.setting
        batches: Callable[[Setting, torch.device, int], Iterator[Batch]] = trial.parameters
        # The numpy judge alone judges float64.
        limits = ON_GPU if setting.on_gpu and setting.fmt.width < 64 else ON_CPU
        heavier = setting.operation.per_logit(_WIDEST[True]) if setting.on_gpu else 1
        limits = replace(
            limits,
            seconds=limits.seconds * setting.time_share,
            most_rows=setting.fewer(limits.most_rows, 1) if setting.has_heads else limits.most_rows,
            elements=limits.elements // heavier,
            most_elements=limits.most_elements // heavier,
        )
        return sample(
            subject, batches(setting, subject.device, setting.seed), _quick(limits) if setting.quick else limits
        )


PROBE = _Volume()


def _quick(limits: SampleLimits) -> SampleLimits:
    return replace(limits, target=limits.target // 100, seconds=limits.seconds / 10, patience=limits.patience / 10)


def widths(setting: Setting, seed: int) -> list[int]:
    """Numbers of columns, log-uniform from 1 to the widest, as far as the declaration takes them.

    Above 1100 most are next to a power of two, as in the probe of sizes, so that few kernels are compiled for this
    probe alone.
    """
    promised = (setting.declaration.column_limit(setting.dtype), setting.widest)
    widest = min([_WIDEST[setting.on_gpu], *(limit for limit in promised if limit is not None)])
    drawn = np.random.default_rng([seed, 1])
    found = []
    unusual = 0
    for exponent in drawn.permutation(_WIDTHS) / (_WIDTHS - 1):
        columns = round(math.exp2(exponent * math.log2(widest)) * drawn.uniform(0.9, 1.1))
        if columns > _DENSE_TO:
            unusual += 1
            if unusual > _UNUSUAL:
                columns = 2 ** round(math.log2(columns)) + int(drawn.integers(-1, 2))
        found.append(min(max(1, columns), widest))
    return list(dict.fromkeys(found))


def _random_batches(setting: Setting, device: torch.device, seed: int) -> Iterator[Batch]:
    fmt = setting.fmt
    every = [name for name in (*ORDINARY, "special") if name in setting.operation.families]
    if fmt.width == 64:
        every = [name for name in every if name not in _BEYOND_FLOAT32]
    chosen = widths(setting, seed)
    usual = [columns for columns in chosen if columns in _USUAL] or chosen
    for turn in range(_ROUNDS):
        for columns in usual if turn % 4 else chosen:
            yield _random_batch(columns, fmt, device, [seed, turn, columns], every)
        if turn % 4 == 0 and setting.on_gpu and fmt.width < 64 and not setting.has_heads:
            columns = min(_TALL[1], max(chosen))
            yield replace(_random_batch(columns, fmt, device, [seed, turn], every), exactly=_TALL[0])


def _random_batch(
    columns: int, fmt: Format, device: torch.device, entropy: list[int], families: Sequence[str]
) -> Batch:
    seed = int(np.random.default_rng(entropy).integers(2**62))
    return Batch(columns, _drawing(columns, fmt, device, seed, families), f"random rows of seed {seed}")


def _drawing(
    columns: int, fmt: Format, device: torch.device, seed: int, families: Sequence[str]
) -> Callable[[int], torch.Tensor]:
    def draw(rows: int) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(seed)
        known = {name: FILLERS[name] for name in families if name in FILLERS}
        sure = [filler for name, filler in known.items() if name not in _DOUBTFUL]
        few = min(rows, _FEW * len(families)) if columns <= _NO_DOUBT else 0
        parts = [mixed(few, columns, fmt, generator, list(known.values()))] if few else []
        if rows > few:
            parts.append(mixed(rows - few, columns, fmt, generator, sure))
        # Rows of all families lie side by side, since a program may take several.
        return torch.cat(parts)[torch.randperm(rows, generator=generator, device=device)]

    return draw


def _rare_alone(setting: Setting, device: torch.device, seed: int) -> Iterator[Batch]:
    """Each pattern alone in a row: in the first, a middle and the last column, and on both sides of a tile's edge."""
    ordered = rare_values.patterns(setting.fmt, seed)
    taken = [columns for columns in _RARE_COLUMNS if setting.takes(columns)] or [1]
    for columns in taken:
        edge = 1 << max(0, (columns - 1).bit_length() - 1)
        places = sorted({0, columns // 2, max(0, edge - 1), min(edge, columns - 1), columns - 1})
        shown = np.zeros(len(places) * len(ordered), dtype=np.int64)
        shown[: len(ordered) if columns == taken[0] else 0] = 1
        yield from _RareRows(
            columns, np.tile(ordered, len(places))[:, None], np.repeat(places, len(ordered))[:, None], shown, seed
        ).batches(setting.fmt, device)


def _rare_packed(setting: Setting, device: torch.device, seed: int) -> Iterator[Batch]:
    """Patterns of similar value side by side in half of a row's columns.

    First come the rows with values that programs name, then the rows that show most patterns.
    """
    columns = min(_PACKED, setting.declaration.column_limit(setting.dtype) or _PACKED)
    most = max(1, columns // 2)
    ordered = rare_values.patterns(setting.fmt, seed)
    found = rare_values.groups(ordered, setting.fmt, most)
    drawn = np.random.default_rng([seed, 2])
    telling = rare_values.telling(setting.fmt)
    order = sorted(
        drawn.permutation(len(found)),
        key=lambda group: (telling.isdisjoint(found[group].tolist()), len(found[group]) < most // 4),
    )
    chosen = np.stack([np.resize(found[group], most) for group in order])
    places = drawn.permuted(np.broadcast_to(np.arange(columns), (len(chosen), columns)), axis=1)[:, :most]
    shown = np.array([len(found[group]) for group in order])
    yield from _RareRows(columns, chosen, places, shown, seed).batches(setting.fmt, device)


class _RareRows:
    """Rows that show given patterns at given places, each once among logits near the first and once among others."""

    def __init__(
        self,
        columns: int,
        chosen: NDArray[np.int64],
        places: NDArray[np.int64],
        shown: NDArray[np.int64],
        seed: int,
    ) -> None:
        self._columns, self._chosen, self._places, self._shown, self._seed = columns, chosen, places, shown, seed
        self._drawn = 0

    def batches(self, fmt: Format, device: torch.device) -> Iterator[Batch]:
        """Yields all rows, in batches as large as are asked for, until a batch is passed over."""
        for near in (True, False):
            first = 0
            while first < len(self._chosen):
                self._drawn = 0
                draw = self._drawing(first, fmt, device, near=near)
                words = f"rare values beside {'others like them' if near else 'small ones'}, from row {first} on"
                yield Batch(self._columns, draw, words, self._shown[first:] if near else None)
                if not self._drawn:
                    return
                first += self._drawn

    def _drawing(self, first: int, fmt: Format, device: torch.device, *, near: bool) -> Callable[[int], torch.Tensor]:
        def draw(rows: int) -> torch.Tensor:
            own = slice(first, first + rows)
            chosen, places = (torch.from_numpy(part[own]).to(device) for part in (self._chosen, self._places))
            self._drawn = len(chosen)
            generator = torch.Generator(device).manual_seed((self._seed + first) % 2**62)
            return rare_values.rows_with(chosen, places, self._columns, fmt, generator, near=near)

        return draw
