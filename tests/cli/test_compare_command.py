"""softcheck compare: planted regressions are found, changes within their doubt are not, and what is missing is named."""

import json
import sys
from pathlib import Path

import msgspec
import pytest
from command import softcheck

from softcheck.contract import FindingKind
from softcheck.report.compare import Tolerances, compare, quotient, render_markdown, render_table
from softcheck.report.json_format import render
from softcheck.speed.statistics import Interval

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from sample_reports import ENVIRONMENT, FAILING, MEASURED, PASSING
from sample_speed import GPU, samples, speed_report

REPORT = msgspec.structs.replace(MEASURED, variants=(PASSING,), cases=MEASURED.cases)


def with_row(**changes):
    return msgspec.structs.replace(REPORT, variants=(msgspec.structs.replace(PASSING, **changes),))


def words(old, new, **limits):
    return {c.what: c.word for c in compare(old, new, Tolerances(**limits)).changes}


def test_a_result_compared_with_itself_is_the_same():
    for result in (REPORT, speed_report(samples())):
        found = compare(result, result, Tolerances())
        assert {c.word for c in found.changes} == {"same"}
        assert found.regressions == []
        assert found.only_old == found.only_new == ()


@pytest.mark.parametrize(
    ("ulp", "word"), [(0.9, "REGRESSION"), (0.505, "changed"), (0.4, "better"), (None, "REGRESSION")]
)
def test_maximum_that_grows_beyond_the_limit_is_a_regression(ulp, word):
    assert words(REPORT, with_row(max_ulp=ulp))["max ULP"] == word


def test_the_limit_of_ulps_is_the_users():
    assert words(REPORT, with_row(max_ulp=0.9), max_ulp_increase=0.5)["max ULP"] == "changed"


@pytest.mark.parametrize(("share", "word"), [(0.99, "changed"), (1.2, "REGRESSION"), (0.1, "better")])
def test_share_of_the_bound_is_worse_where_it_passes_the_bound(share, word):
    assert words(REPORT, with_row(max_bound_share=share))["error/bound"] == word


def test_new_finding_and_new_verdict_are_regressions():
    failing = msgspec.structs.replace(FAILING, name=PASSING.name)
    found = words(REPORT, msgspec.structs.replace(REPORT, variants=(failing,)))
    assert found["verdict"] == "REGRESSION"
    assert any(what.startswith("finding: ") and word == "REGRESSION" for what, word in found.items())
    back = words(msgspec.structs.replace(REPORT, variants=(failing,)), REPORT)
    assert back["verdict"] == "changed"
    assert "REGRESSION" not in {word for what, word in back.items() if what.startswith("finding")}


def test_finding_that_a_declared_defect_explains_is_no_regression():
    finding = msgspec.structs.replace(FAILING.findings[0], kind=FindingKind.WRONG_LAYOUT, known="strides are ignored")
    assert not compare(REPORT, with_row(verdict="known", findings=(finding,)), Tolerances()).regressions


@pytest.mark.parametrize(("slower", "word"), [(1.2, "REGRESSION"), (1.0, "same"), (1.03, "same"), (0.8, "better")])
def test_speed_is_compared_by_its_whole_interval(slower, word):
    found = compare(speed_report(samples()), speed_report(samples(slower=slower)), Tolerances())
    by_variant = {c.variant: c for c in found.changes}
    assert by_variant["one_block"].word == word
    assert by_variant["eager"].word == "same"
    assert by_variant["one_block"].slowdown.mid == pytest.approx(slower, rel=0.01)


def test_interval_across_the_limit_is_ambiguous_and_no_regression():
    new = speed_report(samples())
    (shape,) = new.shapes
    variants = tuple(
        msgspec.structs.replace(f, copy_share=Interval(0.74, 0.77, 0.80)) if f.variant == "one_block" else f
        for f in shape.variants
    )
    new = msgspec.structs.replace(new, shapes=(msgspec.structs.replace(shape, variants=variants),))
    found = compare(speed_report(samples()), new, Tolerances())
    assert {c.variant: c.word for c in found.changes}["one_block"] == "AMBIGUOUS"
    assert found.regressions == []


def test_variant_that_lost_its_figure_is_a_regression_with_the_reason():
    lost = samples()
    variants = tuple(
        v if v.name != "one_block" else type(v)(name="one_block", reason="the output is wrong") for v in lost.variants
    )
    new = speed_report(msgspec.structs.replace(lost, variants=variants))
    (change,) = compare(speed_report(samples()), new, Tolerances()).regressions
    assert change.new == "the output is wrong"


