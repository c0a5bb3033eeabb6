"""Comparison of two results, and its table, Markdown, JSON and annotations: accuracy, findings, speed. A change within its own doubt is no regression."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from softcheck.report import content, figures
from softcheck.report.markdown import of_tables
from softcheck.report.model import Environment, Report, ShapeSpeed, SpeedFigures, SpeedReport, VariantResult
from softcheck.report.output import PLAIN, Display
from softcheck.speed.statistics import Interval
from softcheck.variants.place import SourcePlace

Result = Report | SpeedReport

SAME_ULP = 0.01
"""ULPs by which two maxima may differ and still count as the same."""

Word = Literal["REGRESSION", "better", "same", "changed", "AMBIGUOUS"]


class Tolerances(msgspec.Struct, frozen=True, kw_only=True):
    """Changes for the worse that still count as the same."""

    max_ulp_increase: float = SAME_ULP
    """ULPs by which a maximum may grow."""
    max_slowdown: float = 0.05
    """Share by which a variant may slow down relative to the device copy of its own run."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one variant in both results."""

    variant: str
    dtype: str
    what: str
    """``max ULP``, ``error/bound``, ``finding: KIND``, ``verdict`` or ``speed ROWSxCOLUMNS``."""
    old: str
    new: str
    word: Word
    old_value: float | None = None
    new_value: float | None = None
    slowdown: Interval | None = None
    """New time over old, each relative to its own run's copy; for speed only."""
    place: SourcePlace | None = None
    """The line at which the variant's code begins, as the new result has it."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Every change, what could not be compared, and why the two may not be comparable."""

    schema_version: Literal[1] = 1
    kind: Literal["comparison"] = "comparison"
    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    only_old: tuple[str, ...]
    """Variants, shapes and dtypes that the new result lacks."""
    only_new: tuple[str, ...]
    limits: Tolerances

    @property
    def regressions(self) -> list[Change]:
        """Changes that end a comparison with exit code 1."""
        return [change for change in self.changes if change.word == "REGRESSION"]


def shapes_of(result: Result) -> tuple[ShapeSpeed, ...]:
    """All timed shapes, in order."""
    return result.shapes if isinstance(result, SpeedReport) else result.timings


def compare(old: Result, new: Result, limits: Tolerances) -> Comparison:
    """Compares every variant and shape that both results have, and names the others."""
    rows, rows_now = _rows(old), _rows(new)
    speeds, speeds_now = _speeds(old), _speeds(new)
    changes = [c for key in rows if key in rows_now for c in _accuracy(rows[key], rows_now[key], limits)]
    changes += [_speed(key, speeds[key], speeds_now[key], limits) for key in speeds if key in speeds_now]
    before, after = (
        [*map(_place, has), *map(_place, timed)] for has, timed in ((rows, speeds), (rows_now, speeds_now))
    )
    places = {key: row.place for key, row in rows_now.items()}
    return Comparison(
        changes=tuple(msgspec.structs.replace(c, place=places.get((c.variant, c.dtype))) for c in changes),
        warnings=tuple(_warnings(old.environment, new.environment, old, new)),
        only_old=tuple(name for name in before if name not in after),
        only_new=tuple(name for name in after if name not in before),
        limits=limits,
    )


_Key = tuple[str, str, int, int]


def _rows(result: Result) -> dict[tuple[str, str], VariantResult]:
    return {(v.name, v.dtype): v for v in result.variants} if isinstance(result, Report) else {}


def _speeds(result: Result) -> dict[_Key, SpeedFigures]:
    return {(f.variant, s.dtype, s.rows, s.columns): f for s in shapes_of(result) for f in s.variants}


def _place(key: tuple[str, str] | _Key) -> str:
    name, dtype, *shape = key
    return f"{name}, {dtype}" + (f" {shape[0]}x{shape[1]}" if shape else "")


