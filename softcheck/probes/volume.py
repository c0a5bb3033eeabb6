"""Rare values in adversarial rows, and fresh random rows of every family at widths drawn at random, as many as a budget allows.

Batches of rows are called one after the other, and all their elements judged where they lie. Widths and rows come from the trial's
seed. The budget counts calls, elements and interpreted programs, and on a GPU it is some 10^9 elements.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from oracles.formats import Format
from softcheck.calling import launches
from softcheck.calling.call import Placed, Returned, to_bits
from softcheck.cases import rare_values
from softcheck.cases.bit_rows import format_rows
from softcheck.cases.random_rows import FILLERS, ORDINARY, mixed
from softcheck.contract import FindingKind, Violation
from softcheck.errors import TooManyRowsError
from softcheck.judge.by_contract import judge_in_place
from softcheck.judge.measurement import Measurement
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import call_placed, free_bytes
from softcheck.probes.outcome import Outcome, RandomRows
from softcheck.probes.registry import Effort
from softcheck.probes.walk import merged

WIDEST_WITNESS = 1 << 13
"""Columns beyond which a row's bits are too long to hand on."""
_BYTES_PER_ELEMENT = 64
"""Bytes that an element may take at once: input, its copy, output, and numbers of the families that are drawn."""

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
_DOUBTFUL = ("subnormal-logits", "format-specials")
"""Families whose answers often lie so close to a power of two that only Arb can tell their ULPs."""
_FEW = 8
"""Rows of a batch for each family, where doubtful ones take part."""
_NO_DOUBT = 256
"""Columns beyond which doubtful families are left out, since Arb takes its time for every element."""
_WITHOUT_FLOAT64 = (*_DOUBTFUL, "random-bits")
"""Families that are drawn as patterns of up to 32 bits, or that take Arb for each element."""

_RARE_COLUMNS = (33, 129, 1025)
_PACKED = 64
"""Columns of rows that show many patterns each, where a row costs a program under the interpreter."""


class BatchLimits(NamedTuple):
    """Sizes of batches, and what all of them may cost: one for a call and for an interpreted program, and what elements add."""

    rows: int
    elements: int
    budget: float
    elements_per_cost: int


