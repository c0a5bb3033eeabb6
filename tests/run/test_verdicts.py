"""Verdicts, findings and exit codes from measurements."""

import dataclasses

import msgspec
import numpy as np
import pytest

from softcheck.cases.exhaustive import domain
from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.outcome import Conclusion, Shown
from softcheck.report.build import build, exit_code
from softcheck.report.formats import render
from softcheck.report.output import Display
from softcheck.run.blames import Blame, Command
from softcheck.run.exhaust import Exhausted
from softcheck.run.model import GivenUp, Run, RunOptions
from softcheck.run.patience import Over
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask, Ready
from softcheck.run.session import CaseMeasurement
from softcheck.speed.samples import Sampled, ShapeSamples
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


def run_of(declaration, measurements, *, whole=True, refused=None, dtypes=("float16",), strict=True, **more):
    cases = tuple(c for c, _ in measurements)
    options = RunOptions(variants=("v",), dtypes=dtypes, cases=cases, whole_corpus=whole, strict_declarations=strict)
    run = Run(options=options, ready=READY, **more)
    if refused is None:
        run.declarations["v"] = declaration
    else:
        run.refused["v"] = refused
    run.results.extend(CaseMeasurement("v", c, m, 0.1) for c, m in measurements)
    return run


def exhausted(*violations, first=2**32):
    judged = msgspec.structs.replace(domain("float16", 2), first=first)
    m = msgspec.structs.replace(measured(*violations), rows=first, max_sum_deviation=1e-3)
    return Exhausted("v", Declaration(), judged, m, 2.0)


def test_exhaustive_findings_join_the_variants_and_its_maximum_is_exact_there_alone():
    found = msgspec.structs.replace(ULP, row=70000, column=1, message="row 70000, column 1: 7 ULP")
    run = run_of(Declaration(), [(case("ties"), measured())], exhausted=[exhausted(found)])
    report = build(run, command=["softcheck", "report"])
    (row,), (behind,) = report.variants, report.exhaustive
    assert (row.verdict, row.ulp_is, row.cases_run, row.elements) == ("fail", "at least", 1, 2)
    (finding,) = row.findings
    assert (finding.case, finding.row) == ("exhaustive/rows-of-2/float16", 70000)
    assert finding.reproduce == "softcheck exhaust v --dtype float16 --columns 2 --device interpreter"
    assert (behind.ulp_is, behind.max_ulp, behind.rows, behind.is_complete) == ("exact", 0.4, 2**32, True)
    assert exit_code(report) == 1


def test_an_unfinished_exhaustive_part_is_a_lower_bound():
    run = run_of(Declaration(), [(case("ties"), measured())], exhausted=[exhausted(first=2**22)])
    (behind,) = build(run, command=["softcheck", "report"]).exhaustive
    assert (behind.ulp_is, behind.is_complete) == ("at least", False)
    assert behind.domain == "every row of 2 float16 patterns, the first 4,194,304 of 4,294,967,296"


def test_a_declared_defect_that_pairs_show_is_not_stale():
    declared = defect(cases=("ties/*", "exhaustive/*"))
    shown = dataclasses.replace(exhausted(msgspec.structs.replace(ULP, row=1)), declaration=declared)
    run = run_of(declared, [(case("ties"), measured())], exhausted=[shown])
    assert build(run, command=[]).variants[0].verdict == "known"
    run = run_of(declared, [(case("ties"), measured())], exhausted=[exhausted()])
    assert build(run, command=[]).variants[0].verdict == "error"


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


def test_declared_defect_that_does_not_show_is_an_error_where_declarations_are_strict():
    report = report_of(defect(), [(case("ties"), measured())])
    assert report.variants[0].verdict == "error"
    assert "not found" in report.variants[0].reason
    assert exit_code(report) == 1


def test_declared_defect_that_does_not_show_is_a_note_elsewhere():
    report = report_of(defect(), [(case("ties"), measured())], strict=False)
    assert report.variants[0].verdict == "pass"
    (note,) = report.notes
    assert note.startswith("v, float16: declares a defect that was not found (ulp_exceeds_bound on *: sums in 16 bits)")
    assert exit_code(report) == 0


