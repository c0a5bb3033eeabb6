"""Pages in a real browser: without errors or requests they load, sort, filter, open links, copy, print, and can be read by all."""

import sys
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_reports
import sample_speed
from test_page import PAGES, timed_report

from softcheck.report.formats import render

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe: pip install -e '.[test]'")

NARROW = {"width": 400, "height": 800}


def names(tab):
    return tab.locator("#figures-table tbody tr:visible th").all_inner_texts()


@pytest.mark.parametrize("name", ["timed", "bench", "comparison"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, name, scheme):
    tab = opened(PAGES[name](), color_scheme=scheme)
    for details in tab.locator("details").all():
        details.evaluate("each => { each.open = true }")
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("name", ["all pairs", "long sweep", "with a baseline"])
def test_large_pages_load(opened, name):
    tab = opened(PAGES[name]())
    assert tab.locator("section:visible").count() > 1


def test_nothing_but_tables_and_charts_is_wider_than_a_telephone(opened):
    tab = opened(render(timed_report(), "html"), viewport=NARROW)
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_the_table_sorts_by_figures_and_by_names_and_back(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"))
    before = names(tab)
    head = tab.locator("#figures-table th", has_text="max ULP")
    head.locator(".sort").click()
    assert names(tab)[:2] == ["my_kernels.py:softmax", "one_block"]
    assert head.get_attribute("aria-sort") == "descending"
    assert "sorted by max ULP, descending" in tab.locator("#said").inner_text()
    head.locator(".sort").click()
    assert names(tab)[-1] == "my_kernels.py:softmax"
    head.locator(".sort").click()
    assert names(tab) == before
    tab.locator("#figures-table th", has_text="variant").locator(".sort").click()
    assert names(tab) == sorted(before)


def test_the_table_filters_by_words_and_verdicts(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"))
    everything = names(tab)
    tab.locator("#filter").fill("ulp_exceeds")
    assert names(tab) == ["my_kernels.py:softmax"]
    assert tab.locator("#shown").inner_text() == f"1 of {len(everything)} rows"
    tab.locator("#filter").fill("")
    tab.locator("[data-filter=verdict]").select_option("known")
    assert names(tab) == ["notebook_basic"]
    tab.locator("[data-filter=verdict]").select_option("")
    assert names(tab) == everything


def test_a_word_is_explained_where_it_stands(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"))
    button = tab.get_by_role("button", name="what error/bound means")
    meaning = tab.locator(f"#{button.get_attribute('popovertarget')}")
    assert not meaning.is_visible()
    button.click()
    assert "above 1 it is a finding" in meaning.inner_text()
    assert abs(meaning.bounding_box()["y"] - button.bounding_box()["y"]) < 60
    tab.keyboard.press("Escape")
    assert not meaning.is_visible()


def test_a_link_opens_the_folded_part_that_it_leads_to(opened):
    page = render(sample_reports.INTERPRETED, "html")
    page = page.replace("<p>assumes packed rows", '<p id="finding-0123">assumes packed rows', 1)
    tab = opened(page, "#finding-0123")
    assert tab.locator("#finding-0123").is_visible()
    assert not opened(page).locator("#finding-0123").is_visible()


def test_a_verdict_leads_to_its_finding(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"))
    tab.locator("#figures a.verdict.fail").click()
    finding = tab.locator("article.finding:target")
    assert finding.is_visible()
    assert 0 <= finding.bounding_box()["y"] < 300


def test_a_button_copies_the_command(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"), permissions=["clipboard-read", "clipboard-write"])
    button = tab.locator("#environment .copy")
    button.click()
    tab.wait_for_function("document.querySelector('#environment .copy').textContent === 'copied'")
    assert tab.evaluate("navigator.clipboard.readText()") == sample_reports.ENVIRONMENT.command


def test_the_scheme_switches_and_stays(opened):
    tab = opened(render(sample_reports.INTERPRETED, "html"), color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(paper)
    tab.locator("#scheme").click()
    dark = tab.evaluate(paper)
    assert light == "rgb(255, 255, 255)"
    assert dark != light
    tab.reload()
    assert tab.evaluate(paper) == dark


def test_a_page_prints_whole_and_light(opened, tmp_path):
    tab = opened(render(timed_report(), "html"), color_scheme="dark")
    assert tab.pdf().startswith(b"%PDF")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator("nav").is_visible()
    assert tab.locator(".meaning").first.is_visible()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open])").count() == 0
    assert tab.locator(".found details p").first.is_visible()
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details[open]").count() == 0


def test_a_page_without_script_is_tables(opened):
    tab = opened(render(timed_report(), "html"), java_script_enabled=False)
    assert tab.locator("#figures-table tbody tr").count() == len(timed_report().variants)
    assert tab.locator("#histograms meter").first.is_visible()
    assert not tab.locator(".filters").is_visible()
    assert not tab.locator("#scheme").is_visible()
    tab.locator("summary", has_text="declared defect").first.click()
    assert tab.locator(".found details p").first.is_visible()
    tab.get_by_role("button", name="what error/bound means").click()
    assert tab.get_by_text("above 1 it is a finding").is_visible()


def test_a_script_in_a_name_does_not_run(opened):
    name = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    row = msgspec.structs.replace(sample_reports.FAILING, name=name)
    tab = opened(render(msgspec.structs.replace(sample_reports.INTERPRETED, variants=(row,)), "html"))
    assert tab.title() == "softcheck report"
    assert names(tab) == [name]


def test_tables_of_a_benchmark_sort(opened):
    tab = opened(render(sample_speed.SWEEP, "html"))
    table = tab.locator("table.sortable").nth(1)
    table.locator("th", has_text="GB/s").first.locator(".sort").click()
    speeds = table.locator("tbody tr td:nth-child(4)").all_inner_texts()
    figures = [float(text) for text in speeds if text != "\N{EN DASH}"]
    assert figures == sorted(figures, reverse=True)
    assert speeds[-1] == "\N{EN DASH}"
