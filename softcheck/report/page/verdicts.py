"""The strip of verdicts: one line for each variant, a verdict for each dtype, and its cause in one sentence."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softcheck.explain import of_kind
from softcheck.report import content, figures
from softcheck.report.model import Finding, Report, VariantResult, Verdict


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One variant: its verdicts in each dtype of the report with the anchors of their rows, and the sentences on them."""

    name: str
    verdicts: tuple[tuple[tuple[Verdict, str], ...], ...]
    sentences: tuple[tuple[str, str], ...]
    """Sentences with the dtypes that they hold for; these are empty if the sentence holds for all."""


def contents(report: Report) -> Mapping[str, object] | None:
    """The lines of the strip, in the order of the report."""
    if not report.variants:
        return None
    dtypes = list(content.by_dtype(report))
    of_name: dict[str, list[tuple[VariantResult, str]]] = {}
    for result, anchor in zip(report.variants, row_anchors(report), strict=True):
        of_name.setdefault(result.name, []).append((result, anchor))
    return {"dtypes": dtypes, "lines": [_line(name, found, dtypes) for name, found in of_name.items()]}


def _line(name: str, found: Sequence[tuple[VariantResult, str]], dtypes: Sequence[str]) -> VerdictLine:
    said: dict[str, list[str]] = {}
    for result, _ in found:
        said.setdefault(sentence(result), []).append(result.dtype)
    return VerdictLine(
        content.one_line(name),
        tuple(tuple((result.verdict, anchor) for result, anchor in found if result.dtype == d) for d in dtypes),
        tuple((text, "" if len(said) == 1 else ", ".join(dict.fromkeys(of))) for text, of in said.items()),
    )


def sentence(result: VariantResult) -> str:
    """The reason of a verdict: the first cause, the defect's reason, or the extent to which the contract was kept."""
    if result.reason:
        return content.one_line(result.reason)
    if result.was_run:
        return content.one_line("; ".join((_outcome(result), *content.reservations(result))))
    return _outcome(result)


def _outcome(result: VariantResult) -> str:
    """What a verdict rests on."""
    if result.causes:
        more = len(result.causes) - 1
        return content.one_line(result.causes[0].text) + (f"; and {figures.plural(more, 'more cause')}" if more else "")
    new = [finding for finding in result.findings if finding.known is None]
    if new:
        return _of_kinds(new)
    reasons = list(dict.fromkeys(finding.known for finding in result.findings if finding.known is not None))
    if reasons:
        more = len(reasons) - 1
        return content.one_line(reasons[0]) + (f"; and {figures.plural(more, 'more defect')}" if more else "")
    return "no broken promise" if result.was_run else "nothing was run"


def _of_kinds(findings: list[Finding]) -> str:
    kinds = list(dict.fromkeys(finding.kind for finding in findings))
    more = len(kinds) - 1
    return of_kind(kinds[0]).meaning + (f"; and {figures.plural(more, 'more kind')}" if more else "")


def row_anchors(report: Report) -> list[str]:
    """The id of each result's row in the table of figures, in the report's order: ``row-one_block-float16``.

    A second row of the same name and dtype ends in its number.
    """
    seen: Counter[str] = Counter()
    anchors = []
    for result in report.variants:
        slug = re.sub(r"[^a-z0-9_.]+", "-", f"{result.name} {result.dtype}".lower()).strip("-")
        seen[slug] += 1
        anchors.append(f"row-{slug}" + (f"-{seen[slug]}" if seen[slug] > 1 else ""))
    return anchors