def test_declared_defect_that_depends_on_the_machine_is_a_note_even_where_declarations_are_strict():
    report = report_of(defect(always=False), [(case("ties"), measured())])
    assert report.variants[0].verdict == "pass"
    assert "need not show everywhere" in report.notes[0]
    assert exit_code(report) == 0


def test_note_of_a_defect_that_did_not_show_excuses_no_finding():
    report = report_of(
        defect(cases=("ramp/*",)), [(case("ties"), measured(ULP)), (case("ramp"), measured())], strict=False
    )
    assert report.variants[0].verdict == "fail"
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
    run.speeds.append(
        ShapeSamples(
            dtype="float16",
            rows=1000,
            columns=1000,
            variants=(Sampled(name="v", seconds=(1e-6,) * 20),),
            copy=Sampled(name="copy", seconds=(5e-7,) * 20),
            torch=Sampled(name="torch", seconds=(2e-6,) * 20),
            cache="cold",
            stopped="precise",
        )
    )
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


@pytest.mark.parametrize("later", ["cases", "probes"])
def test_variant_that_was_given_up_before_its_first_call_in_a_dtype_fails_there(later):
    """Timeouts count over all dtypes, so the last ones may have no result at all."""
    over = Over(FindingKind.TIMEOUT, "3 calls ran out of time")
    left = {"cases": (case("ties"),), "probes": ()} if later == "cases" else {"cases": (), "probes": ("empties",)}
    run = run_of(defect(), [], given_up=[GivenUp(variant="v", dtype="float16", over=over, **left)])
    report = build(run, command=["softcheck"])
    (row,) = report.variants
    assert (row.verdict, row.reason, row.cases_run) == ("fail", None, 0)
    assert [(f.kind, f.count, f.known) for f in row.findings] == [(FindingKind.TIMEOUT, 1, None)]
    assert exit_code(report) == 1


RAISED = Violation(FindingKind.RAISED, "no columns are not for me")


def probed(*shown, probe="empties", labels=("0x5", "5x0"), abandoned=0, effort="normal", **more):
    task = ProbeTask(variant="v", dtype="float16", probe=probe, effort=effort)
    more = {"trials": len(labels), **more}
    conclusion = Conclusion(findings=tuple(Shown(*s) for s in shown), **more)
    return ProbeResult(task=task, labels=labels, conclusion=conclusion, abandoned=abandoned, seconds=0.1)


def probed_report(declaration, *results, measurements=(), effort="normal", interrupted=False):
    run = run_of(declaration, list(measurements), whole=bool(measurements), interrupted=interrupted)
    run.options = dataclasses.replace(run.options, effort=effort)
    run.probed.extend(results)
    return build(run, command=["softcheck"])


def test_probe_that_finds_nothing_passes_and_counts_as_something_run():
    report = probed_report(Declaration(), probed(properties={"batch_invariant": False}))
    (row,) = report.variants
    assert (row.verdict, row.cases_run, row.probes_run) == ("pass", 0, {"empties": 2})
    assert row.properties == {"batch_invariant": False}
    assert exit_code(report) == 0


def test_probe_finding_fails_and_is_reproduced_by_its_probe():
    report = probed_report(Declaration(), probed(("5x0", RAISED)))
    (finding,) = report.variants[0].findings
    assert report.variants[0].verdict == "fail"
    assert (finding.case, finding.from_probe) == ("probe/empties/5x0", True)
    assert finding.reproduce == "softcheck report --variant v --dtype float16 --probe empties --device interpreter"
    assert exit_code(report) == 1


def test_probe_none_of_whose_trials_could_be_made_is_nothing_run_with_the_reason():
    report = probed_report(Declaration(), probed(trials=0, skipped=("needs 17 GB, 3 GB are free",)))
    assert report.variants[0].verdict == "unsupported"
    assert "needs 17 GB" in report.variants[0].reason
    assert report.notes == ("probe empties: trials skipped: needs 17 GB, 3 GB are free (v float16)",)
    assert exit_code(report) == 3


def test_reasons_of_one_probe_that_differ_in_numbers_share_a_note():
    reasons = ("refused: 17 columns", "refused: 71 columns", "refused: float16", "refused: float32")
    report = probed_report(Declaration(), probed(skipped=reasons))
    assert report.notes == (
        "probe empties: trials skipped: refused: 17 columns, and 1 more with other numbers (v float16)",
        "probe empties: trials skipped: refused: float16 (v float16)",
        "probe empties: trials skipped: refused: float32 (v float16)",
    )


