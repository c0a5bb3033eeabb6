"""Exhaustive runs of their own: every part is judged, unless the variant is given up."""

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from softcheck.cases.exhaustive import domain
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.report.build import build, exit_code
from softcheck.report.formats import render
from softcheck.run.exhaust import Exhausted, LeftOut, Parts, exhaust
from softcheck.run.journal import RunHeader
from softcheck.run.model import Run, RunOptions
from softcheck.run.patience import MOST_DEATHS, MOST_TIMEOUTS, Over, Patience
from softcheck.run.protocol import Ready
from softcheck.variants.declaration import Declaration, KnownDefect

SINGLE = domain("float16", 1)
PARTS = 64
ROWS = 2**10
READY = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
CRASH = Violation(FindingKind.CRASH, "gone")
TIMEOUT = Violation(FindingKind.TIMEOUT, "slow")


@dataclass
class Scripted:
    """A session whose variant breaks the promises that are given for a part's number, and judges nothing."""

    broken: dict[int, Violation]
    jobs: int = 1
    ready: Ready = READY
    patience: Patience = field(default_factory=Patience)
    calls: list[int] = field(default_factory=list)

    def run_domain(self, variant, judged, start, count):
        number = start // ROWS
        self.calls.append(number)
        violation = self.broken.get(number)
        found = answer(count) if violation is None else unmeasured((count, judged.columns), (violation,))
        self.patience.count(variant, judged.dtype, found.violations)
        return found


def answer(rows):
    return replace(unmeasured((rows, 1), ()), elements=rows, max_ulp=Extreme(0.4, 0, 0, "0000", "3c00"))


def journal_of(folder, sources, *, resume):
    header = RunHeader(softcheck="0", ready=READY, asked={"variant": "v"}, sources=sources)
    return Parts(folder / "journal", header, SINGLE, ROWS, resume=resume)


@pytest.fixture
def parts(tmp_path):
    opened = journal_of(tmp_path, {}, resume=False)
    yield opened
    opened.close()


def exhausted(session, parts):
    return exhaust(session, "v", Declaration(), SINGLE, parts, progress=lambda *_: None)


def run(session, parts):
    found = exhausted(session, parts)
    return found.measurement, found.left_out


@pytest.mark.parametrize("jobs", [1, 16])
def test_a_variant_none_of_whose_first_parts_answers_is_given_up(parts, jobs):
    session = Scripted(dict.fromkeys(range(PARTS), CRASH), jobs=jobs)
    measurement, left = run(session, parts)
    assert sorted(session.calls) == list(range(MOST_DEATHS))
    assert measurement.rows == MOST_DEATHS * ROWS
    assert (left.over.kind, left.parts, left.of) == (FindingKind.CRASH, PARTS - MOST_DEATHS, PARTS)
    assert (left.rows, left.first_row) == (2**16 - MOST_DEATHS * ROWS, MOST_DEATHS * ROWS)


@pytest.mark.parametrize("alive", range(MOST_DEATHS))
def test_one_answer_among_the_first_is_enough_to_go_on(parts, alive):
    session = Scripted({number: CRASH for number in range(PARTS) if number != alive})
    measurement, left = run(session, parts)
    assert (len(session.calls), measurement.rows, left) == (PARTS, 2**16, None)
    assert measurement.violations[0].count == PARTS - 1


def test_parts_that_run_out_of_time_are_borne_only_a_few_times(parts):
    session = Scripted(dict.fromkeys(range(10, PARTS), TIMEOUT))
    measurement, left = run(session, parts)
    assert len(session.calls) == 10 + MOST_TIMEOUTS
    assert left.over.kind is FindingKind.TIMEOUT
    assert measurement.rows + left.rows == 2**16


def test_a_resumed_run_remembers_which_parts_ended_their_process(parts):
    for number in range(MOST_DEATHS - 1):
        parts.add(number, unmeasured((ROWS, 1), (CRASH,)))
    session = Scripted(dict.fromkeys(range(PARTS), CRASH))
    _, left = run(session, parts)
    assert session.calls == [MOST_DEATHS - 1]
    assert left.parts == PARTS - MOST_DEATHS


def test_a_run_is_not_resumed_after_a_change_to_the_code(tmp_path):
    journal_of(tmp_path, {"softcheck": "a", "v": "b"}, resume=False).close()
    journal_of(tmp_path, {"softcheck": "a", "v": "b"}, resume=True).close()
    with pytest.raises(UsageError, match="the source of v has changed since"):
        journal_of(tmp_path, {"softcheck": "a", "v": "c"}, resume=True)


def test_a_resumed_run_remembers_an_answer(parts):
    parts.add(0, answer(ROWS))
    session = Scripted(dict.fromkeys(range(1, PARTS), CRASH))
    assert run(session, parts)[1] is None
    assert len(session.calls) == PARTS - 1


@pytest.mark.parametrize(("journalled", "rows"), [(0, PARTS - 1), (3, PARTS - 4), (PARTS - 1, 1), (PARTS, 0)])
def test_the_rate_is_of_the_parts_run_but_the_first(parts, journalled, rows):
    for number in range(journalled):
        parts.add(number, answer(ROWS))
    found = exhausted(Scripted({}), parts)
    assert found.measurement.rows == 2**16
    assert found.at_speed[0] == rows * ROWS
    assert (found.rows_per_second > 0) == (rows > 0)


def given_up(declaration):
    left = LeftOut(Over(FindingKind.CRASH, "each of the first 5 calls"), parts=59, of=64, rows=60416, first_row=5120)
    measurement = unmeasured((5120, 1), (replace(CRASH, count=5),))
    result = Exhausted("v", declaration, SINGLE, measurement, 9.0, left)
    options = RunOptions(variants=("v",), dtypes=(SINGLE.dtype,), cases=(), whole_corpus=False)
    run = Run(options=options, ready=READY, declarations={"v": declaration}, exhausted=[result])
    return build(run, command=["softcheck", "exhaust"])


def test_what_was_left_out_is_a_finding_that_no_declared_defect_explains():
    declared = Declaration(known_defects=(KnownDefect(kinds=(FindingKind.CRASH,), reason="needs a GPU"),))
    report = given_up(declared)
    (row,), (behind,) = report.variants, report.exhaustive
    assert [(f.known, f.count) for f in row.findings] == [(None, 59), ("needs a GPU", 5)]
    assert row.findings[0].message == (
        "given up: each of the first 5 calls; 59 of 64 parts were not run, 60,416 rows, row 5120 the first; "
        "expected an output of each"
    )
    assert len({f.id for f in row.findings}) == 2
    assert (row.verdict, row.ulp_is, exit_code(report)) == ("fail", "at least", 1)
    assert (behind.is_complete, behind.ulp_is, behind.rows) == (False, "at least", 5120)


def test_a_report_of_rows_that_gave_no_output_says_how_many_were_left_out():
    text = render(given_up(Declaration()), "table")
    assert "every row of 1 float16 patterns, 59 of 64 parts left out (each of the first 5 calls): max " in text
    assert "ULP, 5,120 rows" in text
    assert "share of elements" not in text


@pytest.mark.parametrize(("at_speed", "rate"), [(None, 64 * ROWS / 8.0), ((63 * ROWS, 2.0), 63 * ROWS / 2.0)])
def test_speed_is_without_the_first_part_where_there_are_more(at_speed, rate):
    result = Exhausted("v", Declaration(), SINGLE, answer(64 * ROWS), 8.0, at_speed=at_speed)
    assert result.rows_per_second == rate
