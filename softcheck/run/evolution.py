"""Evolution of rows towards the largest error, and random sampling of as many elements beside it. Runs in the worker.

Several islands each keep their best rows. In every round each child is a good row of its island, changed in one way
(``softcheck.search.mutation``). All children are rated in one launch, and each island keeps the best of its old and new
rows. Ways that made better children are used more often. In the first rounds a part of the children are the seeds. An
island without a better row for ``_PATIENCE`` rounds starts again from random rows, drawn like the rows of the random
sampling.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch

from oracles.formats import FLOAT32, FORMATS, Format
from softcheck.calling.call import Placed, call_on_device, to_bits, to_tensor
from softcheck.cases.random_rows import mixed
from softcheck.contract import FindingKind, Violation
from softcheck.judge.by_contract import judge_call
from softcheck.judge.contracts import contract_of
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds
from softcheck.probes.poison import nan_filled
from softcheck.run.interruption import Interruption
from softcheck.run.protocol import Candidate, Reply, RunSearch, Searched, Searching
from softcheck.search.fitness import rate
from softcheck.search.mutation import MUTATIONS, Parents, mutate
from softcheck.search.objective import Objective, badness
from softcheck.variants.registry import LoadedVariant

_ISLANDS = 8
_FEWEST_CHILDREN = 16
"""Children of an island in a round. A launch of few rows has fewer islands."""
_ELITE_SHARE = 8
_SEED_SHARE = 4
"""Children per seed, while there are seeds."""
_PATIENCE = 60
"""Rounds without a better row after which an island starts again."""
_KEPT = 24
"""Candidates for the judge from the search, and as many from the random rows; fewer if rows are wide."""
_JUDGED_ELEMENTS = 1 << 21
_FLOOR = 0.4
"""Share of the children that is divided evenly among the ways of changing."""


class Stopped(Exception):  # noqa: N818 - no error: the variant gave no output to rate
    """The variant gave no output to rate."""

    def __init__(self, violations: tuple[Violation, ...], *, fatal: bool) -> None:
        super().__init__()
        self.violations, self.fatal = violations, fatal


@dataclass(slots=True)
class Best:
    """The worst rows so far with their outputs, all with different figures."""

    limit: int
    figures: torch.Tensor
    inputs: torch.Tensor
    outputs: torch.Tensor

    def add(self, figures: torch.Tensor, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        """Inserts rows that belong among the worst."""
        count = min(self.limit, len(figures))
        best, place = torch.topk(figures, count)
        if len(self.figures) == self.limit and bool(best[0] <= self.figures[-1]):
            return
        every = torch.cat([self.figures, best])
        order = torch.argsort(every, descending=True, stable=True)
        every = every[order]
        # Equal figures usually belong to copies. Infinite figures don't: each row may break another promise.
        different = torch.ones_like(every, dtype=torch.bool)
        different[1:] = (every[1:] != every[:-1]) | torch.isinf(every[1:])
        chosen = order[different][: self.limit]
        self.inputs = torch.cat([self.inputs, inputs[place]])[chosen]
        before = self.outputs if len(self.outputs) else outputs[:0]
        self.outputs = torch.cat([before, outputs[place]])[chosen]
        self.figures = every[different][: self.limit]

    @property
    def figure(self) -> float:
        """The largest figure; 0 if there is none yet."""
        return max(0.0, float(self.figures[0])) if len(self.figures) else 0.0


def _none(limit: int, columns: int, dtype: torch.dtype, device: torch.device) -> Best:
    rows = torch.empty((0, columns), dtype=dtype, device=device)
    return Best(limit, torch.empty(0, dtype=torch.float64, device=device), rows, rows.clone())


@dataclass(slots=True)
class _Target:
    """The variant, called on rows and rated."""

    variant: LoadedVariant
    fmt: Format
    objective: Objective
    violations: dict[FindingKind, Violation] = field(default_factory=dict)
    of_cpu_library: bool = False
    """True if the last call ran on a CPU without a Triton kernel."""
    is_ruined: bool = False
    """True if a call made a change that can't be put back, so that the process can't serve other requests."""

    def model(self, fmt: Format) -> bounds.Model:
        """Returns the arithmetic by which outputs of a format are rated."""
        own = bounds.model(contract_of(self.variant.declaration.arithmetic), fmt)
        # If the rating knows no better, the worst rows by the standard contract are the rows to look at.
        return bounds.model(STANDARD, fmt) if own.rounds_logits else own

    def rated(self, x: torch.Tensor, best: Best) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the rows' figures and columns, both [rows]; adds the worst rows to ``best``. Raises Stopped."""
        with nan_filled():
            returned = call_on_device(self.variant.function, Placed(x, x.view(-1), self.fmt), self.variant.operation)
        if returned.output is None:
            raise Stopped(returned.violations, fatal=returned.fatal)
        self.is_ruined |= returned.fatal
        self.of_cpu_library = returned.of_cpu_library
        for violation in returned.violations:
            self.violations.setdefault(violation.kind, violation)
        on_device = self.variant.operation.on_device
        assert on_device is not None
        # An answer for a row may be of a wider format.
        fmt = FLOAT32 if returned.output.dtype == torch.float32 else self.fmt
        figures, columns = rate(x, returned.output, fmt, self.model(fmt), self.objective, on_device)
        best.add(figures, x, returned.output)
        return figures, columns