def test_probes_that_have_nothing_to_try_share_the_last_note():
    reasons = ("nothing to try: takes no dim", "needs 17 GB")
    report = probed_report(Declaration(), probed(skipped=reasons))
    assert report.notes == (
        "probe empties: trials skipped: needs 17 GB (v float16)",
        "nothing to try: empties takes no dim (v float16)",
    )


def probe_defect(*globs):
    return Declaration(known_defects=(KnownDefect(kinds=(FindingKind.RAISED,), reason="r", cases=globs),))


def test_declared_defect_explains_a_probe_finding_by_glob():
    assert probed_report(probe_defect("probe/empties/*"), probed(("5x0", RAISED))).variants[0].verdict == "known"
    assert probed_report(probe_defect("probe/empties/0x5"), probed(("5x0", RAISED))).variants[0].verdict == "fail"


def test_defect_of_probes_alone_is_stale_once_they_ran_completely():
    assert probed_report(probe_defect("probe/empties/*"), probed()).variants[0].verdict == "error"
    assert probed_report(probe_defect("probe/emp*"), probed()).variants[0].verdict == "error"


@pytest.mark.parametrize(
    ("globs", "result", "more"),
    [
        (("probe/empties/*",), probed(effort="quick"), {"effort": "quick"}),
        (("probe/empties/*",), probed(), {"interrupted": True}),
        (("probe/empties/*",), probed(abandoned=1), {}),
        (("probe/empties/*",), probed(skipped=("too little memory",)), {}),
        (("probe/empties/beyond-2-to-the-31",), probed(), {}),
        (("probe/other/*",), probed(), {}),
    ],
)
def test_defect_of_probes_that_did_not_run_completely_is_not_stale(globs, result, more):
    assert probed_report(probe_defect(*globs), result, **more).variants[0].verdict == "pass"


def test_defect_of_cases_and_probes_is_found_in_either():
    clean = (case("ties"), measured())
    raising = (case("ties"), measured(RAISED))
    mixed = probe_defect("*")
    assert probed_report(mixed, probed(("5x0", RAISED)), measurements=[clean]).variants[0].verdict == "known"
    assert probed_report(mixed, probed(), measurements=[raising]).variants[0].verdict == "known"
    assert probed_report(mixed, probed(), measurements=[clean]).variants[0].verdict == "error"


FLUSHING, PRESCALED = Arithmetic(flush_to_zero=True), Arithmetic(exp="prescaled_ex2_approx")


def fitting(*arithmetics):
    return msgspec.structs.replace(measured(ULP), fits=arithmetics)


def test_the_declaration_that_would_fit_all_errors_is_named():
    found = [
        (case("ties"), fitting(FLUSHING, PRESCALED)),
        (case("ramp"), fitting(PRESCALED)),
        (case("one"), measured()),
    ]
    report = report_of(Declaration(), found)
    assert report.variants[0].verdict == "fail"
    (note,) = report.notes
    assert note.endswith("declare it: @variant(arithmetic=Arithmetic(exp='prescaled_ex2_approx'))")


@pytest.mark.parametrize(
    ("logit", "named"), [("7f7fffff", False), ("4b800000", False), ("4b000000", True), ("41200000", True)]
)
def test_rounded_logits_are_named_only_where_they_do_not_explain_any_answer(logit, named):
    bits = np.array([[0x3F800000, int(logit, 16)]], dtype=np.uint32)
    large = case_from_bits(bits, "float32", provenance="test", family="huge", name="a")
    found = [(large, fitting(Arithmetic(scaled_logits=True), PRESCALED))]
    report = build(run_of(Declaration(), found, dtypes=("float32",)), command=["softcheck"])
    assert bool(report.notes) == named
    found = [(large, fitting(FLUSHING))]
    assert build(run_of(Declaration(), found, dtypes=("float32",)), command=["softcheck"]).notes


