"""Contents of the readable formats, in the same words and order: heading, columns, findings, closing line."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from string import hexdigits
from typing import NamedTuple, get_args

import numpy as np

from oracles.formats import FLOAT32, FORMATS, Format, decode
from softcheck.cases.case import GENERATED
from softcheck.operations.registry import operation
from softcheck.probes.registry import TELLING
from softcheck.report import figures
from softcheck.report.model import Cause, Environment, Finding, Report, VariantResult, Verdict, Witness

INTERPRETER_HEADING = "interpreter: logic checked, not GPU arithmetic; no speed"

LONGEST_COMMAND = 600
"""A command of more characters, which a wide row makes, would bury the rest."""


class Column(NamedTuple):
    """One column of the verdict table."""

    title: str
    cell: Callable[[VariantResult], str]
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings on one variant: of one cause, or of one kind and explained by the same declared defect or by none."""

    result: VariantResult
    findings: tuple[Finding, ...]
    cause: Cause | None = None

    @property
    def first(self) -> Finding:
        """The finding that tells most: of a probe that names the failing sizes, else the first one, of a saved case if any is."""
        order = {probe: place for place, probe in enumerate(TELLING)}
        return min(
            self.findings, key=lambda f: (order.get(f.probe or "", len(order)), f.case.startswith(f"{GENERATED}/"))
        )

    @property
    def cases(self) -> int:
        """The number of findings of a cause, of cases or trials of a kind."""
        return len({f.case for f in self.findings}) if self.cause is None else len(self.findings)

    @property
    def noun(self) -> str:
        """The word for one of ``cases``."""
        return "finding" if self.cause is not None else "trial" if self.findings[0].from_probe else "case"

    @property
    def others(self) -> str:
        """A remark on the findings left out, and the format that shows them; empty if none is left out."""
        more, first = self.cases - 1, self.first
        probes = dict.fromkeys(f.probe for f in self.findings if f.case != first.case and f.probe is not None)
        by = f" of {', '.join(probes)}" if probes else ""
        return f"and {figures.plural(more, f'more {self.noun}')}{by}: see --format json" if more else ""

    @property
    def extent(self) -> str:
        """``wrong_layout in 12 cases``, or the cause, its fix and the kinds that show it."""
        return f"{self.fault}; {self.mend}" if self.mend else self.fault

    @property
    def mend(self) -> str:
        """The usual fix of the cause; empty if there is none to name."""
        return "" if self.cause is None else one_line(self.cause.mend)

    @property
    def fault(self) -> str:
        """What ``extent`` says, without the fix."""
        if self.cause is not None:
            return f"{one_line(self.cause.text)} ({_count_kinds(self.findings)})"
        return f"{self.first.kind} in {figures.plural(self.cases, self.noun)}"


_LONG_LINE = 2000
"""Characters of a line that says how a variant is called, with the meaning of each name."""


def heading(report: Report) -> list[str]:
    """Lines that tell how variants are called, and then where and with what software the figures were measured."""
    e = report.environment
    return [
        *(one_line(call, limit=_LONG_LINE) for call in report.calls),
        *([INTERPRETER_HEADING, f"device {device(e)}"] if e.backend == "interpreter" else [f"cuda: {device(e)}"]),
        versions(e),
        f"{counted(report)}; seed {e.seed}; command: {command(e.command)}",
    ]


def device(environment: Environment) -> str:
    """``NVIDIA H200, driver 570.86.15``."""
    driver = "" if environment.driver is None else f", driver {environment.driver}"
    return f"{one_line(environment.device)}{driver}"


def versions(e: Environment) -> str:
    """``softcheck 0.1.0 (0123456789ab), torch 2.11.0, triton 3.6.0, python 3.11.9``."""
    commit = "" if e.git_commit is None else f" ({e.git_commit[:12]})"
    return f"softcheck {e.softcheck}{commit}, torch {e.torch}, triton {e.triton}, python {e.python}"


