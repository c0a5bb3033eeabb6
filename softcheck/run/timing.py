"""Timing of variants on the worker's GPU, on the parent's request, under watch."""

import sys
from collections.abc import Callable, Iterator, Mapping

import msgspec
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import synchronize
from softcheck.calling.state import preserved
from softcheck.errors import NothingRunError, UsageError
from softcheck.run.protocol import Reply, Started, Time, Timed
from softcheck.speed.clock import CudaClock
from softcheck.speed.engine import ROUNDS, DeviceLostError, Engine
from softcheck.speed.guards import Watch
from softcheck.speed.inputs import Rotation
from softcheck.speed.samples import Alarm, Shape, TimingPlan
from softcheck.variants.adapt import operands_of
from softcheck.variants.registry import LoadedVariant, load


def measure(request: Time, loaded: Callable[[str], LoadedVariant], device: torch.device) -> Iterator[Reply]:
    """Yields Started before each variant is ``loaded`` and before it runs, then Timed. Only judged outputs are timed.

    Raises UsageError without a CUDA device: the interpreter's times say nothing of a GPU.
    """
    if device.type != "cuda":
        raise UsageError("timing needs a CUDA device; under the interpreter only logic is checked")
    variants: dict[str, LoadedVariant] = {}
    for name in request.variants:
        # Recognition calls it, which may end the process, or ruin the device for the next one.
        yield Started(name)
        variants[name] = loaded(name)
        synchronize(device)
    with preserved():
        yield from _measured(request.plan, variants, device)


def _measured(plan: TimingPlan, variants: Mapping[str, LoadedVariant], device: torch.device) -> Iterator[Reply]:
    forget_compiled()
    clock = CudaClock(device)
    watch: Watch | None = None
    functions = {name: variant.function for name, variant in variants.items()}
    masked = {name: variant.declaration.fully_masked for name, variant in variants.items()}
    first = next(iter(variants.values()))
    steps = Engine(plan, device, clock, first.operation, operands_of(first.function)).measure(functions, masked)
    while True:
        try:
            name = next(steps)
            if name == ROUNDS:
                watch = Watch(str(getattr(clock.properties, "uuid", "")))
            yield Started(name)
        except StopIteration as ended:
            samples = ended.value
            break
        except DeviceLostError as lost:
            # The parent learns the variant to blame, and learns from the end of this process that it must start
            # another.
            yield Started(lost.variant)
            raise
    assert watch is not None
    clock_mhz, alarms = watch.close()
    if samples.cache != "cold":
        alarms.append(
            Alarm(
                "not_cold", "the flush between calls was not seen to empty the cache; the figures may be of a warm one"
            )
        )
    # Graphs hold their memory until they are deleted, and the next shape needs other sizes.
    del steps
    torch.cuda.empty_cache()
    yield Timed(msgspec.structs.replace(samples, alarms=tuple(alarms), clock_mhz=clock_mhz))


def forget_compiled() -> None:
    """Drops the code that torch.compile has made in this process, so that it compiles anew for the timed shape.

    A process that met many shapes calls one kernel for all of them. That kernel is nine times as slow on 8192 x 8192
    float16.
    """
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


_WARM_UP = 3


def profile(variant: str, dtype: str, shape: Shape, seed: int) -> None:
    """Calls a variant once between cudaProfilerStart and cudaProfilerStop, after three calls to warm it up.

    Raises NothingRunError without a CUDA device.
    """
    if not torch.cuda.is_available():
        raise NothingRunError("nothing was profiled: no CUDA device was found; --profile needs a GPU")
    function = load(variant).function
    device = torch.device("cuda")
    x = Rotation(*shape, FORMATS[dtype], seed, device).new_input()
    for _ in range(_WARM_UP):
        function(x)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStart()  # type: ignore[no-untyped-call]
    function(x)
    torch.cuda.synchronize(device)
    torch.cuda.cudart().cudaProfilerStop()  # type: ignore[no-untyped-call]
