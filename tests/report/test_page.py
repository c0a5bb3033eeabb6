"""The HTML page: complete, self-contained, and deaf to what names and messages hold."""

import base64
import hashlib
import json
import re
import sys
from pathlib import Path

import msgspec
import pytest
import sample_speed
from hypothesis import given, settings
from hypothesis import strategies as st
from page_elements import Elements
from sample_reports import CASES, FAILING, GENERATED, INTERPRETED, KNOWN, MEASURED, PASSING, UNSUPPORTED

from softcheck.report import content, formats
from softcheck.report.compare import Tolerances, compare
from softcheck.report.json_format import load_any
from softcheck.report.model import Bin, ErrorPeak, Stage
from softcheck.report.page import sections
from softcheck.report.templates import templates

RESULTS = Path(__file__).resolve().parents[2] / "results" / "h200"
BINS = (Bin(below=2.0**-10, elements=10), Bin(below=0.25, elements=80), Bin(below=0.5, elements=10))


def timed_report():
    """A report with speed and histograms, of a variant that passes, one with a defect, one that fails, and one not run."""
    shape = sample_speed.SWEEP.shapes[0]
    names = [figure.variant for figure in shape.variants]
    rows = [
        msgspec.structs.replace(row, name=name, histogram=BINS, gb_per_s=1.0)
        for row, name in zip((PASSING, KNOWN, FAILING), names, strict=False)
    ]
    return msgspec.structs.replace(MEASURED, variants=(*rows, UNSUPPORTED), cases=(*CASES, GENERATED), timings=(shape,))


def comparison():
    return compare(timed_report(), INTERPRETED, Tolerances())


PAGES = {
    "interpreted": lambda: formats.render(INTERPRETED, "html"),
    "timed": lambda: formats.render(timed_report(), "html"),
    "with a baseline": lambda: formats.render(timed_report(), "html", baseline=comparison()),
    "all pairs": lambda: formats.render(load_any(RESULTS / "pairs-float16.json"), "html"),
    "bench": lambda: formats.render(sample_speed.SWEEP, "html"),
    "long sweep": lambda: formats.render(load_any(RESULTS / "speed" / "columns.json"), "html"),
    "comparison": lambda: formats.render(comparison(), "html"),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_well_formed_and_its_links_lead_somewhere(name):
    page = PAGES[name]()
    elements = Elements(page)
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    targets = [link.removeprefix("#") for link in elements.values("href")]
    assert targets
    assert set(targets) <= set(ids)
    for attribute in ("popovertarget", "aria-labelledby"):
        assert set(elements.values(attribute)) <= set(ids)
    assert len(page.encode()) < 3e6


@pytest.mark.parametrize(("name", "command"), [("timed", "report"), ("all pairs", "exhaust")])
def test_a_page_is_named_after_its_command(name, command):
    assert Elements(PAGES[name]()).inside("title")[0] == f"softcheck {command}"


def policy_of(page):
    return next(a["content"] for _, a in Elements(page).found if a.get("http-equiv") == "Content-Security-Policy")


@pytest.mark.parametrize("name", PAGES)
def test_no_page_can_ask_a_host_for_anything(name):
    page = PAGES[name]()
    elements = Elements(page)
    assert elements.values("src") == []
    assert [link for link in elements.values("href") if not link.startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "base", "use", "image"} & {tag for tag, _ in elements.found}
    style = "".join(elements.inside("style"))
    assert "url(" not in style
    assert "@import" not in style
    policy = policy_of(page)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_policy_names_the_digest_of_each_script_and_style():
    page = formats.render(INTERPRETED, "html")
    policy = policy_of(page)
    inlined = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page, flags=re.DOTALL)
    assert len(inlined) >= 2
    for text in inlined:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_the_largest_report_is_small():
    reports = [load_any(RESULTS / f"{dtype}.json") for dtype in ("float16", "bfloat16", "float32", "float64")]
    whole = msgspec.structs.replace(
        reports[0],
        variants=tuple(row for report in reports for row in report.variants),
        timings=tuple(shape for report in reports for shape in report.timings),
    )
    assert len({row.name for row in whole.variants}) == 15
    page = formats.render(whole, "html")
    Elements(page)
    assert len(page.encode()) < 3e6