def counted(report: Report) -> str:
    """``168 cases in 19 families, 12 probes``; if only cases or only probes were run, the other is left out."""
    families = len({case.family for case in report.cases})
    probes = len({name for result in report.variants for name in result.probes_run})
    cases = f"{figures.plural(len(report.cases), 'case')} in {families} {'family' if families == 1 else 'families'}"
    if not probes:
        return cases
    return f"{cases}, {figures.plural(probes, 'probe')}" if report.cases else figures.plural(probes, "probe")


def columns(report: Report) -> list[Column]:
    """At most eight columns of the verdict table; where errors are counted in other ULPs than the result's, ULP has a star."""
    is_timed = report.environment.backend == "cuda"
    counts_flops = any(result.tflop_per_s is not None for result in report.variants)
    rate = (
        ("Tflop/s", lambda r: figures.speed(r.tflop_per_s))
        if counts_flops
        else ("GB/s", lambda r: figures.speed(r.gb_per_s))
    )
    has_peers = any(result.peers for result in report.variants)
    return [
        Column("variant", lambda r: one_line(r.name), numeric=False),
        Column("verdict", lambda r: r.verdict, numeric=False),
        Column("error/ bound", lambda r: figures.bound_share(r.max_bound_share)),
        Column(f"max ULP{'*' if unit_line(report) else ''}", figures.max_ulp),
        *([Column(*rate), Column("vs torch", lambda r: figures.ratio(r.speed_vs_torch))] if is_timed else []),
        *([Column("peers", _peers, numeric=False)] if has_peers else []),
        Column("findings", kinds, numeric=False),
    ]


def legend(report: Report) -> list[tuple[str, str]]:
    """Meanings of the table's less plain words and signs that the report shows, in at most five words each."""
    judged = [result for result in report.variants if result.max_ulp is not None]
    said = (
        ("known", "declared defects alone", any(result.verdict == "known" for result in report.variants)),
        ("error/bound", "above 1 is a finding", bool(judged)),
        ("≥", "largest of those run", any(result.ulp_is == "at least" for result in judged)),
        ("=", "largest there is", any(result.ulp_is == "exact" for result in judged)),
    )
    return [(word, meaning) for word, meaning, is_shown in said if is_shown]


def unit_line(report: Report) -> str | None:
    """Says in one line in which ULPs the errors of each operation are counted; None if all are counted in the result's own."""
    judged = dict.fromkeys(result.operation for result in report.variants if result.max_ulp is not None)
    units = {name: operation(name).scale_text for name in judged}
    if not any(units.values()):
        return None
    said = "; ".join(f"{name} in ULPs {unit or 'of the result'}" for name, unit in units.items())
    return (
        f"ULP*: errors are counted at the size of the terms that are added or subtracted, not of their result: {said}; "
        "a large one passes at an error/bound up to 1, where rounded logits move the answer as far"
    )


def lines_below(report: Report) -> list[str]:
    """Returns the lines that explain units and the verdicts of usual rules, of those that the table shows."""
    unit, peers = unit_line(report), [PEERS] if any(result.peers for result in report.variants) else []
    return [*([unit] if unit else []), *peers]


PEERS = (
    "peers: what usual rules say of the same outputs, against the exact answer rounded; 2x: flash-attention's, an error of at most twice that of a "
    "plain computation in the dtype, for 16 bits; assert_close: torch.testing's tolerances"
)


def _peers(result: VariantResult) -> str:
    said = (f"{p.rule} {f'{p.refused} of {p.cases} fail' if p.refused else 'pass'}" for p in result.peers if p.cases)
    return ", ".join(said) or figures.NOT_MEASURED


def place(witness: Witness | Finding) -> str:
    """Case, row and column in few characters."""
    row = "" if witness.row is None else f" row {witness.row}"
    column = "" if witness.column is None else f" column {witness.column}"
    return f"{one_line(witness.case)}{row}{column}"


def kinds(result: VariantResult) -> str:
    """Kinds of findings with the number of cases, declared ones last, then what the verdict leaves open."""
    if not result.was_run:
        return _kinds(result)
    return "; ".join((_kinds(result), *reservations(result)))


