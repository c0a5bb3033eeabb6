"""Findings in a real browser: a link opens a finding, its lines are copied, and all can be read by all."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from test_page_details import detailed

from softcheck.report.formats import render

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe: pip install -e '.[test]'")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(opened, scheme):
    tab = opened(render(detailed(), "html"), color_scheme=scheme)
    for details in tab.locator("details").all():
        details.evaluate("each => { each.open = true }")
    found = axe.Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()


def test_a_link_to_a_folded_finding_opens_it(opened):
    report = detailed()
    folded = report.variants[1].findings[1]
    tab = opened(render(report, "html"), f"#finding-{folded.id}")
    line = tab.locator(f"#finding-{folded.id}")
    assert line.is_visible()
    assert f"{folded.kind} in 1 trial\n\n{folded.message}\n" in line.inner_text()
    others = tab.locator(".finding details:not([open])")
    assert others.count() > 0


def test_a_page_fits_a_telephone(opened):
    tab = opened(render(detailed(), "html"), viewport={"width": 400, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