def table_of(page, caption):
    """The body of a table below its heading: rows of texts."""
    part = page.partition(f'id="{caption}"')[2].partition("</table>")[0].partition("<tbody>")[2]
    rows = re.findall(r"<tr.*?</tr>", part, flags=re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]
    return [[Elements(f"<i>{cell}</i>") for cell in row] for row in cells]


def test_the_table_holds_the_figures_of_the_terminal():
    rows = table_of(formats.render(INTERPRETED, "html"), "figures-table")
    columns = content.columns(INTERPRETED)
    assert len(rows) == len(INTERPRETED.variants)
    for row, result in zip(rows, INTERPRETED.variants, strict=True):
        *figures, findings = zip(row, columns, strict=True)
        for cell, column in figures:
            assert "".join(text for _, text in cell.texts).strip() == column.cell(result)
        said = "".join(text for _, text in findings[0].texts)
        assert not result.findings or findings[1].cell(result).partition(";")[0] in said
        assert result.findings or said.strip() == sections.sentence(result)


def test_each_column_that_has_an_explanation_says_it_and_known_defects_are_folded():
    page = formats.render(INTERPRETED, "html")
    said = " ".join(Elements(page).inside("div"))
    assert "the largest error |y - r| / ulp(r)" in said.replace("The", "the")
    assert "above 1 it is a finding" in said
    folded = page.partition("<summary>declared defect</summary>")[2].partition("</details>")[0]
    assert "assumes packed rows" in folded
    assert "wrong_layout in 1 case" in folded


def test_verdicts_come_with_their_causes():
    page = formats.render(INTERPRETED, "html")
    table = page.partition('id="figures-table"')[2].partition("</table>")[0]
    assert "no broken promise" in table
    assert "masked lanes hold undefined values" in table
    assert "torch.compile is judged on a GPU only" in table
    rows = [re.sub("<[^>]*>", " ", row).split() for row in table.partition("<tbody>")[2].split("</tr>")[:-1]]
    assert all(row.verdict in words for row, words in zip(INTERPRETED.variants, rows, strict=True))


def test_what_was_not_checked_is_said():
    page = formats.render(INTERPRETED, "html")
    part = page.partition('id="not-checked"')[2].partition("</section>")[0]
    assert "bfloat16, float32, float64" in part
    assert "guard_bands" in part
    assert "empties" not in part
    assert "the GPU&#39;s arithmetic and speed were not judged" in part
    assert "cases above 65536 elements were cut" in part


def test_a_long_sweep_has_one_table_of_all_shapes():
    assert "<summary>all 98 shapes</summary>" in PAGES["long sweep"]()


def test_a_report_that_timed_has_the_figures_of_each_shape():
    part = PAGES["timed"]().partition('<section id="speed"')[2].partition("</section>")[0]
    assert all(f">{figure.variant}</th>" in part for figure in timed_report().timings[0].variants)


def test_a_histogram_has_a_bar_for_each_share_and_the_largest_bound():
    peaks = tuple(
        ErrorPeak(below=2.0**k, ulp=0.5, bound=bound, share=0.5 / bound) for k, bound in enumerate((0.75, 2.0, 1.0))
    )
    rows = [
        msgspec.structs.replace(PASSING, name=name, histogram=BINS, error_by_distance=of)
        for name, of in (("bounded", peaks), ("unbounded", ()))
    ]
    page = formats.render(msgspec.structs.replace(INTERPRETED, variants=tuple(rows)), "html")
    part = page.partition('<section id="histograms"')[2].partition("</section>")[0]
    bounded, unbounded = (
        re.findall(r"<td.*?>(.*?)</td>", row) for row in part.partition("<tbody>")[2].split("</tr>")[:2]
    )
    assert (bounded[0], unbounded[0]) == ("2.000", "\N{EN DASH}")
    shares = [(cell.partition("<")[0], re.search('value="(.*?)"', cell)[1]) for cell in bounded[1:]]
    assert (shares[0], shares[-2], shares[-1]) == (("0.1", "0.833"), ("0.1", "0.833"), ("0", "0"))


