"""softcheck plot: the files exist, can be read, and hold the names."""

import itertools
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from command import softcheck
from hypothesis import given
from hypothesis import strategies as st

from softcheck.report.json_format import render

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_reports
import sample_speed
from sample_reports import FAILING, PASSING

from softcheck.report.model import Bin
from softcheck.report.plots import draw, style
from softcheck.report.plots.data import Point, fields, front, sweeps
from softcheck.report.plots.style import spread


def plot(*arguments):
    return softcheck("plot", *map(str, arguments))


def report_with_speed():
    shape = sample_speed.SWEEP.shapes[1]
    bins = (Bin(below=2.0**-10, elements=10), Bin(below=0.25, elements=80), Bin(below=0.5, elements=10))
    rows = tuple(msgspec.structs.replace(PASSING, name=f.variant, histogram=bins) for f in shape.variants)
    return msgspec.structs.replace(sample_reports.MEASURED, variants=rows, timings=(shape,))


@pytest.fixture
def saved(tmp_path):
    paths = []
    for name, result in (("sweep", sample_speed.SWEEP), ("report", report_with_speed())):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(render(result), encoding="utf-8")
    return paths


def words(path):
    return ["".join(element.itertext()) for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def texts(path):
    return " ".join(words(path))


def test_every_plot_is_an_svg_and_a_png_with_the_names(saved, tmp_path):
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    folder = tmp_path / "plots"
    done = plot(*saved, "--output-dir", folder)
    assert done.returncode == 0, done.stderr
    names = {path.stem for path in folder.iterdir()}
    assert names == {
        "speed-float16-columns-4096-rows",
        "ulp-float16-columns-4096-rows",
        "histogram-float16",
        *(f"pareto-float16-4096x{c}" for c in ("256", "1024", "4096", "1024-report")),
    }
    assert sorted(done.stdout.split()) == sorted(str(path) for path in folder.iterdir())
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        drawn = texts(folder / f"{name}.svg")
        for variant in ("torch", "one_block", "eager"):
            assert variant in drawn, (name, variant)
    assert "device copy" in texts(folder / "speed-float16-columns-4096-rows.svg")


def test_the_same_result_gives_the_same_svg(saved, tmp_path):
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    for folder in ("a", "b"):
        assert plot(saved[0], "--output-dir", tmp_path / folder).returncode == 0
    for path in (tmp_path / "a").glob("*.svg"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_missing_matplotlib_is_said_with_the_command(saved, tmp_path, monkeypatch):
    blocked = tmp_path / "blocked"
    (blocked / "matplotlib").mkdir(parents=True)
    (blocked / "matplotlib" / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", f"{blocked}:{Path(__file__).parents[2]}")
    command = [sys.executable, "-m", "softcheck.cli.main", "plot", str(saved[0]), "--output-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'softcheck[plot]'" in done.stderr


def test_result_without_figures_is_refused(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    empty = msgspec.structs.replace(sample_speed.SWEEP, shapes=())
    path = tmp_path / "empty.json"
    path.write_text(render(empty), encoding="utf-8")
    done = plot(path)
    assert done.returncode == 2
    assert "nothing to draw" in done.stderr


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
    (alone,) = fields([msgspec.structs.replace(sample_speed.SWEEP, shapes=timed.timings)])
    assert {p.max_ulp for p in alone.points} == {0.5, 0.501, 7.1}
    assert alone.best == []
    worst = {"torch": 3.0, "one_block": 0.6, "eager": 0.4}
    rows = tuple(
        msgspec.structs.replace(
            row, max_ulp=worst.get(row.name, 1.0), findings=FAILING.findings if row.name == "one_block" else ()
        )
        for row in timed.variants
    )
    judged = msgspec.structs.replace(timed, environment=sample_speed.GPU, variants=rows)
    for result in (fields([judged]), fields([sample_speed.SWEEP, judged])[1:2]):
        (field,) = result
        assert {p.name: (p.max_ulp, p.has_findings) for p in field.points} == {
            "torch": (3.0, False),
            "one_block": (0.6, True),
            "eager": (0.4, False),
        }
        assert [p.name for p in field.best] == ["eager", "torch"]


def test_two_shapes_make_no_sweep_and_two_results_none_together():
    shapes = sample_speed.SWEEP.shapes
    few = [msgspec.structs.replace(sample_speed.SWEEP, shapes=part) for part in (shapes[:2], shapes[2:])]
    assert sweeps(few) == []
    (found,) = sweeps([sample_speed.SWEEP])
    assert (found.axis, found.fixed, found.at) == ("columns", 4096, (256, 1024, 4096))


def test_a_line_is_broken_where_a_variant_has_no_figure(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    first, *others = sample_speed.SWEEP.shapes
    without = msgspec.structs.replace(first, variants=first.variants[:1])
    gone, kept = first.variants[1].variant, first.variants[0].variant
    (found,) = sweeps([msgspec.structs.replace(sample_speed.SWEEP, shapes=(without, *others))])
    values = {series.name: series.values for series in found.speed}
    assert values[gone][0] is None
    assert None not in values[gone][1:]
    assert None not in values[kept]
    style.require()
    assert [path.exists() for path in draw.speed(found, tmp_path)] == [True, True]


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5, 0.5], [0.4, 0.5, 0.6]),
        ([0.0, 0.01, 0.5], [0.0, 0.1, 0.5]),
        ([0.2, 0.99, 1.0], [0.2, 0.9, 1.0]),
        ([], []),
    ],
)
def test_names_are_spread_as_little_as_they_must(wanted, placed):
    assert spread(wanted, 0.1) == pytest.approx(placed)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_spread_names_keep_their_order_and_distance_within_the_axes(wanted):
    placed = spread(sorted(wanted), 0.05)
    assert all(b - a >= 0.05 - 1e-9 for a, b in itertools.pairwise(placed))
    assert -1e-9 <= placed[0] <= placed[-1] <= 1 + 1e-9


def test_ticks_are_written_as_people_write_sizes(saved, tmp_path):
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    wide = [
        msgspec.structs.replace(shape, columns=columns)
        for shape, columns in zip(sample_speed.SWEEP.shapes, (1000, 4096, 65536), strict=True)
    ]
    saved[0].write_text(render(msgspec.structs.replace(sample_speed.SWEEP, shapes=tuple(wide))), encoding="utf-8")
    assert plot(*saved, "--output-dir", tmp_path).returncode == 0
    assert {"1000", "4096", "2¹⁶"} <= set(words(tmp_path / "speed-float16-columns-4096-rows.svg"))
    assert {"2⁻¹⁰", "0.25", "0.5"} <= set(words(tmp_path / "histogram-float16.svg"))


def test_a_name_that_collides_stands_apart_and_one_that_is_free_beside_its_point():
    pytest.importorskip("matplotlib", reason="plots need matplotlib; pip install -e '.[plot]'")
    drawn = style.figure()
    axes = drawn.subplots()
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 10)
    style.name(axes, [style.NamedPoint(n, x, y, "0") for n, x, y in SCATTERED], is_scatter=True)
    at = {text.get_text(): text.get_position() for text in axes.texts}
    assert 0.2 < at["alone"][0] < 0.3
    assert at["alone"][1] == pytest.approx(0.2)
    for crowded in ("left", "right", "at the edge"):
        assert at[crowded][0] > 1
    assert abs(at["left"][1] - at["right"][1]) > 0.03


SCATTERED = [("alone", 2, 2), ("left", 4, 8), ("right", 4.1, 8), ("at the edge", 9.9, 5)]