def _warnings(a: Environment, b: Environment, old: Result, new: Result) -> Iterator[str]:
    for what in ("backend", "device", "driver", "torch", "triton", "seed"):
        was, now = getattr(a, what), getattr(b, what)
        if was != now:
            yield f"{what} differs: {was} before, {now} now"
    if isinstance(old, Report) and isinstance(new, Report):
        ran, runs = {c.id for c in old.cases}, {c.id for c in new.cases}
        if ran != runs:
            yield f"the cases differ: {len(ran - runs)} were run before only, {len(runs - ran)} now only"
    shapes = (*shapes_of(old), *shapes_of(new))
    doubtful = {alarm.message for shape in shapes for alarm in shape.alarms}
    yield from sorted(doubtful)
    if any(shape.cache != "cold" for shape in shapes):
        yield "some shapes were not seen to be timed with a cold cache"
    for name, result in (("old", old), ("new", new)):
        if result.interrupted:
            yield f"the {name} result is of an interrupted run"


def _accuracy(old: VariantResult, new: VariantResult, limits: Tolerances) -> Iterator[Change]:
    yield _verdict(old, new)
    if old.cases_run and new.cases_run:
        yield _figure("max ULP", new, (old.max_ulp, new.max_ulp), limits.max_ulp_increase)
        # Below the bound a larger share is no promise broken, and the ULPs have said what there is to say.
        below = max(0.0, 1.0 - (old.max_bound_share or 0.0))
        yield _figure("error/bound", new, (old.max_bound_share, new.max_bound_share), below)
    yield from _findings(old, new)


def _verdict(old: VariantResult, new: VariantResult) -> Change:
    order = ("pass", "known", "unsupported", "error", "fail")
    worse = new.verdict in {"fail", "error"} and order.index(new.verdict) > order.index(old.verdict)
    lost = new.verdict == "unsupported" and old.verdict in {"pass", "known"}
    word: Word = "same" if old.verdict == new.verdict else "REGRESSION" if worse or lost else "changed"
    return Change(variant=new.name, dtype=new.dtype, what="verdict", old=old.verdict, new=new.verdict, word=word)


def _figure(what: str, new: VariantResult, values: tuple[float | None, float | None], allowed: float) -> Change:
    before, after = values
    word: Word
    if before is None or after is None:
        word = "same" if before is after else "REGRESSION" if after is None else "changed"
    elif after > before + allowed:
        word = "REGRESSION"
    else:
        word = "better" if after < before else "same" if after == before else "changed"
    said: dict[str, Any] = {"old": _shown(before), "new": _shown(after), "old_value": before, "new_value": after}
    return Change(variant=new.name, dtype=new.dtype, what=what, word=word, **said)


def _findings(old: VariantResult, new: VariantResult) -> Iterator[Change]:
    """A finding that no declared defect explains is new where the old result has none of its kind and case."""
    seen = {(str(f.kind), f.case) for f in old.findings if f.known is None}
    now = {(str(f.kind), f.case) for f in new.findings if f.known is None}
    words: tuple[tuple[Word, set[tuple[str, str]]], ...] = (("REGRESSION", now - seen), ("better", seen - now))
    for word, changed in words:
        kinds: dict[str, list[str]] = {}
        for kind, case in sorted(changed):
            kinds.setdefault(kind, []).append(case)
        for kind, cases in kinds.items():
            text = f"{len(cases)} more, first {cases[0]}" if word == "REGRESSION" else f"{len(cases)} gone"
            yield Change(variant=new.name, dtype=new.dtype, what=f"finding: {kind}", old="", new=text, word=word)


def _speed(key: _Key, old: SpeedFigures, new: SpeedFigures, limits: Tolerances) -> Change:
    before, after = old.copy_share, new.copy_share
    slowdown = quotient(before, after) if before is not None and after is not None else None
    word: Word
    if slowdown is None:
        word = "same" if before is after else "changed" if before is None else "REGRESSION"
    elif slowdown.low > 1 + limits.max_slowdown:
        word = "REGRESSION"
    elif slowdown.high > 1 + limits.max_slowdown:
        word = "AMBIGUOUS"
    else:
        word = "better" if slowdown.high < 1 else "same"
    return Change(
        variant=key[0],
        dtype=key[1],
        what=f"speed {key[2]}x{key[3]}",
        old=_percent(before),
        new=_percent(after) if after is not None else new.reason or old.reason or "not measured",
        word=word,
        old_value=before.mid if slowdown is not None and before is not None else None,
        new_value=after.mid if slowdown is not None and after is not None else None,
        slowdown=slowdown,
    )