def reservations(result: VariantResult) -> list[str]:
    """What a verdict leaves open, in the verdict's own line: sizes, cases and options that were not judged, and a weaker contract."""
    # Widths that take too long to compile are cases that were not run too, and named by the width alone.
    missed = result.cases_unable and not result.holds
    share = share_run(result)
    return [
        *([f"holds {result.holds}"] if result.holds else []),
        *([f"{figures.plural(result.cases_unable, 'case')} not run"] if missed else []),
        *([share] if share else []),
        *([f"not judged: {', '.join(map(one_line, result.not_judged))}"] if result.not_judged else []),
        *([f"weaker contract: {result.weaker_contract}"] if result.weaker_contract else []),
    ]


def share_run(*results: VariantResult) -> str:
    """The share of the planned trials that were made in full; empty where none was cut short, or where something is wrong anyway."""
    judged = [result for result in results if result.verdict in {"pass", "known"}]
    planned, cut = sum(result.trials_planned for result in judged), sum(result.trials_cut for result in judged)
    share = figures.percent(100 * (planned - cut) / planned) if cut else ""
    return share and f"{share} of {figures.plural(planned, 'planned trial')} ran in full"


def _kinds(result: VariantResult) -> str:
    if not result.findings:
        return "none" if result.was_run else figures.NOT_MEASURED
    new = _count_kinds(f for f in result.findings if f.known is None)
    known = _count_kinds(f for f in result.findings if f.known is not None)
    return f"{new} (known: {known})" if new and known else new or known


def _count_kinds(findings: Iterable[Finding]) -> str:
    counted = Counter(str(f.kind) for f in findings)
    return ", ".join(f"{kind} {figures.TIMES}{number}" for kind, number in counted.most_common())


def by_dtype(report: Report) -> dict[str, list[VariantResult]]:
    """Results in sections of one dtype each, both in the order of the report."""
    sections: dict[str, list[VariantResult]] = {}
    for result in report.variants:
        sections.setdefault(result.dtype, []).append(result)
    return sections


def finding_groups(report: Report, *, known: bool) -> list[FindingGroup]:
    """Groups findings by cause, or by kind and defect; with ``known`` those that a declared defect explains, otherwise all others."""
    return [group for result in report.variants for group in groups_of(result, known=known)]


def groups_of(result: VariantResult, *, known: bool) -> list[FindingGroup]:
    """Groups the findings of one row as ``finding_groups`` does."""
    if result.causes and not known:
        return [
            FindingGroup(result, tuple(f for f in result.findings if f.id in cause.findings), cause)
            for cause in result.causes
        ]
    grouped: dict[tuple[str, str | None, bool], list[Finding]] = {}
    for finding in result.findings:
        if (finding.known is not None) == known:
            grouped.setdefault((finding.kind, finding.known, finding.from_probe), []).append(finding)
    return [FindingGroup(result, tuple(found)) for found in grouped.values()]


def shared_groups(report: Report) -> list[list[FindingGroup]]:
    """Undeclared groups, those of one variant that are the same in several dtypes, by cause or kind, together."""
    alike: dict[tuple[str, str], list[FindingGroup]] = {}
    for group in finding_groups(report, known=False):
        words = group.cause.text if group.cause else f"{group.first.kind} {group.noun}"
        alike.setdefault((group.result.name, words), []).append(group)
    return list(alike.values())


def subject(result: VariantResult) -> str:
    """``one_block float16``."""
    return f"{one_line(result.name)} {result.dtype}"


