"""Draws the speed model from samples: medians, intervals, ratios within rounds, words."""

from collections.abc import Mapping, Sequence
from typing import Any

from oracles.formats import FORMATS
from softcheck.operations.operation import Operation
from softcheck.report.model import TORCH, ShapeSpeed, SpeedFigures, SpeedMean
from softcheck.speed.samples import Sampled, ShapeSamples
from softcheck.speed.statistics import Interval, Word, geometric_mean, median_interval, ratio_interval, word
from softcheck.variants.declaration import Declaration


def gb_per_s(samples: ShapeSamples, seconds: float, computed: Operation) -> float:
    """GB/s as every benchmark of the operation counts it: each element of each operand read or written once."""
    return _bytes(samples, computed) / seconds / 1e9


def tflop_per_s(samples: ShapeSamples, seconds: float, computed: Operation) -> float | None:
    """Tflop/s by the operation's own count; None where only bytes count."""
    return None if computed.flops is None else computed.flops(samples.rows, samples.columns) / seconds / 1e12


def _bytes(samples: ShapeSamples, computed: Operation) -> int:
    sizes = {"rows": samples.rows, "columns": samples.columns}
    return computed.bytes_moved(sizes, FORMATS[samples.dtype].itemsize, samples.operands)


def _copied(samples: ShapeSamples, computed: Operation) -> int:
    """Bytes that the device copy reads and writes: of the matrix, or of the operands where they are what is timed."""
    if computed.flops is None or not samples.operands:
        return 2 * samples.rows * samples.columns * FORMATS[samples.dtype].itemsize
    parts, numbers = computed.part_shape(samples.columns)
    return 2 * (_bytes(samples, computed) - samples.rows * parts * numbers * FORMATS[samples.dtype].itemsize)


def shape_speed(samples: ShapeSamples, declarations: Mapping[str, Declaration], reference: str = TORCH) -> ShapeSpeed:
    """Returns the figures of one shape; ratios are to the variant named ``reference``, or to torch.softmax itself."""
    against = next((s for s in samples.variants if s.name == reference), None)
    if against is None and reference == TORCH:
        against = samples.torch
    copy, by_torch = median_interval(samples.copy.seconds), median_interval(samples.torch.seconds)
    declared = next((declarations[s.name] for s in samples.variants if s.name in declarations), Declaration())
    computed = declared.computed
    same = ("dtype", "rows", "columns", "operands", "rounds", "stopped", "cache", "alarms", "clock_mhz", "wall_seconds")
    return ShapeSpeed(
        reference=reference,
        operation=declared.operation,
        copy_seconds=copy,
        copy_gb_per_s=_copied(samples, computed) / copy.mid / 1e9,
        torch_seconds=by_torch,
        torch_gb_per_s=gb_per_s(samples, by_torch.mid, computed),
        torch_tflop_per_s=tflop_per_s(samples, by_torch.mid, computed),
        torch_way=next(iter(samples.torch.notes), None),
        variants=tuple(_figures(s, samples, against, declarations.get(s.name)) for s in samples.variants),
        **{name: getattr(samples, name) for name in same},
    )


def means(shapes: Sequence[ShapeSpeed]) -> tuple[SpeedMean, ...]:
    """Geometric means by variant and dtype, in the order of first appearance."""
    seen: dict[tuple[str, str], list[SpeedFigures]] = {}
    for shape in shapes:
        for figures in shape.variants:
            seen.setdefault((figures.variant, shape.dtype), []).append(figures)
    return tuple(
        SpeedMean(
            variant=variant,
            dtype=dtype,
            shapes=sum(f.seconds is not None for f in found),
            left_out=sum(f.seconds is None for f in found),
            times_faster=geometric_mean([f.times_faster for f in found if f.times_faster is not None]),
            copy_share=geometric_mean([f.copy_share for f in found if f.copy_share is not None]),
        )
        for (variant, dtype), found in seen.items()
    )


def _figures(
    sampled: Sampled, samples: ShapeSamples, against: Sampled | None, declaration: Declaration | None
) -> SpeedFigures:
    told: dict[str, Any] = {"variant": sampled.name, "notes": sampled.notes, "max_ulp": sampled.max_ulp}
    if not sampled.seconds:
        return SpeedFigures(reason=sampled.reason or "not measured", **told)
    seconds = median_interval(sampled.seconds)
    copy_share = ratio_interval(samples.copy.seconds, sampled.seconds)
    faster = ratio_interval(against.seconds, sampled.seconds) if against is not None and against.seconds else None
    computed, size = (declaration or Declaration()).computed, FORMATS[samples.dtype].itemsize
    traffic = None if declaration is None else declaration.traffic
    moved = None if traffic is None else traffic.elements(samples.rows, samples.columns)
    return SpeedFigures(
        seconds=seconds,
        launch_seconds=median_interval(sampled.launch_seconds) if sampled.launch_seconds else None,
        method=sampled.method,
        gb_per_s=gb_per_s(samples, seconds.mid, computed),
        tflop_per_s=tflop_per_s(samples, seconds.mid, computed),
        copy_share=copy_share,
        times_faster=faster,
        word=None if sampled is against else _word(faster, sampled, against, samples.rounds),
        traffic_gb_per_s=None if moved is None else moved * size / seconds.mid / 1e9,
        roofline_share=None if moved is None else copy_share.mid * moved / (2 * samples.rows * samples.columns),
        **told,
    )


def _word(faster: Interval | None, sampled: Sampled, against: Sampled | None, rounds: int) -> Word | None:
    if faster is None or against is None:
        return None
    return "AMBIGUOUS" if sampled.too_short or against.too_short else word(faster, rounds)
