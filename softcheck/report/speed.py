"""The speed model from samples, and its tables for readers, a shape each and means last, in plain text and Markdown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oracles.formats import FORMATS
from softcheck.operations.operation import Operation
from softcheck.operations.registry import DEFAULT
from softcheck.report import content, figures
from softcheck.report.markdown import of_tables
from softcheck.report.model import TORCH, ShapeSpeed, SpeedFigures, SpeedMean, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.speed.samples import Sampled, ShapeSamples
from softcheck.speed.statistics import Interval, Word, geometric_mean, median_interval, ratio_interval, word
from softcheck.variants.declaration import Declaration

_COLUMNS: tuple[tuple[str, Callable[[SpeedFigures], str]], ...] = (
    ("variant", lambda f: content.one_line(f.variant)),
    ("us [low, high]", lambda f: microseconds(f.seconds)),
    ("launch us", lambda f: figures.figure(f.launch_seconds.mid * 1e6) if f.launch_seconds else figures.NOT_MEASURED),
    ("GB/s", lambda f: figures.speed(f.gb_per_s)),
    ("of copy", lambda f: percent(f.copy_share.mid if f.copy_share else None)),
    ("traffic GB/s", lambda f: figures.speed(f.traffic_gb_per_s)),
    ("roofline", lambda f: percent(f.roofline_share)),
    ("times faster [low, high]", lambda f: times(f.times_faster)),
    ("", lambda f: f.word or ("reference" if f.seconds is not None else figures.NOT_MEASURED)),
    ("max ULP", lambda f: figures.max_ulp_of_samples(f.max_ulp)),
)


_OF_BYTES = ("of copy", "traffic GB/s", "roofline")
"""Columns that say nothing of an operation whose floating-point operations count."""
_FLOPS = ("Tflop/s", lambda f: figures.speed(f.tflop_per_s))


def _columns(shape: ShapeSpeed) -> list[tuple[str, Callable[[SpeedFigures], str]]]:
    """The columns of one shape's table: Tflop/s stand in front of GB/s where they are counted."""
    if shape.torch_tflop_per_s is None:
        return list(_COLUMNS)
    shown = [column for column in _COLUMNS if column[0] not in _OF_BYTES]
    place = [title for title, _ in shown].index("GB/s")
    return [*shown[:place], _FLOPS, *shown[place:]]


def tables(shapes: Iterable[ShapeSpeed]) -> list[figures.TextTable]:
    """A table per shape."""
    return [
        figures.TextTable(
            shape_title(shape),
            [title for title, _ in columns],
            [[cell(figures_) for _, cell in columns] for figures_ in shape.variants],
        )
        for shape in shapes
        for columns in [_columns(shape)]
    ]


def mean_table(report: SpeedReport) -> figures.TextTable:
    """The geometric means over shapes."""
    title = f"geometric mean over shapes, times faster than {content.one_line(report.reference)}"
    heading = ["variant", "dtype", "shapes", "times faster [low, high]", "of copy"]
    rows = []
    for mean in report.means:
        left_out = f" ({mean.left_out} left out)" if mean.left_out else ""
        share = percent(mean.copy_share.mid if mean.copy_share else None)
        name = content.one_line(mean.variant)
        rows.append([name, mean.dtype, f"{mean.shapes}{left_out}", times(mean.times_faster), share])
    return figures.TextTable(title, heading, rows)


def _all_tables(report: SpeedReport) -> list[figures.TextTable]:
    """A table per shape, and the geometric means over several shapes last."""
    return [*tables(report.shapes), *([mean_table(report)] if len(report.shapes) > 1 else [])]


def heading(report: SpeedReport) -> list[str]:
    """Lines about the device and software of the measurement."""
    e = report.environment
    return [f"cuda: {content.device(e)}", content.versions(e), f"seed {e.seed}; command: {content.command(e.command)}"]


def remarks(report: SpeedReport) -> list[str]:
    """Remarks on doubtful or missing figures; each is made once, with the shapes that it holds for."""
    seen: list[tuple[str, str]] = []
    for shape in report.shapes:
        where = f"{shape.dtype} {shape.rows}{figures.TIMES}{shape.columns}"
        said = [f"{alarm.kind}: {alarm.message}" for alarm in shape.alarms]
        for f in shape.variants:
            said += [f"{f.variant}: {text}" for text in (*([f"no figure: {f.reason}"] if f.reason else []), *f.notes)]
        seen += [(where, text) for text in said]
    lines = list(map(content.one_line, [*figures.alike(seen, 3), *report.errors]))
    return [*lines, "interrupted: the figures are of what had been measured by then"] if report.interrupted else lines


def render_table(report: SpeedReport, _display: Display = PLAIN) -> str:
    """Plain text, columns aligned, ending in a newline."""
    lines = heading(report)
    for table in _all_tables(report):
        lines += ["", table.title, *table.lines()]
    noted = remarks(report)
    lines += ["", "notes", *(f"  {line}" for line in noted)] if noted else []
    return "\n".join([*lines, "", _closing(report)]) + "\n"


def render_markdown(report: SpeedReport, _display: Display = PLAIN) -> str:
    """GitHub-flavoured Markdown: the number of shapes first."""
    return of_tables("bench", _closing(report), _all_tables(report), remarks(report), heading(report))


def shape_title(shape: ShapeSpeed) -> str:
    """Shape, the copy beside it, how it was measured, in one line."""
    clock = f", {shape.clock_mhz} MHz" if shape.clock_mhz else ""
    cache = "cold cache" if shape.cache == "cold" else "CACHE NOT SEEN TO BE COLD"
    computed = "" if shape.operation == DEFAULT else f" {shape.operation}"
    beside = f" with {', '.join(shape.operands)}" if shape.operands else ""
    torch_ = ""
    if shape.torch_tflop_per_s is not None:
        rates = f"{figures.speed(shape.torch_tflop_per_s)} Tflop/s, {figures.speed(shape.torch_gb_per_s)} GB/s"
        torch_ = f"torch {shape.torch_way or ''} {rates}; ".replace("  ", " ")
    return (
        f"{shape.dtype} {shape.rows}{figures.TIMES}{shape.columns}{computed}{beside}: {torch_}device copy {figures.speed(shape.copy_gb_per_s)} GB/s; "
        f"{shape.rounds} rounds, stopped: {shape.stopped}; {cache}{clock}"
    )


def microseconds(seconds: Interval | None) -> str:
    """``47.4 [47.3, 47.6]``."""
    if seconds is None:
        return figures.NOT_MEASURED
    return "{} [{}, {}]".format(*(figures.figure(v * 1e6) for v in (seconds.mid, seconds.low, seconds.high)))


def times(ratio: Interval | None) -> str:
    """``1.42 [1.41, 1.43]``."""
    return figures.NOT_MEASURED if ratio is None else f"{ratio.mid:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def percent(share: float | None) -> str:
    """``87 %``."""
    return figures.NOT_MEASURED if share is None else f"{share * 100:.0f} %"


def _closing(report: SpeedReport) -> str:
    return f"{figures.plural(len(report.shapes), 'shape')}; {figures.duration(report.seconds)}"


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
        for each in shape.variants:
            seen.setdefault((each.variant, shape.dtype), []).append(each)
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
