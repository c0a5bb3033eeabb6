"""Plans hold every meeting of two values, and of three of the core axes, within their budget; ways are read back from their text."""

from dataclasses import replace
from functools import partial
from itertools import combinations, product

import pytest

from softcheck.errors import UsageError
from softcheck.probes.space.plan import Plan
from softcheck.probes.space.way import Way, WayAxis

AXES = (
    WayAxis("columns", ("129", "1", "1025"), is_core=True),
    WayAxis("layout", ("packed", "transposed", "expanded", "offset"), is_core=True),
    WayAxis("gradient", ("none", "varying", "expanded"), is_core=True),
    WayAxis("mode", ("none", "no_grad")),
    WayAxis("scale", ("1", "0.5"), is_promised=False),
)


def no_gradient_is_asked_without(way):
    return way.get("mode") == "no_grad" and way.get("gradient") != ""


def values_of(way):
    return {axis.name: way.get(axis.name, axis.plain) for axis in AXES}


def meetings(ways, count, names):
    given = [values_of(way) for way in ways]
    return {tuple((name, values[name]) for name in group) for values in given for group in combinations(names, count)}


def every_meeting(count, names):
    known = {axis.name: axis.values for axis in AXES}
    return {
        tuple(zip(group, values, strict=True))
        for group in combinations(names, count)
        for values in product(*(known[name] for name in group))
    }


@pytest.mark.parametrize("seed", range(3))
def test_every_two_values_meet_and_every_three_of_the_core(seed):
    ways = Plan(AXES, no_gradient_is_asked_without, [seed]).ways(500)
    names, core = [axis.name for axis in AXES], [axis.name for axis in AXES if axis.is_core]
    left = every_meeting(2, names) - meetings(ways, 2, names)
    assert left == {(("gradient", gradient), ("mode", "no_grad")) for gradient in ("varying", "expanded")}, (
        "only what is excluded is left out"
    )
    assert every_meeting(3, core) <= meetings(ways, 3, core)
    assert not any(no_gradient_is_asked_without(way) for way in ways)
    # 36 meetings of the three core axes need as many ways at least; one third more is a plan worth having.
    assert len(ways) <= 48


@pytest.mark.parametrize("seed", range(3))
def test_values_of_several_calls_are_in_few_ways_and_meet_all_others(seed):
    of_scale = tuple(replace(axis, is_dear=axis.name == "scale") for axis in AXES)
    often, seldom = (Plan(axes, no_gradient_is_asked_without, [seed]).ways(500) for axes in (AXES, of_scale))
    names = [axis.name for axis in AXES]
    assert meetings(seldom, 2, names) == meetings(often, 2, names)
    assert 2 * sum(map(is_scaled, seldom)) < sum(map(is_scaled, often))


def is_scaled(way):
    return way.get("scale") != ""


def test_a_single_axis_has_a_way_for_each_value():
    ways = Plan(AXES[1:2], lambda way: way.get("layout") == "offset", [1]).ways(500)
    assert ways[0] == Way()
    assert {way.get("layout") for way in ways} == {"", "transposed", "expanded"}


def test_a_budget_keeps_the_ways_that_meet_most():
    whole, cut = (Plan(AXES, lambda _: False, [1]) for _ in range(2))
    ways, few = whole.ways(500), cut.ways(12)
    assert few == ways[:12]
    assert few[0] == Way()
    names, core = [axis.name for axis in AXES], [axis.name for axis in AXES if axis.is_core]
    every, met, of_few = (
        found(2, names) | found(3, core) for found in (every_meeting, partial(meetings, ways), partial(meetings, few))
    )
    assert of_few < met == every
    assert len(of_few) > 0.5 * len(every)


def test_what_a_budget_leaves_out_is_said_by_axis_and_nothing_of_what_is_excluded():
    whole, cut = (Plan(AXES, no_gradient_is_asked_without, [1]) for _ in range(2))
    whole.ways(500)
    assert whole.left_out() is None
    cut.ways(6)
    assert cut.left_out().endswith(")")
    assert "pairs and" in cut.left_out()
    assert "layout (" in cut.left_out(), "it has most values"


def test_a_way_is_read_back_from_its_text():
    way = Way.of(AXES, {"layout": "transposed", "columns": "1025", "mode": "none"})
    assert str(way) == "columns=1025,layout=transposed"
    assert Way.parse(str(way), AXES) == way
    assert Way.parse("columns=700,values=17", AXES).get("columns") == "700", "a reduced way has sizes of no plan"
    assert Way.parse("columns=700,values=17", AXES).meeting.words == "columns 700"


@pytest.mark.parametrize(
    ("text", "said"),
    [("colums=3", "did you mean 'columns'"), ("layout=diagonal", "expected one of packed, transposed")],
)
def test_what_is_no_way_is_refused_with_what_was_expected(text, said):
    with pytest.raises(UsageError, match=said):
        Way.parse(text, AXES)


def test_a_budget_of_compilations_bounds_the_combinations_and_lets_them_meet_the_other_axes():
    axes = tuple(replace(axis, compiles=axis.name in {"columns", "layout"}) for axis in AXES)
    ways = Plan(axes, no_gradient_is_asked_without, [1], compilations=4).ways(500)
    combined = {(way.get("columns"), way.get("layout")) for way in ways}
    assert len(combined) == 4
    free = ["gradient", "mode", "scale"]
    assert meetings(ways, 2, free) == meetings(Plan(AXES, no_gradient_is_asked_without, [1]).ways(500), 2, free)
