"""How measurements become verdicts, findings and exit codes."""

import msgspec
import numpy as np
import pytest

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.report.build import build, exit_code
from softcheck.run.check import Options, Run
from softcheck.run.protocol import Ready, Timed
from softcheck.run.session import Result, Speeds
from softcheck.variants.declaration import Declaration, KnownDefect

READY = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
ULP = Violation(FindingKind.ULP_EXCEEDS_BOUND, "7 ULP, expected at most 0.5")


def case(family, name="a"):
    bits = np.array([[0x3C00, 0x4000]], dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", family=family, name=name)


def measured(*violations, ulp=0.4):
    extreme = Extreme(ulp, 0, 1, "4000", "39d9")
    return msgspec.structs.replace(
        unmeasured((1, 2), violations), elements=2, max_ulp=extreme, ulp_sum=ulp, histogram={0: 2}, flushed=0
    )


def run_of(declaration, measurements, *, whole=True, refused=None, dtypes=("float16",), **more):
    cases = tuple(c for c, _ in measurements)
    options = Options(variants=("v",), dtypes=dtypes, cases=cases, whole_corpus=whole)
    run = Run(options=options, ready=READY, **more)
    if refused is None:
        run.declarations["v"] = declaration
    else:
        run.refused["v"] = refused
    run.results.extend(Result("v", c, m, 0.1) for c, m in measurements)
    return run


def report_of(*arguments, **more):
    return build(run_of(*arguments, **more), command=["softcheck", "report"])


def defect(**more):
    return Declaration(
        known_defects=(KnownDefect(kinds=(FindingKind.ULP_EXCEEDS_BOUND,), reason="sums in 16 bits", **more),)
    )


def test_clean_measurements_pass():
    report = report_of(Declaration(), [(case("ties"), measured())])
    (row,) = report.variants
    assert (row.verdict, row.max_ulp, row.mean_ulp, row.ulp_is) == ("pass", 0.4, 0.2, "at least")
    assert row.witness is not None
    assert row.witness.exact.startswith("0.7310585786300048792")
    assert exit_code(report) == 0


def test_undeclared_finding_fails_and_is_reproducible():
    report = report_of(Declaration(), [(case("ties"), measured(ULP))])
    (row,) = report.variants
    assert row.verdict == "fail"
    assert row.findings[0].reproduce == (
        "softcheck report --variant v --dtype float16 --case ties/a/float16 --device interpreter"
    )
    assert exit_code(report) == 1


def test_declared_defect_is_known():
    report = report_of(defect(), [(case("ties"), measured(ULP)), (case("ramp"), measured())])
    assert report.variants[0].verdict == "known"
    assert report.variants[0].findings[0].known == "sums in 16 bits"
    assert exit_code(report) == 0


@pytest.mark.parametrize(
    ("more", "violation"),
    [
        ({"cases": ("layout/*",)}, ULP),
        ({"dtypes": ("bfloat16",)}, ULP),
        ({"backends": ("cuda",)}, ULP),
        ({}, Violation(FindingKind.SUM_VIOLATION, "0.9")),
    ],
)
def test_defect_explains_nothing_beyond_its_cases_dtypes_backends_and_kinds(more, violation):
    report = report_of(defect(**more), [(case("ties"), measured(violation))], whole=False)
    assert report.variants[0].verdict == "fail"


def test_declared_defect_that_does_not_show_is_an_error():
    report = report_of(defect(), [(case("ties"), measured())])
    assert report.variants[0].verdict == "error"
    assert "not found" in report.variants[0].reason
    assert exit_code(report) == 1


@pytest.mark.parametrize(
    ("more", "whole"), [({"cases": ("layout/*",)}, True), ({"backends": ("cuda",)}, True), ({}, False)]
)
def test_defect_that_had_no_chance_to_show_is_no_error(more, whole):
    assert report_of(defect(**more), [(case("ties"), measured())], whole=whole).variants[0].verdict == "pass"


def test_undeclared_dtype_is_unsupported_and_alone_means_nothing_ran():
    report = report_of(Declaration(dtypes=("float32",)), [])
    assert report.variants[0].verdict == "unsupported"
    assert report.variants[0].max_ulp is None
    assert exit_code(report) == 3


def test_refused_variant_is_an_error_with_exit_2():
    report = report_of(None, [], refused="returned list")
    assert (report.variants[0].verdict, report.variants[0].reason) == ("error", "returned list")
    assert exit_code(report) == 2


def test_figures_that_were_not_measured_are_null():
    raised = unmeasured((1, 2), (Violation(FindingKind.RAISED, "no"),))
    row = report_of(Declaration(), [(case("ties"), raised)]).variants[0]
    assert row.verdict == "fail"
    for name in (
        "max_ulp",
        "mean_ulp",
        "p999_ulp",
        "witness",
        "flushed",
        "sum_violations",
        "gb_per_s",
        "rejudged_rows",
    ):
        assert getattr(row, name) is None, name


def test_speed_counts_each_element_read_once_and_written_once():
    run = run_of(Declaration(), [(case("ties"), measured())])
    run.speeds.append(Speeds("float16", 1000, 1000, {"v": Timed("v", 1e-6)}, copy_seconds=5e-7, torch_seconds=2e-6))
    report = build(run, command=["softcheck"])
    assert report.variants[0].gb_per_s == pytest.approx(4000.0)
    assert report.variants[0].speed_vs_torch == pytest.approx(2.0)
    assert report.speed[0].gb_per_s == pytest.approx(8000.0)


def test_finding_ids_are_stable_and_distinct():
    ids = [report_of(Declaration(), [(case("ties", n), measured(ULP))]).variants[0].findings[0].id for n in "aab"]
    assert ids[0] == ids[1] != ids[2]
    assert len(ids[0]) == 12


@pytest.mark.parametrize(("share", "verdict"), [(2.9, "known"), (3.1, "fail")])
def test_defect_explains_nothing_larger_than_it_declares(share, verdict):
    violation = msgspec.structs.replace(ULP, share=share)
    report = report_of(defect(max_share=3.0), [(case("ties"), measured(violation))])
    assert report.variants[0].verdict == verdict


def test_case_that_could_not_be_made_ends_with_2():
    run = run_of(Declaration(), [(case("ties"), measured())])
    run.errors.append("case huge/a/float16: no memory")
    assert exit_code(build(run, command=["softcheck"])) == 2


def test_interrupted_run_says_so_and_calls_nothing_unsupported():
    run = run_of(Declaration(), [])
    run.interrupted = True
    report = build(run, command=["softcheck"])
    assert report.interrupted
    assert (report.variants[0].verdict, report.variants[0].reason) == ("error", "not run: interrupted")
