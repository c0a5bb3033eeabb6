"""Axes and charts: ticks as people write them, places in proportion, labels that hide neither each other nor a point."""

import math
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softcheck.report.page.svg import Axis, Chart, linear, logarithmic

FIGURES = st.floats(1e-30, 1e30)


def texts(axis):
    return [text for _, text in axis.ticks()]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (linear("", [0, 4200]), ["0", "1000", "2000", "3000", "4000"]),
        (linear("", [0.02, 0.3]), ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]),
        (linear("", [10_000, 60_000]), ["0", "10,000", "20,000", "30,000", "40,000", "50,000", "60,000"]),
        (logarithmic("", [0.002, 900]), ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]),
        (logarithmic("", [1e-6, 1e8]), ["10⁻⁶", "10⁻⁴", "0.01", "1", "100", "10,000", "10⁶", "10⁸"]),
        (logarithmic("", [64, 130]), ["50", "100", "200"]),
        (logarithmic("", [128, 65536], base=2), ["256", "1024", "4096", "2¹⁴", "2¹⁶"]),
        (Axis("", 0, 2, named={0.0: "a", 1.0: "b"}), ["a", "b"]),
    ],
)
def test_ticks_read_as_people_write_them(axis, expected):
    assert texts(axis) == expected


@given(st.lists(FIGURES, min_size=1, max_size=5), st.booleans())
def test_an_axis_holds_its_values_in_order_and_has_few_ticks_of_different_texts(values, is_linear):
    axis = linear("", values) if is_linear else logarithmic("", values)
    shares = [axis.share(value) for value in sorted(values)]
    assert shares == sorted(shares)
    assert axis.low <= min(values)
    assert max(values) <= axis.high * (1 + 1e-12)
    assert 2 <= len(texts(axis)) <= 11
    assert len(set(texts(axis))) == len(texts(axis))


def test_a_logarithmic_axis_gives_equal_ratios_equal_lengths():
    axis = Axis("", 1, 10_000, 10)
    assert [axis.share(value) for value in (0.1, 1, 10, 100, 1e4, 1e9)] == pytest.approx([0, 0, 0.25, 0.5, 1, 1])


def drawn(chart):
    return ET.fromstring(chart.svg("title", "description"))


def test_marks_stand_at_their_figures():
    chart = Chart(Axis("x", 0, 10), Axis("y", 0, 100), width=200, height=120)
    chart.dot(5, 50, "series-1", title="<half>")
    chart.line([(0, 0), (10, 100)], "series-2", step=True)
    svg = drawn(chart)
    (circle,) = svg.iter("circle")
    left, right = 64, 184
    top, bottom = 30, 74
    assert float(circle.get("cx")) == pytest.approx((left + right) / 2)
    assert float(circle.get("cy")) == pytest.approx((top + bottom) / 2)
    assert circle[0].text == "<half>"
    (path,) = (path for path in svg.iter("path") if "series-2" in path.get("class"))
    assert path.get("d") == "M64.0,74.0L184.0,74.0L184.0,30.0"
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "title")


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=10))
@example([(0.0, 0.0)] * 10)
@example([(100.0, 100.0)] * 10)
def test_labels_stay_on_the_chart_and_do_not_lie_on_each_other(points):
    chart = Chart(Axis("", 0, 100), Axis("", 0, 100), width=800, height=400, right=100)
    chart.names([(x, y, f"variant-{i}", "series-1") for i, (x, y) in enumerate(points)])
    labels = [label for label in drawn(chart).iter("text") if label.get("class") == "label series-1"]
    assert len(labels) == len(points)
    heights = [float(label.get("y")) for label in labels]
    assert all(later - earlier >= 13.8 for earlier, later in pairwise(heights))
    assert heights[-1] <= 400
    assert all(float(label.get("x")) + 7.2 * len(label.text) <= 800 for label in labels)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_a_chart_escapes_texts_and_attributes(text):
    chart = Chart(Axis("", 0, 1), Axis("", 0, 1))
    chart.dot(0, 0, "series-1", title=text)
    svg = ET.fromstring(chart.svg(text, ""))
    assert svg.get("aria-label") == text
    assert [title.text or "" for title in svg.iter("title")] == [text] * bool(text)


def test_numbers_of_no_size_are_left_out():
    assert math.isfinite(linear("", [math.inf, math.nan]).high)
    assert math.isfinite(logarithmic("", [math.inf, 0.0]).high)
