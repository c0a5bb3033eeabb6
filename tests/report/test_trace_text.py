"""A trace in a terminal: all figures whole at any width, and JSON that is read again as it was."""

import math

import msgspec
import pytest
from rich.cells import cell_len
from sample_traces import TRACE

from softcheck.errors import UsageError
from softcheck.report.formats import render
from softcheck.report.json_format import load_saved
from softcheck.report.output import Display


@pytest.mark.parametrize("width", [80, 100, 140, None])
def test_figures_are_whole_at_every_width(width):
    text = render(TRACE, "table", Display(width=width))
    (line,) = {line for line in text.splitlines() if line.startswith("4 ")}
    assert {"block", "sum", "9.5", "7.5", "1e+06", "14"} <= set(line.split())
    assert width is None or cell_len(line) <= width
    assert "masked" in text
    assert text.count("largest error of its own: step 4, block sum, 1e+06 ULP, at kernel:14: x4 = tl.load(x)") == 3


def test_a_row_without_any_error_says_so():
    steps = tuple(msgspec.structs.replace(step, own=0.0) for step in TRACE.rows[0].steps)
    row = msgspec.structs.replace(TRACE.rows[0], steps=steps, born=None, steps_left_out=7)
    text = render(msgspec.structs.replace(TRACE, rows=(row,)), "table")
    assert "no step adds an error of its own" in text
    assert "7 steps in the middle left out" in text


def test_json_holds_numbers_that_json_lacks(tmp_path):
    steps = (msgspec.structs.replace(TRACE.rows[0].steps[0], value=-math.inf, error=math.inf),)
    odd = msgspec.structs.replace(TRACE, rows=(msgspec.structs.replace(TRACE.rows[0], steps=steps, born=None),))
    file = tmp_path / "trace.json"
    file.write_text(render(odd, "json"))
    assert load_saved(file) == odd


def test_an_unknown_format_is_told():
    with pytest.raises(UsageError, match="a trace has no format 'csv'; expected one of: html, json, table"):
        render(TRACE, "csv")


def test_text_of_a_kernel_moves_no_cursor():
    steps = (msgspec.structs.replace(TRACE.rows[0].steps[0], text="a\x1b[2J\nb", source="c\x1b[1m", kernel="d\x1b"),)
    row = msgspec.structs.replace(TRACE.rows[0], steps=steps, born=0)
    text = render(msgspec.structs.replace(TRACE, rows=(row,), notes=("e\x1b",), case="f\x1b"), "table")
    assert "\x1b" not in text
