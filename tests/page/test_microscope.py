"""The row, step by step, in a real browser: it plays, steps, goes to other rows and widths, and is a table without a script."""

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_reports
from sample_traces import TRACE

from softcheck.report.formats import render

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe: pip install -e '.[test]'")


@pytest.fixture
def tab(opened):
    return opened(render(TRACE, "html"))


def at(tab):
    return tab.locator("#microscope-at").inner_text()


def test_steps_forward_back_and_to_the_start(tab):
    assert at(tab) == "1 of 5"
    assert tab.locator("#microscope-phase").inner_text() == "load"
    assert tab.locator("#microscope-words").inner_text() == "columns 0 to 2; 1 masked lane loads 0"
    assert tab.locator("#microscope-lanes li").all_inner_texts()[-1].split() == ["masked", "0"]
    assert tab.locator("#microscope-previous").is_disabled()
    for _ in range(3):
        tab.locator("#microscope-next").click()
    assert at(tab) == "4 of 5"
    assert tab.locator("#microscope-phase").inner_text() == "block sum"
    assert tab.locator("#microscope-program").inner_text() == "4, 0, 0"
    assert tab.locator("#microscope-maximum").inner_text() == "2.5"
    assert tab.locator("#microscope-sum").inner_text() == "9.5"
    assert tab.locator("#microscope-source").inner_text() == "x4 = tl.load(x)"
    assert tab.locator("#microscope-lanes li.off").inner_text().split("\n") == [
        "of the columns",
        "9.5",
        "exact 7.5",
        "1e+06 ULP",
    ]
    assert tab.locator("tr.current:visible").get_attribute("class") == "born current"
    tab.locator("#microscope-previous").click()
    assert at(tab) == "3 of 5"
    tab.locator("#microscope-reset").click()
    assert at(tab) == "1 of 5"


def test_it_plays_to_the_end_and_stops(opened):
    tab = opened(render(TRACE, "html"))
    tab.clock.install()
    tab.reload()
    tab.locator("#microscope-play").click()
    assert tab.locator("#microscope-play").get_attribute("aria-pressed") == "true"
    tab.clock.run_for(2000)
    assert at(tab) == "3 of 5"
    tab.clock.run_for(20000)
    assert at(tab) == "5 of 5"
    assert tab.locator("#microscope-play").inner_text() == "play"
    tab.locator("#microscope-play").click()
    assert at(tab) == "1 of 5"
    tab.clock.run_for(1000)
    tab.locator("#microscope-play").click()
    tab.clock.run_for(20000)
    assert at(tab) == "2 of 5", "a pause holds the step"


def test_rows_and_widths_are_those_recorded(tab):
    assert tab.locator("#microscope-row option").all_inner_texts() == ["4", "7"]
    assert tab.locator("#microscope-columns option").all_inner_texts() == ["3"]
    tab.locator("#microscope-row").select_option("7")
    assert tab.locator("#microscope-columns option").all_inner_texts() == ["3", "6"]
    tab.locator("#microscope-columns").select_option("6")
    assert tab.locator("article:visible h3").inner_text() == "padded.py:softmax, float32, row 7, 6 columns"
    tab.locator("#microscope-random").click()
    assert tab.locator("article:visible").count() == 1
    assert "6 columns" not in tab.locator("article:visible h3").inner_text()


def test_it_can_be_played_from_the_keyboard(tab):
    tab.locator("#microscope-next").focus()
    tab.keyboard.press("Enter")
    assert at(tab) == "2 of 5"
    tab.keyboard.press("ArrowRight")
    assert at(tab) == "3 of 5"
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    assert at(tab) == "1 of 5"
    tab.locator("#microscope-step").focus()
    tab.keyboard.press("End")
    assert at(tab) == "5 of 5"


def test_a_row_of_the_table_leads_to_its_step_and_a_link_to_its_recording(opened, tab):
    tab.locator("article:visible tbody tr", has_text="block sum").click()
    assert at(tab) == "4 of 5"
    linked = opened(render(TRACE, "html"), "#steps-1-3")
    assert "row 7, 6 columns" in linked.locator("article:visible h3").inner_text()


def test_without_a_script_it_is_a_table_of_steps_for_each_recording(opened):
    tab = opened(render(TRACE, "html"), java_script_enabled=False)
    assert not tab.locator("#microscope").is_visible()
    assert tab.locator("table.steps:visible").count() == 3
    assert tab.locator("tr.born").first.inner_text().split("\t")[:3] == ["4", "block sum", "columns 0 to 2"]
    assert "a note" in tab.locator("ul.notes").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, scheme):
    tab = opened(render(TRACE, "html"), color_scheme=scheme)
    tab.locator("#microscope-step").fill("4")
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


def test_paper_holds_every_recording(tab):
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("article:visible").count() == 3
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("article:visible").count() == 1
    assert tab.pdf().startswith(b"%PDF")


def test_a_report_shows_the_recordings_that_it_holds(opened):

    other = msgspec.structs.replace(TRACE, variant="online", rows=TRACE.rows[:1])
    tab = opened(render(msgspec.structs.replace(sample_reports.INTERPRETED, traces=(TRACE, other)), "html"))
    assert tab.locator("#microscope-variant option").all_inner_texts() == [
        "padded.py:softmax, float32",
        "online, float32",
    ]
    tab.locator("#microscope-variant").select_option("online, float32")
    assert tab.locator("#row article:visible h3").inner_text().startswith("online, float32, row 4")


def test_no_text_of_a_trace_runs(opened):
    name = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    steps = tuple(
        msgspec.structs.replace(one, text=name, kernel=name, source=name, note=name, dtype=name)
        for one in TRACE.rows[0].steps
    )
    rows = (msgspec.structs.replace(TRACE.rows[0], steps=steps),)
    hostile = msgspec.structs.replace(
        TRACE, variant=name, case=name, command=name, triton=name, notes=(name,), rows=rows
    )
    tab = opened(render(hostile, "html"))
    tab.locator("#microscope-next").click()
    assert tab.title() == "softcheck trace"
    assert tab.locator("img").count() == 0
    assert at(tab) == "2 of 5"