ON_GPU = BatchLimits(1 << 22, 1 << 27, 2048, 1 << 19)
ON_CPU = BatchLimits(1 << 16, 1 << 20, 330, 1 << 13)
_BATCHES = 24
"""Batches of full size for which the budget suffices, so that each width has some."""
_BY_EFFORT: dict[Effort, float] = {"quick": 0.1, "normal": 1.0, "thorough": 4.0}


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one width that can be drawn again from what ``name`` says."""

    columns: int
    draw: Callable[[int], torch.Tensor]
    """Gives at most so many rows, [rows, columns], of the format's dtype, on the variant's device."""
    name: str
    shown: NDArray[np.int64] | None = None
    """Number of bit patterns that each row is the first to show; None if rows are not made for that."""


Batches = Callable[[Setting, torch.device, int], Iterator[Batch]]
"""Makes batches from a seed."""


def _plan(setting: Setting) -> list[tuple[str, Batches]]:
    return [("rare-values", _rare_alone if setting.on_gpu else _rare_packed), ("random-rows", _random_batches)]


def _judged(subject: Subject, batches: Batches) -> Iterator[Outcome]:
    """Judges one batch after the other until the budget or the batches end. Raises UninterpretableError."""
    sample = _Sample(subject)
    for batch in batches(subject.setting, subject.device, subject.setting.seed):
        if not sample.takes(batch):
            break
    yield sample.outcome()


PROBE = TrialTable(_plan, _judged)


class _Sample:
    """The rows judged so far, what was broken, and what is left of the budget."""

    def __init__(self, subject: Subject) -> None:
        setting = subject.setting
        self._subject, self._fmt = subject, setting.fmt
        # The numpy judge alone judges float64.
        limits = ON_GPU if setting.on_gpu and setting.fmt.width < 64 else ON_CPU
        heavier = setting.operation.per_logit(_WIDEST[setting.on_gpu])
        self._left = limits.budget * setting.time_share * _BY_EFFORT[setting.effort]
        self._largest = self._left / _BATCHES
        # Not all of what a head takes more of is as dear as a logit.
        dearer = heavier / 4 if setting.on_gpu else heavier
        self._elements_per_cost = limits.elements_per_cost / max(1.0, dearer)
        self._most_rows = setting.fewer(limits.rows, 1) if setting.has_heads else limits.rows
        self._most_elements = limits.elements // heavier
        if subject.device.type == "cuda":
            self._most_elements = min(self._most_elements, free_bytes(subject.device) // _BYTES_PER_ELEMENT)
        self._per_row = 0.0 if setting.on_gpu else 1.0
        """Programs that an interpreted call has for each row: of the last batch."""
        self._sampled = RandomRows()
        self._fatal = False
        self._violations: dict[FindingKind, Violation] = {}
        self._witnesses: dict[FindingKind, str] = {}

    def takes(self, batch: Batch) -> bool:
        """Judges as many of a batch's rows as there is room for; False if no other batch is to follow."""
        while True:
            rows = self._room(batch.columns)
            cost = self._cost(rows, batch.columns, self._per_row * rows)
            if cost > self._left:
                return False
            programs = launches.programs()
            try:
                has_answer = self._add(batch, batch.draw(rows))
            except (torch.OutOfMemoryError, TooManyRowsError) as error:
                if isinstance(error, TooManyRowsError):
                    self._most_rows = rows // 2
                elif rows > 1:
                    self._most_elements = rows * batch.columns // 2
                else:
                    raise
                continue
            programs = launches.programs() - programs
            self._left -= self._cost(rows, batch.columns, programs)
            self._per_row = programs / rows
            return has_answer

    def _room(self, columns: int) -> int:
        """Returns the most rows that a batch may have."""
        affordable = min(self._largest, self._left - 1) / (self._per_row + columns / self._elements_per_cost)
        return max(1, min(self._most_rows, self._most_elements // columns, int(affordable)))

    def _cost(self, rows: int, columns: int, programs: float) -> float:
        return self._subject.setting.cost_of_call + programs + rows * columns / self._elements_per_cost

    def _add(self, batch: Batch, x: torch.Tensor) -> bool:
        """Calls the variant and judges its output; False if it has none. Raises torch.OutOfMemoryError if the device has too little room."""
        returned = self._call(x)
        self._fatal = returned.fatal
        self._keep(returned.violations, batch, x, None)
        if returned.output is None:
            return False
        self._keep(self._judged(x, returned).violations, batch, x, returned.output)
        rows, columns = x.shape
        shown = 0 if batch.shown is None else int(batch.shown[:rows].sum())
        self._sampled = self._sampled.plus(
            RandomRows(elements=rows * columns, rows=rows, widths=(columns,), patterns=shown)
        )
        return not returned.fatal

    def outcome(self) -> Outcome:
        """Each kind of violation as the first batch that breaks it shows it, with a row that breaks it alone if there is one."""
        return Outcome(
            violations=tuple(self._violations.values()),
            fatal=self._fatal,
            sampled=self._sampled,
            witnesses=self._witnesses,
        )

    def _call(self, x: torch.Tensor) -> Returned:
        return call_placed(self._subject, Placed(x, x.view(-1), self._fmt))

    def _judged(self, x: torch.Tensor, returned: Returned) -> Measurement:
        assert returned.output is not None
        variant, of_library = self._subject.variant, returned.of_cpu_library
        return judge_in_place(variant, x, returned.output, self._fmt, of_cpu_library=of_library)

    def _keep(self, found: tuple[Violation, ...], batch: Batch, x: torch.Tensor, output: torch.Tensor | None) -> None:
        for violation in found:
            known = self._violations.get(violation.kind)
            if known is not None:
                self._violations[violation.kind] = merged(known, violation, first=False)
                continue
            shape = f"{x.shape[0]}\N{MULTIPLICATION SIGN}{x.shape[1]}"
            words = f"{shape}, {batch.name}: {violation.message}"
            if output is not None and violation.row is not None:
                words = f"{words}; {self._alone(violation.kind, x[violation.row : violation.row + 1])}"
            self._violations[violation.kind] = msgspec.structs.replace(violation, message=words)

    def _alone(self, kind: FindingKind, row: torch.Tensor) -> str:
        """Calls the variant on one row by itself, and keeps the row's bits if it breaks the promise there too."""
        row = row.clone()
        returned = self._call(row)
        if returned.output is None or not any(v.kind is kind for v in self._judged(row, returned).violations):
            return "the row by itself is right"
        if row.shape[1] <= WIDEST_WITNESS:
            self._witnesses[kind] = format_rows(to_bits(row, self._fmt), self._fmt)[0]
        return "the row by itself is wrong too"


def widths(setting: Setting, seed: int) -> list[int]:
    """Numbers of columns, log-uniform from 1 to the widest, as far as the declaration takes them.

    Above 1100 most are next to a power of two, as in the probe of sizes, so that few kernels are compiled for this
    probe alone.
    """
    widest = setting.widest_of(_WIDEST[setting.on_gpu])
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
        every = [name for name in every if name not in _WITHOUT_FLOAT64]
    chosen = widths(setting, seed)
    usual = [columns for columns in chosen if columns in _USUAL] or chosen
    for turn in range(_ROUNDS):
        for columns in usual if turn % 4 else chosen:
            yield _random_batch(columns, fmt, device, [seed, turn, columns], every)


def _random_batch(
    columns: int, fmt: Format, device: torch.device, entropy: list[int], families: Sequence[str]
) -> Batch:
    seed = int(np.random.default_rng(entropy).integers(2**62))
    known = {name: FILLERS[name] for name in families if name in FILLERS}
    sure = [filler for name, filler in known.items() if name not in _DOUBTFUL]

    def draw(rows: int) -> torch.Tensor:
        generator = torch.Generator(device).manual_seed(seed)
        few = min(rows, _FEW * len(families)) if columns <= _NO_DOUBT else 0
        parts = [mixed(few, columns, fmt, generator, list(known.values()))] if few else []
        if rows > few:
            parts.append(mixed(rows - few, columns, fmt, generator, sure))
        # Rows of all families lie side by side, since a program may take several.
        return torch.cat(parts)[torch.randperm(rows, generator=generator, device=device)]

    return Batch(columns, draw, f"random rows of seed {seed}")


def _rare_alone(setting: Setting, device: torch.device, seed: int) -> Iterator[Batch]:
    """Each pattern alone in a row: in the first, a middle and the last column, and on both sides of a tile's edge."""
    ordered = rare_values.patterns(setting.fmt, seed)
    taken = [columns for columns in _RARE_COLUMNS if setting.takes(columns)] or [1]
    for columns in taken:
        edge = 1 << max(0, (columns - 1).bit_length() - 1)
        places = sorted({0, columns // 2, max(0, edge - 1), min(edge, columns - 1), columns - 1})
        shown = np.zeros(len(places) * len(ordered), dtype=np.int64)
        shown[: len(ordered) if columns == taken[0] else 0] = 1
        chosen, put = np.tile(ordered, len(places))[:, None], np.repeat(places, len(ordered))[:, None]
        yield from _rare_rows(columns, chosen, put, shown, seed, setting.fmt, device)


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
    yield from _rare_rows(columns, chosen, places, shown, seed, setting.fmt, device)


def _rare_rows(
    columns: int,
    chosen: NDArray[np.int64],
    places: NDArray[np.int64],
    shown: NDArray[np.int64],
    seed: int,
    fmt: Format,
    device: torch.device,
) -> Iterator[Batch]:
    """Rows that show given patterns at given places, each once among logits near the first and once among others.

    Batches are as large as is asked for, and end where one is passed over.
    """
    drawn = 0

    def draw(rows: int, first: int, *, near: bool) -> torch.Tensor:
        nonlocal drawn
        own = slice(first, first + rows)
        values, at = (torch.from_numpy(part[own]).to(device) for part in (chosen, places))
        drawn = len(values)
        generator = torch.Generator(device).manual_seed((seed + first) % 2**62)
        return rare_values.rows_with(values, at, columns, fmt, generator, near=near)

    for near in (True, False):
        first = 0
        while first < len(chosen):
            drawn = 0
            words = f"rare values beside {'others like them' if near else 'small ones'}, from row {first} on"
            yield Batch(columns, partial(draw, first=first, near=near), words, shown[first:] if near else None)
            if not drawn:
                return
            first += drawn