def worst_element(result: VariantResult) -> str | None:
    """The witness of the maximum in one line; None if there is no maximum."""
    witness = result.witness
    if witness is None:
        return None
    given = f"input {value_of(witness.input_bits, result.dtype)}, " if witness.input_bits else ""
    text = (
        f"{figures.max_ulp(result)} ULP{'*' if operation(result.operation).scale_text else ''} at {place(witness)}: {given}"
        f"output {value_of(witness.output_bits, result.dtype)}, exact {one_line(witness.exact)}"
    )
    if result.flushed and result.max_ulp_ftz is not None:
        text += (
            f"; {figures.figure(result.max_ulp_ftz, ROUND_FLOOR)} ULP where flushed results count as the format's own"
        )
    if result.max_abs_difference_to_torch is not None:
        text += f"; largest difference from torch {figures.figure(result.max_abs_difference_to_torch)}"
        if result.verdict == "pass" and result.max_abs_difference_to_torch >= 1.0:
            text += " (absolute; error/bound judges it)"
    return text


def value_of(bits: str, dtype: str) -> str:
    """A bit pattern with its value: ``3c00 = 1 (0x1p+0)``; the pattern alone if it is one of neither the dtype nor float32."""
    found = _read(bits, dtype)
    if found is None:
        return one_line(bits)
    significand, mark, exponent = found[0].hex().partition("p")
    # Without the zeros that ``float.hex`` pads with.
    short = significand.rstrip("0").rstrip(".") + mark + exponent if mark else significand
    return f"{bits} = {decimal_of(bits, dtype)} ({short})"


def decimal_of(bits: str, dtype: str) -> str:
    """A bit pattern's value in decimal, with the digits that tell all values of its format apart; empty if it is none."""
    found = _read(bits, dtype)
    return "" if found is None else f"{found[0]:.{found[1].decimal_digits}g}"


def _read(bits: str, dtype: str) -> tuple[float, Format] | None:
    fmt = FORMATS.get(dtype)
    if fmt is not None and fmt.width == 16 and len(bits) == FLOAT32.hex_digits:
        fmt = FLOAT32
    if fmt is None or len(bits) != fmt.hex_digits or not set(bits) <= set(hexdigits):
        return None
    return float(decode(np.array([int(bits, 16)], dtype=fmt.storage), fmt)[0]), fmt


def probe_lines(report: Report) -> list[str]:
    """Lines such as ``one_block float16, tiled float16: 12 probes, 431 trials; batch_invariant yes``, one for all equal results."""
    said = []
    for result in report.variants:
        if result.probes_run:
            text = f"{figures.plural(len(result.probes_run), 'probe')}, {figures.plural(result.trials, 'trial')}"
            properties = (f"{one_line(n)} {'yes' if holds else 'no'}" for n, holds in result.properties.items())
            said.append((subject(result), "; ".join([text, *properties])))
    return figures.alike(said)


def arithmetic_lines(report: Report) -> list[str]:
    """Lines about weaknesses of kernels' arithmetic against the standard contract; variants and dtypes with equal results share one."""
    said = []
    for result in report.variants:
        found = result.arithmetic
        if found is not None and (found.weaknesses or found.leaves_contract):
            left = found.leaves_contract
            parts = [*found.weaknesses, *([] if left is None else [f"leaves the standard contract {left}"])]
            said.append((subject(result), "; ".join(one_line(part) for part in parts)))
    return figures.alike(said)


def exhaustive_lines(report: Report) -> list[str]:
    """Lines for each set that was judged whole: the number of rows of each class, and the spread of the ULP errors."""
    lines = []
    for result in report.exhaustive:
        unjudged = f", {result.unjudged_rows:,} without an output" if result.unjudged_rows else ""
        lines.append(
            f"{one_line(result.name)} {one_line(result.dtype)}: {one_line(result.domain)}: "
            f"max {figures.max_ulp(result)} ULP, {result.rows:,} rows "
            f"({result.ordinary_rows:,} ordinary, {result.nan_rows:,} NaN, {result.fully_masked_rows:,} fully masked{unjudged}), "
            f"{result.rows_per_second:,.0f} rows/s, judged in {one_line(result.judged_in)}"
        )
        elements = sum(b.elements for b in result.histogram)
        if elements == 0:
            continue
        shares = ", ".join(f"< {b.below:.3g}: {b.elements / elements:.3g}" for b in result.histogram)
        lines.append(f"  share of elements by ULP error: {shares}")
    return lines


