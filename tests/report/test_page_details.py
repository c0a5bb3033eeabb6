"""The page's findings, and error curves hold what the report holds, and nothing that a text slips in."""

import re

import msgspec
from hypothesis import given, settings
from made_findings import at
from page_elements import Elements
from sample_reports import FAILING, INTERPRETED, PASSING
from test_page import RESULTS, TEXTS

from softcheck.contract import Surroundings
from softcheck.facts import Facts, Sizes, Sweep, Where
from softcheck.probes.outcome import SeenRegime
from softcheck.report import formats
from softcheck.report.figures import NOT_MEASURED
from softcheck.report.json_format import load_any, parse
from softcheck.report.model import ErrorPeak
from softcheck.report.page.sections import ELEMENT_COLUMNS
from softcheck.report.reproduce import bits_command

AROUND = Surroundings(
    first_column=1,
    inputs="3c00 fc00 bc00",
    outputs="3b00 3c00 2c00",
    exact="0.8807970779778824 0 0.11920292202211755",
    ulps="12.5 - 1",
    bounds="0.5 - 0.6",
    row="0000 3c00 fc00 bc00",
)
PEAKS = tuple(
    ErrorPeak(below=below, ulp=ulp, bound=4.0, share=min(ulp / 4, 1e300))
    for below, ulp in ((2.0**-10, 0.5), (1.0, 2.0), (1024.0, 0.0), (None, 1e308))
)
COLUMNS = tuple(ErrorPeak(below=float(2**k), ulp=0.5 * k, bound=4.0, share=0.3 * k) for k in range(12))
REGIMES = (
    SeenRegime(words="columns <= 1024", where=at(most=1024), launches=("kernel(BLOCK=1024)",)),
    SeenRegime(
        words="rows >= 8 and columns > 1024",
        where=Where(any_of=((Sizes(of="rows", least=8), Sizes(least=1025)),)),
        launches=("tiled(BLOCK=1024)",),
        narrowest=(8, 1025),
    ),
    SeenRegime(words="odd columns > 1024", where=at(least=1025, modulus=2, remainder=1)),
)


def detailed(text="kind"):
    """A report with everything that a run keeps for the page; ``text`` stands wherever a user's may."""
    first, *rest = FAILING.findings
    around = msgspec.structs.replace(AROUND, inputs=f"3c00 {text}", row=f"{text} 3c00", exact=f"{text} 0.5 0.5")
    found = (
        msgspec.structs.replace(first, around=around if text != "kind" else AROUND, column=2),
        msgspec.structs.replace(
            rest[0],
            case="probe/sizes/columns-1-100",
            message=text,
            facts=Facts(where=at(least=513), sweep=Sweep(failing=5, tried=9, of="widths"), way={"layout": text}),
        ),
        rest[1],
        msgspec.structs.replace(rest[2], save=bits_command("a.py:f", "float16", f"3c00 {text}; 0000"), script=text),
        *rest[3:],
    )
    failing = msgspec.structs.replace(
        FAILING,
        findings=found,
        error_by_distance=PEAKS,
        error_by_column=COLUMNS,
        judged_shapes={"ulp_exceeds_bound": "2x513-520 4x1024", text: "2x513 1x7", "right": "1x1-6 0x3 2x512"},
        seen_regimes=tuple(msgspec.structs.replace(regime, launches=(text,)) for regime in REGIMES),
    )
    torch = msgspec.structs.replace(
        PASSING,
        name="torch",
        error_by_distance=PEAKS[:2],
        error_by_column=COLUMNS[:3],
        judged_shapes={"right": "2x1-9"},
    )
    return msgspec.structs.replace(INTERPRETED, variants=(torch, failing))


def section(page, name):
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_the_page_is_well_formed_and_each_finding_has_an_anchor():
    report = detailed()
    page = formats.render(report, "html")
    elements = Elements(page)
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    assert {f"finding-{f.id}" for row in report.variants for f in row.findings} <= set(ids)
    assert {link.removeprefix("#") for link in elements.values("href")} <= set(ids)


def test_a_finding_shows_its_elements_its_row_its_input_and_lines_to_copy():
    part = section(formats.render(detailed(), "html"), "findings")
    table = part.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in table.split("</tr>")[:-1]]
    assert len(rows[0]) == len(ELEMENT_COLUMNS)
    assert rows[0] == ["1", "<code>3c00</code>", "1", "<code>3b00</code>", "0.875", "0.8807970779778824", "12.5", "0.5"]
    assert rows[1][-2:] == [NOT_MEASURED, NOT_MEASURED]
    assert table.count('class="witness"') == 1
    assert '<tr class="witness"><th scope="row" class="number">2<' in table
    assert "the whole row, 4 columns" in part
    copied = Elements(part).values("data-copy")
    assert any(text.startswith("softcheck report") for text in copied)


def test_one_answer_for_a_row_is_one_line_of_the_table():
    report = detailed()
    around = Surroundings(first_column=0, inputs="", outputs="3f8e0000", exact="1.25", ulps="3", bounds="2", row="3c00")
    finding = msgspec.structs.replace(report.variants[1].findings[0], around=around, column=0)
    row = msgspec.structs.replace(report.variants[1], findings=(finding,), operation="logsumexp")
    part = section(formats.render(msgspec.structs.replace(report, variants=(row,)), "html"), "findings")
    table = part.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", table)
    assert cells == ["0", "<code></code>", "", "<code>3f8e0000</code>", "1.109375", "1.25", "3", "2"]


@settings(max_examples=40)
@given(TEXTS.filter(lambda text: text not in ("right", "refused")))
def test_no_text_makes_an_element_or_an_attribute(text):
    one = Elements(formats.render(detailed(text), "html"))
    # Spaces part elements from each other; as many words make as many elements.
    other = Elements(formats.render(detailed(" ".join("plain" for _ in text.split(" "))), "html"))
    assert one.inside("script") == other.inside("script")
    assert {tag for tag, _ in one.found} == {tag for tag, _ in other.found}
    assert {name for _, attributes in one.found for name in attributes} == {
        name for _, attributes in other.found for name in attributes
    }
    assert [link for link in one.values("href") if not link.startswith("#")] == []


def test_what_is_kept_comes_back_from_the_json():
    report = detailed()
    assert parse(formats.render(report, "json")) == report


def test_reports_of_before_are_drawn_without_these_sections():
    page = formats.render(load_any(RESULTS / "float16.json"), "html")
    assert page.count('class="finding"') > 5


def test_a_verdict_in_the_table_leads_to_the_first_finding():
    page = formats.render(detailed(), "html")
    table = section(page, "figures")
    first = detailed().variants[1].findings[0]
    assert f'href="#finding-{first.id}">fail</a>' in table
    assert f'<article class="finding" id="finding-{first.id}"' in page
