"""Times variants beside torch.softmax and a device copy, in the same rounds.

Every contender runs once in every round, in random order, each call on an input of its own that lies outside the cache, and
every output is checked.
"""

import random
import time
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Literal

import torch

from oracles.formats import FORMATS
from oracles.reference import FullyMasked
from softcheck.calling.call import describe
from softcheck.operations.operation import Operation
from softcheck.operations.softmax import SOFTMAX
from softcheck.speed import statistics
from softcheck.speed.clock import RESOLUTION, Captured, CudaClock, estimate
from softcheck.speed.contender import Contender, by_torch, copied
from softcheck.speed.inputs import Rotation, as_rows
from softcheck.speed.samples import Sampled, ShapeSamples, TimingPlan
from softcheck.speed.vetting import Function, Vetting
from softcheck.variants.adapt import Adapted, operands_of

COPY = "\0copy"
TORCH = "\0torch"
ROUNDS = "\0rounds"
"""Names that begin so are softcheck's own: no variant is to blame for them."""

GRAPH_BELOW = 200e-6
"""Calls that take longer when launched are never replayed: above it launch and events are lost in the noise, and a call
that looks longer than 50 us may be shorter once its launches are gone."""
_SPAN = 500e-6
"""Duration of a graph: it holds so many calls that the cost of the events, some 2 us, is spread over them."""
_MOST_CALLS = 64
_MOST_BYTES = 2**29
"""Most bytes of the inputs of one graph."""
_HELD_UP = 3
"""Calls that show whether a variant works on the caller's stream."""
_WARM_UP = 60
_LEAST_TICKS = 50
"""A span of fewer of the clock's ticks is rounded by over 2 %."""
_MOST_ROUNDS = 400


class DeviceLostError(Exception):
    """A variant ruined the device for this process: nothing else can be measured in it."""

    def __init__(self, variant: str, reason: str) -> None:
        super().__init__(f"{variant} ruined the device: {reason}")
        self.variant = variant


_ALONE = "no variant is timed beside it"


