"""A comparison for readers: table, Markdown for a pull request, JSON, annotations."""

from typing import Literal

import msgspec

from softcheck.report import content, figures
from softcheck.report.ci import annotation
from softcheck.report.compare import Change, Comparison, Word, by_word
from softcheck.report.markdown import escape, table_row
from softcheck.report.output import PLAIN, Display

HEADING = ["variant", "dtype", "what", "old", "new", "slowdown [low, high]", ""]


def render_table(comparison: Comparison, _display: Display = PLAIN) -> str:
    """Plain text: what changed, worst first, then what could not be compared."""
    rows = [cells(c) for c in told(comparison)]
    lines = figures.aligned([HEADING, *rows]) if rows else []
    return "\n".join([*lines, *remarks(comparison), closing(comparison)]) + "\n"


def render_markdown(comparison: Comparison, _display: Display = PLAIN) -> str:
    """GitHub-flavoured Markdown: the verdict first."""
    rows = [cells(c) for c in told(comparison)]
    lines = ["## softcheck compare", "", f"**{escape(closing(comparison))}**"]
    if rows:
        lines += ["", table_row(HEADING), table_row(["---"] * len(HEADING))]
        lines += [table_row(map(escape, row)) for row in rows]
    noted = remarks(comparison)
    return "\n".join([*lines, *([""] if noted else []), *(f"- {escape(line)}" for line in noted)]) + "\n"


def render_json(comparison: Comparison, _display: Display = PLAIN) -> str:
    """JSON with every change, also with figures that are the same."""
    encoded = msgspec.json.encode({"schema_version": 1, "kind": "comparison", **msgspec.structs.asdict(comparison)})
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def render_github(comparison: Comparison, _display: Display = PLAIN) -> str:
    """Workflow commands of GitHub Actions: an error for each regression, a warning for what is ambiguous, then a notice."""
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