def test_missing_variants_and_shapes_are_named_on_both_sides():
    found = compare(speed_report(samples(columns=256)), speed_report(samples(columns=512)), Tolerances())
    assert "one_block, float16 4096x256" in found.only_old
    assert "one_block, float16 4096x512" in found.only_new
    assert found.changes == ()
    other = msgspec.structs.replace(REPORT, variants=(msgspec.structs.replace(PASSING, name="mine"),))
    found = compare(REPORT, other, Tolerances())
    assert (found.only_old, found.only_new) == (("one_block, float16",), ("mine, float16",))


def test_other_machines_and_other_cases_are_warned_of():
    elsewhere = msgspec.structs.replace(GPU, device="NVIDIA L4", driver="1")
    found = compare(speed_report(samples()), speed_report(samples(), environment=elsewhere), Tolerances())
    assert any("device differs: NVIDIA H200 before, NVIDIA L4 now" in w for w in found.warnings)
    fewer = msgspec.structs.replace(REPORT, cases=REPORT.cases[1:])
    assert any("the cases differ: 1 were run before only" in w for w in compare(REPORT, fewer, Tolerances()).warnings)


def test_quotient_is_as_wide_as_both():
    ratio = quotient(Interval(9, 10, 11), Interval(1.9, 2, 2.1))
    assert (ratio.low, ratio.mid, ratio.high) == (pytest.approx(9 / 2.1), 5, pytest.approx(11 / 1.9))


def test_texts_lead_with_what_is_worse():
    found = compare(REPORT, with_row(max_ulp=0.9, max_bound_share=0.1), Tolerances())
    table = render_table(found)
    assert table.index("REGRESSION") < table.index("better")
    assert "1 regression beyond 0.01 ULP and 5% slowdown" in table
    assert render_markdown(found).splitlines()[2].startswith("**1 regression")
    read = json.loads(render(found))
    assert {c["what"] for c in read["changes"]} == {"verdict", "max ULP", "error/bound"}


@pytest.fixture
def saved(tmp_path):
    results = {
        "good": REPORT,
        "bad": with_row(max_ulp=3.0),
        "other": msgspec.structs.replace(REPORT, variants=(msgspec.structs.replace(PASSING, name="mine"),)),
    }
    for name, result in results.items():
        (tmp_path / f"{name}.json").write_text(render(result), encoding="utf-8")
    return tmp_path


def test_a_page_holds_the_comparison_with_the_baseline(saved):
    arguments = ["report", "torch", "--dtype", "float16", "--case", "ties/*", "--device", "interpreter"]
    done = softcheck(*arguments, "--baseline", saved / "good.json", "--format", "html")
    assert done.returncode == 0, done.stderr
    assert "Against the baseline" in done.stdout
    assert "only in the old result: one_block, float16" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "extra", "code"),
    [
        ("good", "good", [], 0),
        ("good", "bad", [], 1),
        ("bad", "good", [], 0),
        ("good", "bad", ["--max-ulp-increase", "5"], 0),
        ("good", "other", [], 3),
        ("good", "missing", [], 2),
    ],
)
def test_exit_codes(saved, old, new, extra, code):
    done = softcheck("compare", saved / f"{old}.json", saved / f"{new}.json", *extra)
    assert done.returncode == code, done.stderr


def test_report_with_a_baseline_exits_1_where_it_is_worse(saved):
    """The baseline promises more than the interpreter's numpy can keep."""
    perfect = msgspec.structs.replace(PASSING, name="torch", max_ulp=0.0)
    baseline = saved / "baseline.json"
    report = msgspec.structs.replace(REPORT, environment=ENVIRONMENT, variants=(perfect,))
    baseline.write_text(render(report), encoding="utf-8")
    arguments = ["report", "--variant", "torch", "--dtype", "float16", "--case", "normal/*", "--device", "interpreter"]
    worse = softcheck(*arguments, "--baseline", baseline, "--timings", "--format", "json")
    assert worse.returncode == 1, worse.stderr
    assert "REGRESSION" in worse.stderr
    assert "loading variants" in worse.stderr
    report = json.loads(worse.stdout)
    assert report["variants"][0]["verdict"] in {"pass", "known"}
    assert {"starting", "loading variants"} <= {stage["name"] for stage in report["stages"]}
    assert report["variants"][0]["histogram"]
    better = softcheck(*arguments, "--baseline", baseline, "--max-ulp-increase", "1000")
    assert better.returncode == 0, better.stderr