@pytest.mark.parametrize(
    ("declaration", "fits"),
    [
        (Declaration(), [(FLUSHING,), (PRESCALED,)]),
        (Declaration(), [(FLUSHING,), ()]),
        (Declaration(arithmetic=Arithmetic()), [(FLUSHING,), (FLUSHING,)]),
    ],
)
def test_no_declaration_is_named_that_would_leave_errors_or_replace_one(declaration, fits):
    cases = zip(("ties", "ramp"), fits, strict=True)
    assert report_of(declaration, [(case(name), fitting(*arithmetics)) for name, arithmetics in cases]).notes == ()


def test_a_declared_weaker_contract_stands_beside_the_verdict():
    report = report_of(Declaration(arithmetic=FLUSHING), [(case("ties"), measured())])
    (row,) = report.variants
    assert (row.verdict, row.weaker_contract) == ("pass", "subnormal values flushed to zero")
    assert "weaker contract: subnormal values flushed to zero" in render(report, "table", Display())
    assert exit_code(report) == 0


def test_what_a_library_errs_beyond_the_standard_contract_is_a_note():
    beyond = msgspec.structs.replace(measured(), max_standard_share=1.5, contract=Arithmetic(lanes=1))
    report = report_of(Declaration(), [(case("ties"), beyond), (case("ramp"), measured())])
    assert report.variants[0].verdict == "pass"
    (note,) = report.notes
    assert "in 1 case, 1.5 times its bound on ties/a/float16: no Triton kernel took the sum" in note


def test_an_order_of_summation_excuses_no_case_that_breaks_its_own_contract_too():
    wrong = Violation(FindingKind.ULP_EXCEEDS_BOUND, "row 0, column 0: output 2, expected 1")
    beyond = msgspec.structs.replace(measured(), max_standard_share=1e9, contract=Arithmetic(lanes=1))
    broken = msgspec.structs.replace(beyond, violations=(wrong,))
    within = msgspec.structs.replace(beyond, max_standard_share=1.5)
    assert report_of(Declaration(), [(case("ties"), broken)]).notes == ()
    (note,) = report_of(Declaration(), [(case("ties"), broken), (case("ramp"), within)]).notes
    assert "in 1 case, 1.5 times its bound on ramp/a/float16" in note


def test_what_a_rescaled_sum_errs_beyond_the_standard_contract_is_a_note():
    beyond = msgspec.structs.replace(measured(), max_standard_share=1.2, contract=Arithmetic(rescales=True))
    (note,) = report_of(Declaration(), [(case("ties"), beyond)]).notes
    assert note.endswith("its kernels rescale a running sum")


def blamed_report(*measurements, **more):
    command = Command(variants=("v",), dtypes=("float16",), cases=(case("ties"), case("masked")), **more)
    blame = Blame(
        variant="v",
        dtype="float16",
        case=case("ties").id,
        violation=Violation(FindingKind.CRASH, "memory was corrupted by an earlier call"),
        command=command,
        is_reproduced=True,
        crashes=3,
    )
    run = run_of(Declaration(), [(case("ties"), measured(*measurements))], whole=False)
    run.blames.append(blame)
    return build(run, command=["softcheck"])


def test_crash_that_an_earlier_call_caused_is_a_finding_with_the_command_that_shows_it():
    (row,) = blamed_report(check_heap=True).variants
    (finding,) = row.findings
    assert (row.verdict, finding.kind, finding.case) == ("fail", FindingKind.CRASH, case("ties").id)
    assert finding.reproduce == (
        f"softcheck report --variant v --dtype float16 --case {case('ties').id} --case {case('masked').id} "
        "--in-order --check-heap --device interpreter"
    )


def test_crashes_are_symptoms_where_a_write_out_of_bounds_was_found():
    report = blamed_report(Violation(FindingKind.OUT_OF_BOUNDS_WRITE, "beside the input"))
    assert [f.kind for f in report.variants[0].findings] == [FindingKind.OUT_OF_BOUNDS_WRITE]
    assert any("3 processes ended in calls that pass alone" in note for note in report.notes)


def test_cases_that_could_not_be_run_stand_beside_the_verdict():
    unable = msgspec.structs.replace(
        unmeasured((1, 2), ()), skipped="Triton's interpreter can't run this: inline assembly"
    )
    report = report_of(Declaration(), [(case("ties"), measured()), (case("ramp"), unable)])
    (row,) = report.variants
    assert (row.verdict, row.cases_run, row.cases_unable) == ("pass", 1, 1)
    assert "none; 1 case not run" in render(report, "summary", Display())
