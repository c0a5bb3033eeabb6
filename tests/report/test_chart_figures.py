"""Figures of the charts of speed: the front beyond noise."""

import msgspec
import sample_reports
import sample_speed
from sample_reports import FAILING, PASSING

from softcheck.report.page.charts import Point, fields, front


def report_with_speed():
    shape = sample_speed.SWEEP.shapes[1]
    rows = tuple(msgspec.structs.replace(PASSING, name=f.variant) for f in shape.variants)
    return msgspec.structs.replace(sample_reports.MEASURED, variants=rows, timings=(shape,))


def point(name, low, high, max_ulp, **others):
    return Point(name, (low + high) / 2, low, high, max_ulp, **others)


def test_front_holds_what_nothing_beats():
    exact, both = point("slow and exact", 1, 1, 0.5), point("both", 3, 3, 0.7)
    beaten, fast = point("beaten", 2, 2, 0.9), point("fast", 4, 4, 9.0)
    assert front([fast, beaten, both, exact]) == [exact, both, fast]
    assert front([point("a", 1, 1, 1.0), point("b", 1, 1, 0.5)]) == [point("b", 1, 1, 0.5)]


def test_intervals_that_overlap_and_errors_that_are_the_same_put_both_on_the_front():
    slower, quicker = point("slower", 98, 102, 0.5006), point("quicker", 101, 105, 0.5004)
    assert front([quicker, slower]) == [slower, quicker]
    assert front([point("a", 100, 100, 0.5), point("within the margin", 100.9, 100.9, 0.5)])[0].name == "a"
    assert [p.name for p in front([point("a", 98, 100, 0.5), point("faster", 102, 103, 0.5)])] == ["faster"]
    assert [p.name for p in front([slower, point("less accurate", 101, 105, 0.6)])] == ["slower"]


def test_a_front_takes_the_worst_of_all_cases_and_leaves_out_kernels_with_findings():
    timed = report_with_speed()
    (alone,) = fields(msgspec.structs.replace(sample_speed.SWEEP, shapes=timed.timings))
    assert {p.max_ulp for p in alone.points} == {0.5, 0.501, 7.1}
    assert alone.best == []
    worst = {"torch": 3.0, "one_block": 0.6, "eager": 0.4}
    rows = tuple(
        msgspec.structs.replace(
            row, max_ulp=worst.get(row.name, 1.0), findings=FAILING.findings if row.name == "one_block" else ()
        )
        for row in timed.variants
    )
    (field,) = fields(msgspec.structs.replace(timed, variants=rows))
    assert {p.name: (p.max_ulp, p.has_findings) for p in field.points} == {
        "torch": (3.0, False),
        "one_block": (0.6, True),
        "eager": (0.4, False),
    }
    assert [p.name for p in field.best] == ["eager", "torch"]