class Engine:
    """Measures one shape on one device."""

    def __init__(
        self,
        plan: TimingPlan,
        device: torch.device,
        clock: CudaClock,
        operation: Operation = SOFTMAX,
        names: frozenset[str] = frozenset(),
    ) -> None:
        """Prepares to measure functions that compute an operation, whose calls take the operands of these names beside the matrix."""
        self._plan = plan
        self._clock = clock
        self._operation = operation
        self._names = names
        self._rotation = Rotation(plan.rows, plan.columns, FORMATS[plan.dtype], plan.seed, device, operation, names)
        self._inputs = [self._rotation.new_input()]
        self._random = random.Random(plan.seed)  # noqa: S311 - an order, not a secret

    def measure(
        self, functions: Mapping[str, Function], fully_masked: Mapping[str, FullyMasked] | None = None
    ) -> Generator[str, None, ShapeSamples]:
        """Returns samples of every variant; ``fully_masked`` has what each promises for fully masked rows, NaN where it is not named.

        A variant that is unfit, fails or returns a wrong output has a reason instead. Yields the name of the variant
        that is about to run, so that a caller knows which variant to blame if the process dies. Raises DeviceLostError
        if a variant has ruined the device.
        """
        begun = time.monotonic()
        vetting = Vetting(self._rotation, self._inputs[0], self._operation)
        contenders, refused, promised = [], {}, fully_masked or {}
        for name, function in functions.items():
            yield name
            called = self._called(function)
            vetted = called if isinstance(called, str) else vetting.vet(called, promised.get(name, "nan"))
            if isinstance(called, str) or isinstance(vetted, str):
                self._refuse_if_lost(name, str(vetted))
                refused[name] = str(vetted)
            else:
                contenders.append(Contender(name, called, vetted))
        torchs_own, way = by_torch(self._rotation, self._inputs[0], self._clock)
        copy = partial(copied, self._rotation)
        yardsticks = [Contender(COPY, copy, None), Contender(TORCH, torchs_own, None, notes=way)]
        # Without a contender there is nothing to time beside.
        everyone = [*contenders, *yardsticks] if contenders else []
        yield from self._prepare(everyone)
        yield ROUNDS
        stopped = self._rounds(everyone) if everyone else "rounds"
        for contender in contenders:
            self._conclude(contender)
        by_name = {c.name: c.sampled() for c in everyone}
        return ShapeSamples(
            dtype=self._plan.dtype,
            rows=self._plan.rows,
            columns=self._plan.columns,
            operands=tuple(sorted(self._names)),
            variants=tuple(by_name.get(n) or Sampled(name=n, reason=refused[n]) for n in functions),
            copy=by_name.get(COPY) or Sampled(name=COPY, reason=_ALONE),
            torch=by_name.get(TORCH) or Sampled(name=TORCH, reason=_ALONE),
            cache=self._clock.cache_state(),
            stopped=stopped,
            wall_seconds=time.monotonic() - begun,
        )

    def _called(self, function: Function) -> Function | str:
        """The function on inputs whose operands are ready; the reason where its call takes others than these."""
        names = operands_of(function)
        if names != self._names:
            others, ours = (", ".join(sorted(each)) or "none" for each in (names, self._names))
            return f"its call takes other operands ({others}) than those it is timed beside ({ours})"
        if not isinstance(function, Adapted) or not names:
            return function
        if self._operation.gradient_in_place:
            return "each call overwrites its input with the gradient, and a copy for each would be timed with it"
        if self._operation.matrix is not None or not self._operation.dims_of(names):
            return "its call takes operands of several rows each, which can't be changed with their rows"
        return function.with_operation(self._rotation.operation).timed()

    def _matrix(self, output: torch.Tensor) -> torch.Tensor:
        found = as_rows(output, self._plan.rows)
        assert isinstance(found, torch.Tensor)
        return found

    def _refuse_if_lost(self, variant: str, reason: str) -> None:
        if not self._clock.alive():
            raise DeviceLostError(variant, reason)

    def _prepare(self, everyone: Sequence[Contender]) -> Generator[str, None, None]:
        """Warms everyone up and makes graphs of the short calls, all of the same number of calls."""
        x = self._inputs[0]
        shortest: dict[str, float] = {}
        for contender in everyone:
            yield contender.name
            try:
                times = estimate(self._clock, partial(contender.function, x), most=_WARM_UP, settled=statistics.settled)
                shortest[contender.name] = min(times)
                self._follow_stream(contender)
            except Exception as error:  # noqa: BLE001 - whatever a variant raises is a reason
                contender.failed = f"raised while it was warmed up: {describe(error)}"
                self._refuse_if_lost(contender.name, contender.failed)
        short = [c for c in everyone if c.failed is None and shortest[c.name] < GRAPH_BELOW]
        if not short:
            return
        calls = self._calls(min(shortest[c.name] for c in short), len(short))
        self._inputs += [self._rotation.new_input() for _ in range(calls - 1)]
        for contender in short:
            yield contender.name
            # All outputs are kept, so that each has memory of its own.
            captured = self._clock.capture(partial(lambda function: [*map(function, self._inputs)], contender.function))
            if isinstance(captured, Captured):
                contender.graph = captured
                contender.calls = calls
            else:
                self._refuse_if_lost(contender.name, captured)
                contender.notes.append(f"no CUDA graph could be made of it, so its plain launch was timed: {captured}")

    def _calls(self, seconds: float, graphs: int) -> int:
        size = self._rotation.input_bytes
        # Half the memory that is free, for the inputs that all share and the outputs of each.
        room = self._clock.room() // (2 * (graphs + 1))
        return max(1, min(_MOST_CALLS, _MOST_BYTES // size, room // size, round(_SPAN / max(seconds, 1e-9))))

    def _follow_stream(self, contender: Contender) -> None:
        """Looks at outputs at the very moment when the caller's stream goes on.

        A stream that is held up makes it the same moment for all that wait for it: work that was left on another stream is
        not there yet, or has read the input before it was written.
        """
        if contender.vetted is None:
            return
        x = self._inputs[0]
        late = torch.zeros((), dtype=torch.int64, device=x.device)
        for _ in range(_HELD_UP):
            shift = self._rotation.next_shift()
            self._clock.hold_up()
            self._rotation.fill(x, shift)
            seen = self._matrix(contender.function(x)).clone()
            late += self._rotation.wrong_rows(seen, contender.vetted.answer, shift)
            self._clock.synchronize()
        if int(late):
            contender.failed = (
                f"{int(late)} rows of the output were wrong when the caller's stream reached them; the variant works on another "
                "stream without making the caller's wait, keeps an answer or skips work"
            )

    def _rounds(self, everyone: Sequence[Contender]) -> Literal["precise", "budget", "rounds"]:
        end = time.monotonic() + self._plan.seconds
        turns = [(c, plain) for c in everyone for plain in ((True, False) if c.graph else (True,))]
        for done in range(1, _MOST_ROUNDS + 1):
            self._random.shuffle(turns)
            for contender, plain in turns:
                if contender.failed is None:
                    self._turn(contender, plain=plain)
            if done < statistics.LEAST_ROUNDS:
                continue
            if time.monotonic() > end:
                return "budget"
            if done % 6 == 0 and self._precise(everyone):
                return "precise"
        return "rounds"

    def _turn(self, contender: Contender, *, plain: bool) -> None:
        """One span: the input is changed, the cache emptied, the call timed and its output checked."""
        try:
            if plain or contender.graph is None:
                self._launch(contender)
            else:
                self._replay(contender, contender.graph)
        except Exception as error:  # noqa: BLE001 - whatever a variant raises is a reason
            contender.failed = f"raised while it was timed: {describe(error)}"
            self._refuse_if_lost(contender.name, contender.failed)

    def _launch(self, contender: Contender) -> None:
        x = self._inputs[0]
        shift = self._rotation.next_shift()
        self._rotation.fill(x, shift)
        self._clock.flush()
        alone = contender.graph is not None
        output, span = self._clock.span(lambda: contender.function(x), hide_launch=not alone)
        self._check(contender, output, shift)
        (contender.launch_seconds if alone else contender.seconds).append(span())

    def _replay(self, contender: Contender, graph: Captured) -> None:
        shift = self._rotation.next_shift()
        for x in self._inputs:
            self._rotation.fill(x, shift)
        checked = self._random.sample(graph.returned, min(2, len(graph.returned)))
        if contender.vetted is not None:
            for output in checked:
                output.fill_(float("nan"))
        self._clock.flush()
        _, span = self._clock.span(graph.replay, hide_launch=True)
        for output in checked:
            self._check(contender, output, shift)
        contender.seconds.append(span() / contender.calls)

    def _check(self, contender: Contender, output: torch.Tensor, shift: int) -> None:
        """Counts wrong rows on the device, on the timed stream.

        Work left on another stream has not arrived there yet.
        """
        if contender.vetted is None:
            return
        wrong = self._rotation.wrong_rows(self._matrix(output), contender.vetted.answer, shift)
        contender.wrong_rows = wrong if contender.wrong_rows is None else contender.wrong_rows + wrong

    def _precise(self, everyone: Sequence[Contender]) -> bool:
        copy = next(c for c in everyone if c.name == COPY)
        rivals = [c for c in everyone if c is not copy and c.failed is None]
        ratios = [statistics.ratio_interval(c.seconds, copy.seconds) for c in rivals]
        return statistics.precise(ratios, self._plan.within)

    def _conclude(self, contender: Contender) -> None:
        wrong = 0 if contender.wrong_rows is None else int(contender.wrong_rows)
        if contender.failed is None and wrong:
            contender.failed = (
                f"the output of a timed call is wrong: {wrong} rows were not those of its input; the variant skips work, keeps "
                "an answer or works on another stream than the caller's"
            )
        if contender.failed is not None or not contender.seconds:
            return
        seconds = statistics.median_interval(contender.seconds).mid
        peak = self._clock.peak_bytes_per_second()
        least = self._rotation.input_bytes / peak if peak else 0.0
        if seconds < least:
            contender.failed = (
                f"took {seconds * 1e6:.1f} us where reading the input takes {least * 1e6:.1f} us at the memory's peak; not all of "
                "it was read inside the timed span, or it came from a cache"
            )
        elif (span := seconds * contender.calls) < _LEAST_TICKS * RESOLUTION:
            contender.too_short = True
            contender.notes.append(
                f"too short to time: {span * 1e6:.1f} us between two events that tell {RESOLUTION * 1e6:.1f} us apart"
            )