def quotient(numerator: Interval, denominator: Interval) -> Interval:
    """The interval of a quotient of two independent positive quantities, by its extremes: wide, never too narrow."""
    return Interval(numerator.low / denominator.high, numerator.mid / denominator.mid, numerator.high / denominator.low)


def by_word(comparison: Comparison) -> Mapping[Word, list[Change]]:
    """Changes by word, the worst first; a word without changes is left out."""
    found: dict[Word, list[Change]] = {}
    order: tuple[Word, ...] = ("REGRESSION", "AMBIGUOUS", "changed", "better", "same")
    for word in order:
        members = [change for change in comparison.changes if change.word == word]
        if members:
            found[word] = members
    return found


def _shown(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _percent(share: Interval | None) -> str:
    return "not measured" if share is None else f"{share.mid * 100:.1f} % of copy"


HEADING = ["variant", "dtype", "what", "old", "new", "slowdown [low, high]", ""]


def _tables(comparison: Comparison) -> list[figures.TextTable]:
    rows = list(map(cells, told(comparison)))
    return [figures.TextTable("", HEADING, rows, are_numbers=False)] if rows else []


def render_table(comparison: Comparison, _display: Display = PLAIN) -> str:
    """Plain text: what changed, worst first, then what could not be compared."""
    lines = [line for table in _tables(comparison) for line in table.lines()]
    return "\n".join([*lines, *remarks(comparison), closing(comparison)]) + "\n"


def render_markdown(comparison: Comparison, _display: Display = PLAIN) -> str:
    """GitHub-flavoured Markdown: the verdict first."""
    return of_tables("compare", closing(comparison), _tables(comparison), remarks(comparison))


def render_github(comparison: Comparison, _display: Display = PLAIN) -> str:
    """Workflow commands of GitHub Actions: an error for each regression, a warning for what is ambiguous, then a notice."""
    from softcheck.report.ci import annotation

    levels: dict[Word, Literal["error", "warning"]] = {"REGRESSION": "error", "AMBIGUOUS": "warning"}
    lines = [
        annotation(
            levels[change.word],
            [content.one_line(f"{change.what}: {change.old or figures.NOT_MEASURED} before, {change.new} now")],
            title=content.one_line(f"{change.variant} {change.dtype}: {change.word.lower()}"),
            place=change.place,
        )
        for change in told(comparison)
        if change.word in levels
    ]
    lines.append(annotation("notice", [closing(comparison)], title="softcheck compare"))
    return "\n".join(lines) + "\n"


def told(comparison: Comparison) -> list[Change]:
    """Changes that are worth a line: all but figures that are the same."""
    return [change for word, changes in by_word(comparison).items() if word != "same" for change in changes]


def cells(change: Change) -> list[str]:
    """A change under ``HEADING``."""
    s = change.slowdown
    slowdown = f"{s.mid:.3f} [{s.low:.3f}, {s.high:.3f}]" if s else figures.NOT_MEASURED
    texts = (change.variant, change.dtype, change.what, change.old or figures.NOT_MEASURED, change.new)
    return [*(content.one_line(text) for text in texts), slowdown, change.word]


def remarks(comparison: Comparison) -> list[str]:
    """Lines on why the results may not be comparable, and on what only one of them holds."""
    return [
        *(f"warning: {content.one_line(warning)}" for warning in comparison.warnings),
        *(f"only in the old result: {content.one_line(name)}" for name in comparison.only_old),
        *(f"only in the new result: {content.one_line(name)}" for name in comparison.only_new),
    ]


def closing(comparison: Comparison) -> str:
    """The number of regressions beyond the limits, and of all changes by word."""
    tally = ", ".join(f"{len(changes)} {word}" for word, changes in by_word(comparison).items())
    limits = comparison.limits
    return (
        f"{figures.plural(len(comparison.regressions), 'regression')} beyond {limits.max_ulp_increase:g} ULP and "
        f"{limits.max_slowdown:.0%} slowdown; {tally or 'nothing in common to compare'}"
    )