class _Population:
    """The islands: their best rows, [islands * elite, columns], with figures and columns of the worst elements."""

    def __init__(self, rows: int, columns: int, fmt: Format, generator: torch.Generator) -> None:
        self.rows, self.columns, self.fmt, self.generator = rows, columns, fmt, generator
        self.islands = max(1, min(_ISLANDS, rows // _FEWEST_CHILDREN))
        self.elite = max(2, rows // self.islands // _ELITE_SHARE)
        size = self.islands * self.elite
        self.members = mixed(size, columns, fmt, generator)
        self.figures = torch.full((size,), -1.0, dtype=torch.float64, device=generator.device)
        self.witness = torch.zeros((size,), dtype=torch.int64, device=generator.device)
        self.stale = torch.zeros((self.islands,), dtype=torch.int64, device=generator.device)
        self.success = dict.fromkeys(MUTATIONS, 1.0)
        # Child i belongs to island i modulo islands, so that every way of changing serves every island.
        self.island = torch.arange(rows, device=generator.device) % self.islands
        self.parents = torch.zeros((rows,), dtype=torch.int64, device=generator.device)
        self.ways: list[tuple[str, int, int]] = []

    def children(self, seeds: torch.Tensor) -> torch.Tensor:
        """Returns seeds followed by changed rows, [rows, columns] in all."""
        self.parents = self._chosen()
        mates = self._chosen()
        made = torch.empty((self.rows, self.columns), dtype=self.members.dtype, device=self.members.device)
        made[: len(seeds)] = seeds
        self.ways = _shares(self.success, len(seeds), self.rows)
        for name, first, end in self.ways:
            place = self.parents[first:end]
            parents = Parents(
                self.members[place],
                self.members[mates[first:end]],
                self.witness[place][:, None],
                self.fmt,
                self.generator,
            )
            made[first:end] = mutate(name, parents)
        return made

    def _chosen(self) -> torch.Tensor:
        """Draws the parents' places, better parents more often."""
        drawn = torch.rand((self.rows,), generator=self.generator, device=self.members.device)
        rank = (self.elite * drawn * drawn).to(torch.int64).clamp_(max=self.elite - 1)
        return self.island * self.elite + rank

    def credit(self, figures: torch.Tensor) -> None:
        """Remembers which ways of changing gave better children."""
        better = figures > self.figures[self.parents]
        sums = torch.cumsum(better, dim=0).cpu().numpy()
        for name, first, end in self.ways:
            gained = int(sums[end - 1]) - (int(sums[first - 1]) if first else 0)
            self.success[name] = 0.9 * self.success[name] + 0.1 * (gained / (end - first))

    def take(self, rows: torch.Tensor, figures: torch.Tensor, witness: torch.Tensor) -> None:
        """Keeps the best of the old and new rows on each island. An island that found nothing for long starts again."""
        before = self.figures.view(self.islands, self.elite)
        used = self.rows - self.rows % self.islands
        young = figures[:used].view(-1, self.islands).T
        # A child whose figure is there already is usually a copy.
        copies = (young[:, :, None] == before[:, None, :]).any(dim=2)
        young = torch.where(copies, -2.0, young)
        best, place = torch.topk(torch.cat([before, young], dim=1), self.elite, dim=1)
        improved = best[:, 0] > before[:, 0]
        island = torch.arange(self.islands, device=rows.device)[:, None]
        is_old = place < self.elite
        old_place = (island * self.elite + place.clamp(max=self.elite - 1)).view(-1)
        new_place = ((place - self.elite).clamp(min=0) * self.islands + island).view(-1)
        old = is_old.view(-1)
        self.members = torch.where(old[:, None], self.members[old_place], rows[new_place])
        self.witness = torch.where(old, self.witness[old_place], witness[new_place])
        self.figures = best.reshape(-1)
        self.stale = torch.where(improved, 0, self.stale + 1)
        for tired in torch.nonzero(self.stale >= _PATIENCE).flatten().tolist():
            self._restart(tired)

    def _restart(self, island: int) -> None:
        """Replaces an island's members; its best rows are already kept elsewhere."""
        part = slice(island * self.elite, (island + 1) * self.elite)
        self.members[part] = mixed(self.elite, self.columns, self.fmt, self.generator)
        self.figures[part] = -1.0
        self.stale[island] = 0


def _shares(success: dict[str, float], first_row: int, end_row: int) -> list[tuple[str, int, int]]:
    """Splits the children among the ways of changing: an even share each, and more for ways that succeeded."""
    total = sum(success.values())
    weights = [_FLOOR / len(success) + (1 - _FLOOR) * (value / total if total else 0.0) for value in success.values()]
    cuts = (
        first_row + np.round(np.cumsum([0.0, *weights]) / sum(weights) * (end_row - first_row)).astype(int)
    ).tolist()
    return [(name, first, end) for name, (first, end) in zip(success, pairwise(cuts), strict=True) if end > first]


def search(variant: LoadedVariant, request: RunSearch, device: torch.device) -> Iterator[Reply]:
    """Yields Searching after every round, and Searched after ``rounds``, or ``seconds`` counted after the first round.

    SIGINT ends the search after the current round. Each round rates as many random rows as evolved rows.
    """
    fmt = FORMATS[request.dtype]
    seeds, share = _seeds(request, fmt, device), max(1, request.rows // _SEED_SHARE)
    run = _Run(variant, request, fmt, device)
    begun = time.monotonic()
    rounds = 0
    interruption = Interruption()
    try:
        with interruption.watching():
            while rounds == 0 or not (interruption.is_set or _is_over(request, rounds, time.monotonic() - begun)):
                run.round(seeds[rounds * share : (rounds + 1) * share])
                if rounds == 0:
                    # The first round compiles what is called.
                    begun = time.monotonic()
                rounds += 1
                yield Searching(rounds, run.found.figure, run.random.figure)
    except Stopped as stopped:
        yield Searched(rounds, run.elements, None, None, stopped.violations, fatal=stopped.fatal)
        return
    yield Searched(
        rounds,
        run.elements,
        _judged(run.found, run.target),
        _judged(run.random, run.target),
        tuple(run.target.violations.values()),
        fatal=run.target.is_ruined,
    )


class _Run:
    """Search and random sampling, round by round, with a random generator for each."""

    def __init__(self, variant: LoadedVariant, request: RunSearch, fmt: Format, device: torch.device) -> None:
        self.request, self.fmt = request, fmt
        self.target = _Target(variant, fmt, request.objective)
        generators = [torch.Generator(device).manual_seed(2 * request.seed + i) for i in (0, 1)]
        self.population = _Population(request.rows, request.columns, fmt, generators[0])
        self.sampling = generators[1]
        kept = max(1, min(_KEPT, _JUDGED_ELEMENTS // request.columns))
        dtype = self.population.members.dtype
        self.found, self.random = (_none(kept, request.columns, dtype, device) for _ in range(2))
        self.elements = 0
        """Elements rated by the search; random sampling rated as many."""

    def round(self, seeds: torch.Tensor) -> None:
        """Makes a launch of children, seeds included while there are some, and one of random rows. Raises Stopped."""
        rows, columns = self.request.rows, self.request.columns
        children = self.population.children(seeds)
        figures, witness = self.target.rated(children, self.found)
        self.population.credit(figures)
        self.population.take(children, figures, witness)
        self.target.rated(mixed(rows, columns, self.fmt, self.sampling), self.random)
        self.elements += rows * columns


def _seeds(request: RunSearch, fmt: Format, device: torch.device) -> torch.Tensor:
    bits = np.frombuffer(request.seeds, dtype=fmt.storage).reshape(-1, request.columns)
    return to_tensor(bits, fmt, device)


def _is_over(request: RunSearch, rounds: int, seconds: float) -> bool:
    return (request.rounds is not None and rounds >= request.rounds) or (
        request.seconds is not None and seconds >= request.seconds
    )


def _judged(best: Best, target: _Target) -> Candidate | None:
    """The row that the judge finds worst among the best, with its measurement from the launch in which it was found."""
    fmt, device = target.fmt, best.inputs.device
    inputs, outputs = to_bits(best.inputs, fmt), to_bits(best.outputs, fmt)
    candidates = [
        Candidate(
            x.tobytes(), judge_call(target.variant, x[None], y[None], fmt, device, of_cpu_library=target.of_cpu_library)
        )
        for x, y in zip(inputs, outputs, strict=True)
    ]
    return max(candidates, key=lambda c: badness(c.measurement, target.objective), default=None)