def save_lines(finding: Finding) -> list[str]:
    """The command that keeps the row of a finding, if it has one, or the place of a command too long to print."""
    if finding.save is None:
        return []
    known = len(finding.save) <= LONGEST_COMMAND
    return [f"$ {command(finding.save)}" if known else "# the command that keeps the row is in --format json"]


def blocks(
    report: Report, quoted: Callable[[str], str] = str, escaped: Callable[[str], str] = str
) -> dict[str, list[str]]:
    """Titles and lines of what is known beside verdicts and findings; ``quoted`` writes a name and ``escaped`` other text as a format needs it."""
    worst = [(result, worst_element(result)) for result in report.variants]
    named = {
        "unsupported or in error": [(r, f"{r.verdict}: {one_line(r.reason)}") for r in report.variants if r.reason],
        "worst elements": [(result, text) for result, text in worst if text],
    }
    told = {title: [f"{quoted(subject(r))}: {escaped(text)}" for r, text in found] for title, found in named.items()}
    plain = {
        "cases that could not be run": [one_line(error) for error in report.errors],
        "probes": probe_lines(report),
        "arithmetic": [one_line(line) for line in arithmetic_lines(report)],
        "exhaustive": exhaustive_lines(report),
        "speed of copy and torch": speed_lines(report),
        "notes": [one_line(note) for note in report.notes],
    }
    told |= {title: list(map(escaped, lines)) for title, lines in plain.items()}
    first = ("unsupported or in error", "cases that could not be run", "worst elements")
    return {title: told[title] for title in (*first, *told)}


def speed_lines(report: Report) -> list[str]:
    """The baselines measured beside the variants; GB/s counts bytes read and written."""
    return [
        f"{s.dtype} {s.rows}{figures.TIMES}{s.columns}: device copy {figures.speed(s.gb_per_s)} GB/s, "
        f"torch {figures.speed(s.torch_gb_per_s)} GB/s"
        for s in report.speed
    ]


def summary(report: Report) -> str:
    """The closing line: ``15 variants: 9 pass, 6 known; 168 cases in 19 families; 42 s``."""
    tally = Counter(result.verdict for result in report.variants)
    ran = {v: share_run(*(r for r in report.variants if r.verdict == v)) for v in tally}
    told = [f"{tally[v]} {v}" + (f" ({ran[v]})" if ran[v] else "") for v in get_args(Verdict) if tally[v]]
    verdicts = ", ".join(told) or "nothing judged"
    names = len({result.name for result in report.variants})
    dtypes = len({result.dtype for result in report.variants})
    where = f" in {figures.plural(dtypes, 'dtype')}" if dtypes > 1 else ""
    counts = (
        f"{figures.plural(names, 'variant')}{where}: {verdicts}; {counted(report)}; {figures.duration(report.seconds)}"
    )
    if report.cases and all(case.family == "exhaustive" and case.shape[1] == 1 for case in report.cases):
        counts += "; one column shows NaN, infinities and masks alone, since any finite logit gives 1: judge pairs by --columns 2"
    return f"{counts}; INTERRUPTED" if report.interrupted else counts


def one_line(text: str, limit: int = 2000) -> str:
    """Foreign text made safe to print: one line, no control characters, at most ``limit`` characters, without its middle if it is longer."""
    printable = "".join(_printable(character) for character in " ".join(text.split()))
    if len(printable) <= limit:
        return printable
    kept = (limit - 1) // 2
    return f"{printable[: limit - 1 - kept]}…{printable[len(printable) - kept :]}"


def command(text: str) -> str:
    """A shell command as it is, so that it can be copied; only what would not print is escaped."""
    return one_line(text, limit=10_000)


def _printable(character: str) -> str:
    """The character, or its escape where it would move the cursor, reorder the text or not encode."""
    if unicodedata.category(character) in {"Cc", "Cf", "Cs"}:
        return character.encode("unicode_escape").decode("ascii")
    return character