def test_a_report_without_speed_or_histograms_has_no_such_section():
    assert 'id="speed"' not in formats.render(INTERPRETED, "html")
    assert 'id="histograms"' not in formats.render(INTERPRETED, "html")
    empty = msgspec.structs.replace(INTERPRETED, variants=(), cases=())
    assert 'id="figures"' not in formats.render(empty, "html")


def renamed(text):
    """A report in which a text stands wherever a user's or a machine's text may: names, messages, commands, reasons."""
    rows = []
    for row in timed_report().variants:
        found = tuple(
            msgspec.structs.replace(f, message=text, case=text, reproduce=text, known=f.known and text)
            for f in row.findings
        )
        name = text if row.name == "one_block" else row.name
        rows.append(msgspec.structs.replace(row, name=name, findings=found, reason=row.reason and text))
    timings = tuple(
        msgspec.structs.replace(
            shape,
            variants=tuple(
                msgspec.structs.replace(v, variant=text if v.variant == "one_block" else v.variant, notes=(text,))
                for v in shape.variants
            ),
        )
        for shape in timed_report().timings
    )
    environment = msgspec.structs.replace(MEASURED.environment, device=text, command=text, git_commit=text, torch=text)
    sets = tuple(msgspec.structs.replace(found, name=text, domain=text) for found in MEASURED.exhaustive)
    return msgspec.structs.replace(
        MEASURED,
        environment=environment,
        variants=tuple(rows),
        exhaustive=sets,
        timings=timings,
        notes=(text,),
        errors=(text,),
        stages=(Stage(name=text, seconds=1.0),),
    )


def benchmark(text):
    """A benchmark with the same texts."""
    report = renamed(text)
    return msgspec.structs.replace(
        sample_speed.SWEEP, environment=report.environment, shapes=report.timings, reference=text, errors=(text,)
    )


@pytest.fixture(scope="module")
def plain_pages():
    return pages_of("plain")


HOSTILE = st.sampled_from(
    [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '" onmouseover="alert(1)',
        "' autofocus onfocus='alert(1)",
        "]]><svg/onload=alert(1)>",
        "{{ 7 * 7 }}{% for x in y %}",
        "javascript:alert(1)",
        "</textarea></title></style></table>",
        "<!--",
        "--><b>",
        "&lt;b&gt;&#60;i&#62;",
        "\u2028\u2029\0\x1b[31m",
    ]
)
TEXTS = st.lists(HOSTILE | st.text(st.characters(codec="utf-8"), min_size=1, max_size=8), min_size=1, max_size=4).map(
    "".join
)


def pages_of(text):
    """The three kinds of pages with a text in all places."""
    report = renamed(text)
    return [
        Elements(formats.render(report, "html")),
        Elements(formats.render(benchmark(text), "html")),
        Elements(formats.render(compare(report, report, Tolerances()), "html")),
    ]


@settings(max_examples=25)
@given(TEXTS)
def test_no_text_of_a_result_makes_an_element_or_an_attribute(plain_pages, text):
    for found, expected in zip(pages_of(text), plain_pages, strict=True):
        assert found.outline == expected.outline
        assert found.inside("script") == expected.inside("script")
        assert found.inside("style") == expected.inside("style")
        assert [link for link in found.values("href") if not link.startswith("#")] == []


@settings(max_examples=100)
@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=3))
def test_embedded_data_stay_data(value):
    template = templates().from_string('{% import "macros.html" as macros %}{{ macros.data("steps", value) }}')
    found = Elements(template.render(value=value))
    assert found.outline == [("script", ("type", "id"))]
    assert json.loads("".join(found.inside("script"))) == value


def test_a_comparison_names_its_regressions():
    slower = sample_speed.speed_report(sample_speed.samples(slower=1.5))
    faster = sample_speed.speed_report(sample_speed.samples())
    page = formats.render(compare(faster, slower, Tolerances()), "html")
    assert "REGRESSION" in page


def test_rendering_needs_no_torch():
    program = (
        "import sys\n"
        "from softcheck.report.formats import render\n"
        "from softcheck.report.json_format import load_any\n"
        f"render(load_any({str(RESULTS / 'speed' / 'notebook.json')!r}), 'html')\n"
        "assert 'torch' not in sys.modules\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
