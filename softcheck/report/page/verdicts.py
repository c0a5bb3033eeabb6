"""The strip of verdicts: one line for each variant, a verdict for each dtype, and its cause in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass

from softcheck.explain import of_kind
from softcheck.report import content, figures
from softcheck.report.model import Finding, Report, VariantResult


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One variant: its result in each dtype of the report, None where it has none, and the sentences on them."""

    name: str
    results: tuple[VariantResult | None, ...]
    sentences: tuple[tuple[str, str], ...]
    """Sentences with the dtypes that they hold for; these are empty if the sentence holds for all."""


def contents(report: Report) -> Mapping[str, object] | None:
    """The lines of the strip, in the order of the report."""
    if not report.variants:
        return None
    dtypes = list(content.by_dtype(report))
    lines = []
    for name in dict.fromkeys(result.name for result in report.variants):
        found = {result.dtype: result for result in report.variants if result.name == name}
        said: dict[str, list[str]] = {}
        for dtype, result in found.items():
            said.setdefault(sentence(result), []).append(dtype)
        sentences = tuple((text, "" if len(said) == 1 else ", ".join(of)) for text, of in said.items())
        lines.append(VerdictLine(content.one_line(name), tuple(found.get(d) for d in dtypes), sentences))
    return {"dtypes": dtypes, "lines": lines, "row_anchor": row_anchor}


def sentence(result: VariantResult) -> str:
    """The reason of a verdict: the first cause, the defect's reason, or the extent to which the contract was kept."""
    if result.reason:
        return content.one_line(result.reason)
    new = [finding for finding in result.findings if finding.known is None]
    if result.causes:
        more = len(result.causes) - 1
        return content.one_line(result.causes[0].text) + (f"; and {figures.plural(more, 'more cause')}" if more else "")
    if new:
        return _of_kinds(new)
    reasons = list(dict.fromkeys(finding.known for finding in result.findings if finding.known is not None))
    if reasons:
        more = len(reasons) - 1
        return content.one_line(reasons[0]) + (f"; and {figures.plural(more, 'more defect')}" if more else "")
    if not result.was_run:
        return "nothing was run"
    weaker = f"; held to a weaker contract: {result.weaker_contract}" if result.weaker_contract else ""
    holds = f"; holds {result.holds}" if result.holds else ""
    return content.one_line(f"no broken promise{holds}{weaker}")


def _of_kinds(findings: list[Finding]) -> str:
    kinds = list(dict.fromkeys(finding.kind for finding in findings))
    more = len(kinds) - 1
    return of_kind(kinds[0]).meaning + (f"; and {figures.plural(more, 'more kind')}" if more else "")


def row_anchor(result: VariantResult) -> str:
    """The id of a variant's row in the table, made of letters that need no escape in a link."""
    return "row-" + "".join(
        c if c.isascii() and c.isalnum() else f"-{ord(c):x}-" for c in f"{result.name} {result.dtype}"
    )
