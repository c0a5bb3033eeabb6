"""The readable formats against saved texts, and what must hold of them whatever the report."""

import html
import os
import re
from pathlib import Path

import msgspec
import pytest
from sample_reports import BROKEN, FAILING, INTERPRETED, MEASURED, PASSING, PROBED, finding

from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.probes.outcome import RandomRows
from softcheck.report import content, formats, json_format, markdown
from softcheck.report.model import Cause, PeerVerdict
from softcheck.report.output import PLAIN, Display
from softcheck.report.page import sections

DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"
GOLDEN = Path(__file__).parent / "golden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

RENDERINGS = {
    "interpreter-piped.txt": (INTERPRETED, "table", PLAIN),
    "interpreter-120.txt": (INTERPRETED, "table", Display(width=120)),
    "interpreter-80.txt": (INTERPRETED, "table", Display(width=80)),
    "cuda-120.txt": (MEASURED, "table", Display(width=120)),
    "cuda-summary.txt": (MEASURED, "summary", PLAIN),
    "interpreter-summary.txt": (INTERPRETED, "summary", Display(width=80)),
    "interpreter.md": (INTERPRETED, "markdown", PLAIN),
    "cuda.md": (MEASURED, "markdown", PLAIN),
    "interpreter.json": (INTERPRETED, "json", PLAIN),
    "interpreter.github.txt": (INTERPRETED, "github", PLAIN),
    "interpreter.junit.xml": (INTERPRETED, "junit", PLAIN),
}


@pytest.mark.parametrize("cut", [0, 94])
@pytest.mark.parametrize("verdict", ["pass", "known", "fail"])
def test_the_line_of_a_verdict_says_what_share_of_the_trials_ran_in_full(verdict, cut):
    row = msgspec.structs.replace(PASSING, verdict=verdict, trials_planned=240, trials_cut=cut, probes_run={"sizes": 1})
    report = msgspec.structs.replace(MEASURED, variants=(row, msgspec.structs.replace(row, name="other")))
    is_said = bool(cut) and verdict != "fail"
    assert ("60% of 240 planned trials ran in full" in content.kinds(row)) is is_said
    assert ("60% of 240 planned trials ran in full" in sections.sentence(row)) is is_said
    for text in (formats.render(report, "table", PLAIN), formats.render(report, "markdown", PLAIN)):
        assert (f"2 {verdict} (60% of 480 planned trials ran in full)" in text) is is_said


@pytest.mark.parametrize("name", RENDERINGS)
def test_equals_the_saved_text(name):
    text = formats.render(*RENDERINGS[name])
    saved = GOLDEN / name
    if os.environ.get("SOFTCHECK_UPDATE_GOLDEN"):
        saved.write_text(text, encoding="utf-8")
    assert text == saved.read_text(encoding="utf-8"), "read the change, then save it with SOFTCHECK_UPDATE_GOLDEN=1"


def table_lines(text):
    """Lines of the verdict tables: from a rule to the next blank line."""
    lines, inside = [], False
    for line in text.splitlines():
        inside = (inside or set(line) == {"─"}) and bool(line)
        lines += [line] if inside else []
    return lines


@pytest.mark.parametrize("report", [INTERPRETED, MEASURED])
@pytest.mark.parametrize("width", [80, 100, 120, 160, 250])
def test_no_table_line_is_wider_than_the_terminal_and_no_figure_is_cut(report, width):
    text = formats.render(report, "table", Display(width=width))
    lines = table_lines(text)
    assert lines
    assert max(map(len, lines)) <= width
    words = set(" ".join(lines).split())
    for result in report.variants:
        assert {result.verdict, content.figures.bound_share(result.max_bound_share)} <= words
        if result.findings:
            kinds = re.findall(r"[a-z_]{3,}", content.kinds(result))
            assert set(kinds) <= set(re.findall(r"[a-z_]{3,}", " ".join(words)))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_count_of_findings_survives_wrapping(width):
    lines = table_lines(formats.render(INTERPRETED, "table", Display(width=width)))
    assert sorted(re.findall(f"{TIMES}([0-9]+)", " ".join(lines))) == ["1", "1", "1", "1", "2", "3"]


def test_a_pipe_gets_one_line_per_variant():
    lines = table_lines(formats.render(INTERPRETED, "table"))[1:]
    assert len(lines) == len(INTERPRETED.variants)


def test_the_interpreter_is_named_first_and_has_no_speed_columns():
    table = formats.render(INTERPRETED, "table")
    assert table.splitlines()[0] == "interpreter: logic checked, not GPU arithmetic; no speed"
    assert "interpreter: logic checked, not GPU arithmetic; no speed" in formats.render(INTERPRETED, "markdown")
    for text in (table, formats.render(INTERPRETED, "markdown")):
        assert "GB/s" not in text
    assert "GB/s" in formats.render(MEASURED, "table")
    assert "GB/s" in formats.render(MEASURED, "markdown")


def test_what_was_not_measured_is_a_dash_in_every_column():
    row = next(line for line in table_lines(formats.render(MEASURED, "table")) if line.startswith("eager_compiled"))
    assert row.split()[2:] == [DASH] * 5
    cells = next(line for line in formats.render(MEASURED, "markdown").splitlines() if "| `eager_compiled`" in line)
    assert [c.strip() for c in cells.strip("|").split("|")][2:] == [DASH] * 5


def test_color_adds_escapes_and_nothing_else():
    plain = formats.render(INTERPRETED, "table", Display(width=120, color=False))
    color = formats.render(INTERPRETED, "table", Display(width=120, color=True))
    assert "\x1b" not in plain
    assert "\x1b[1;31mfail" in color
    assert "\x1b[32mpass" in color
    stripped = [line.rstrip() for line in ESCAPE.sub("", color).splitlines()]
    assert stripped == plain.splitlines()


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_long_foreign_messages_are_cut_and_disarmed(name):
    text = formats.render(INTERPRETED, name)
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    assert "x = tl.load(p)" in text
    # A terminal gets the beginning and the end; a file has no text cut before its reason.
    assert (text.count("a very long compiler message") < 20) == (name == "table")
    assert formats.render(INTERPRETED, "json").count("a very long compiler message") == 30


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_one_example_per_kind_and_the_number_of_the_others(name):
    text = formats.render(INTERPRETED, name)
    assert "--case odd_columns/127/float16" in text
    assert "--case odd_columns/129/float16" not in text
    assert "and 2 more cases: see --format json" in text


def test_declared_defects_stand_apart_with_their_reason():
    text = formats.render(INTERPRETED, "table")
    findings, defects = text.split("\nfindings\n")[1].split("\ndeclared defects\n")
    assert "wrong_layout" not in findings
    assert "my_kernels.py:softmax float16: assumes packed rows" in defects
    assert "notebook_basic float16: masked lanes hold undefined values" in defects


def test_the_closing_line_counts_every_verdict():
    assert content.summary(INTERPRETED) == (
        "5 variants: 1 pass, 1 fail, 1 known, 1 unsupported, 1 error; 4 cases in 3 families, 2 probes; 42 s"
    )
    assert content.summary(MEASURED) == (
        "2 variants in 2 dtypes: 2 pass, 2 unsupported; 3 cases in 2 families, 2 probes; 2 min 10 s"
    )
    assert content.summary(msgspec.structs.replace(INTERPRETED, variants=())).startswith("0 variants: nothing judged;")


def test_reasons_of_errors_are_shown_in_full():
    for name in ("table", "markdown"):
        text = formats.render(INTERPRETED, name).replace("\\", "")
        assert BROKEN.reason in text


def test_a_hostile_name_can_neither_break_a_table_nor_mention_anyone():
    hostile = msgspec.structs.replace(PASSING, name="a|b`<img src=x>`\n@team [x](y)")
    report = msgspec.structs.replace(INTERPRETED, variants=(hostile,), notes=("@team <b>|*",))
    text = formats.render(report, "markdown")
    row = next(line for line in text.splitlines() if "≥ 0.501 |" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == len(content.columns(report)) + 1
    assert "| ``a\\|b`<img src=x>` @team [x](y)`` |" in row
    assert "- &#64;team &lt;b&gt;\\|\\*" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`a`", "`` `a` ``"), ("a``b`c", "```a``b`c```"), ("", "`  `")],
)
def test_code_spans_hold_backticks(text, expected):
    assert markdown.code(text) == expected


def test_rich_markup_in_a_name_is_text():
    report = msgspec.structs.replace(
        INTERPRETED, variants=(msgspec.structs.replace(PASSING, name="[red]x[/red] :smile:"),)
    )
    assert "[red]x[/red] :smile:" in formats.render(report, "table", Display(width=200, color=True))


@pytest.mark.parametrize(
    ("bits", "dtype", "expected"),
    [
        ("3c00", "float16", "3c00 = 1 (0x1p+0)"),
        ("0001", "float16", "0001 = 5.9605e-08 (0x1p-24)"),
        ("8000", "float16", "8000 = -0 (-0x0p+0)"),
        ("7e00", "float16", "7e00 = nan (nan)"),
        ("ff80", "bfloat16", "ff80 = -inf (-inf)"),
        ("3dcccccd", "float32", "3dcccccd = 0.100000001 (0x1.99999ap-4)"),
        ("3fb999999999999a", "float64", "3fb999999999999a = 0.10000000000000001 (0x1.999999999999ap-4)"),
        ("xyz", "float16", "xyz"),
        ("3c00", "float8", "3c00"),
    ],
)
def test_bits_are_shown_with_their_value(bits, dtype, expected):
    assert content.value_of(bits, dtype) == expected


def test_the_flush_tolerant_figure_is_shown_only_where_something_was_flushed():
    assert "30.5 ULP where flushed" in content.worst_element(FAILING)
    assert "flushed" not in content.worst_element(PASSING)


def test_an_unknown_format_names_the_near_one():
    with pytest.raises(UsageError, match="a report has no format 'markdwn'; did you mean 'markdown'"):
        formats.render(INTERPRETED, "markdwn")


def test_a_report_of_probes_alone_counts_no_cases():
    report = msgspec.structs.replace(INTERPRETED, variants=(PROBED,), cases=())
    assert content.summary(report) == "1 variant: 1 fail; 1 probe; 42 s"
    text = formats.render(report, "table", PLAIN)
    assert "row_dependence in 1 trial: row 1 changes with its neighbour" in text
    assert "probes\n  hybrid float16: 1 probe, 10 trials\n" in text
    clean = msgspec.structs.replace(PROBED, findings=())
    assert content.kinds(clean) == "none"


def test_probe_lines_join_variants_of_which_the_same_can_be_said():
    rows = [
        msgspec.structs.replace(PROBED, name=name, dtype=dtype, properties={"batch_invariant": name != "c"})
        for name in "abc"
        for dtype in ("float16", "float32")
    ]
    report = msgspec.structs.replace(INTERPRETED, variants=tuple(rows[:3] + rows[4:]))
    assert content.probe_lines(report) == [
        "a float16, a float32, b float16: 1 probe, 10 trials; batch_invariant yes",
        "c float16, c float32: 1 probe, 10 trials; batch_invariant no",
    ]


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_a_witness_of_random_rows_has_a_command(name):
    shown = finding(FindingKind.SUM_VIOLATION, "probe/volume/random-rows", "row 7: sum 1.5")
    save = "softcheck corpus add --variant a --dtype float16 --bits '3c00 0001'"
    sampled = RandomRows(elements=12_345_678_901, rows=34_567_890, widths=(1, 7, 129), patterns=65536)
    result = msgspec.structs.replace(PROBED, sampled=sampled, findings=(msgspec.structs.replace(shown, save=save),))
    report = msgspec.structs.replace(INTERPRETED, variants=(result,))
    drawn = formats.render(report, name, PLAIN)
    assert f"$ {save}\n" in drawn
    assert json_format.parse(formats.render(report, "json", PLAIN)) == report
    wide = msgspec.structs.replace(shown, save=save + "0" * 600)
    report = msgspec.structs.replace(report, variants=(msgspec.structs.replace(result, findings=(wide,)),))
    drawn = formats.render(report, name, PLAIN)
    assert save not in drawn
    assert "# the command that keeps the row is in --format json\n" in drawn


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_of_trials_that_show_the_same_the_one_that_names_the_sizes_comes_first(name):
    kind = FindingKind.SUM_VIOLATION
    findings = (
        finding(kind, "probe/appended_masks/leading-513", "500 columns with 13 leading ones"),
        finding(kind, "probe/grid_limits/few", "rows >= 2"),
        finding(kind, "probe/sizes/columns-1-100", "N not a power of two"),
    )
    result = msgspec.structs.replace(PROBED, findings=findings)
    drawn = formats.render(msgspec.structs.replace(INTERPRETED, variants=(result,)), name, PLAIN)
    text = " ".join(drawn.replace("\\", "").replace("`", "").split())
    assert "sum_violation in 3 trials: N not a power of two" in text
    assert "and 2 more trials of appended_masks, grid_limits: see --format json" in text
    assert "leading ones" not in text


LONGEST = max((kind.value for kind in FindingKind), key=len)


@pytest.mark.parametrize("name", ["softmax", "a_folder_of_kernels/with_a_long_name/attention_kernels.py:softmax"])
@pytest.mark.parametrize("width", [80, 90, 100, 120])
@pytest.mark.parametrize("output_format", ["table", "summary"])
def test_no_kind_of_finding_is_broken_over_two_lines(name, width, output_format):
    findings = tuple(
        finding(FindingKind(kind), f"ties/{n}/float16", "wrong")
        for kind in (LONGEST, "out_of_bounds_write")
        for n in range(120)
    )
    result = msgspec.structs.replace(FAILING, name=name, findings=findings)
    text = formats.render(msgspec.structs.replace(INTERPRETED, variants=(result,)), output_format, Display(width=width))
    lines = table_lines(text)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert LONGEST in words
    assert "out_of_bounds_write" in words


def test_the_summary_of_a_failure_says_what_is_wrong_and_how_to_see_it_again():
    text = formats.render(INTERPRETED, "summary")
    assert "812.4 ULP where at most 0.601 is allowed" in text
    assert "$ softcheck report --variant notebook_basic --case odd_columns/127/float16" in text
    assert "declared defect not found" in text
    for left_out in ("worst elements", "\ndeclared defects\n", "\nprobes\n", "\nnotes\n"):
        assert left_out not in text
    clean = msgspec.structs.replace(INTERPRETED, variants=(PASSING,))
    assert "$ " not in formats.render(clean, "summary")


@pytest.mark.parametrize("output_format", ["table", "summary"])
def test_a_legend_explains_what_is_shown_in_five_words_each(output_format):
    text = formats.render(INTERPRETED, output_format)
    legend = dict(content.legend(INTERPRETED))
    assert set(legend) == {"known", "≥", "=", "error/bound"}
    for word, meaning in legend.items():
        assert f"{word}: {meaning}" in text
        assert len(meaning.split()) <= 5
    clean = msgspec.structs.replace(INTERPRETED, variants=(PASSING,))
    assert {"known", "="}.isdisjoint(dict(content.legend(clean)))
    assert content.legend(msgspec.structs.replace(INTERPRETED, variants=())) == []


UNITS = msgspec.structs.replace(
    INTERPRETED,
    variants=(
        msgspec.structs.replace(PASSING, operation="softmax_backward", max_sum_deviation=None),
        msgspec.structs.replace(PASSING, operation="cross_entropy", max_sum_deviation=None),
    ),
)


@pytest.mark.parametrize("name", ["table", "summary", "markdown", "html"])
def test_ulps_that_are_not_the_results_have_a_star_and_a_line_that_explains_it(name):
    text = formats.render(UNITS, name).replace("\\", "")
    assert "softmax_backward in ULPs of y (|g| + sum |y g|); cross_entropy in ULPs of max(" in html.unescape(text)
    assert "ULP*" in text
    assert "a large one passes at an error/bound up to 1" in text
    assert "ULP*" not in formats.render(INTERPRETED, name).replace("\\", "")


@pytest.mark.parametrize(
    ("verdict", "difference", "said"), [("pass", 1e31, True), ("pass", 0.5, False), ("fail", 1e31, False)]
)
def test_a_large_difference_from_torch_that_passes_is_said_to_be_judged_by_the_bound(verdict, difference, said):
    result = msgspec.structs.replace(PASSING, verdict=verdict, max_abs_difference_to_torch=difference)
    assert content.worst_element(result).endswith(" (absolute; error/bound judges it)") == said


def test_a_table_has_at_most_eight_columns_and_the_share_of_the_bound_leads():
    titles = [column.title for column in content.columns(UNITS)]
    assert titles == ["variant", "verdict", "error/ bound", "max ULP*", "findings"]
    timed = [msgspec.structs.replace(row, tflop_per_s=9.0) for row in MEASURED.variants]
    titles = [column.title for column in content.columns(msgspec.structs.replace(MEASURED, variants=tuple(timed)))]
    assert titles[3:] == ["max ULP", "Tflop/s", "vs torch", "findings"]


@pytest.mark.parametrize("name", ["table", "markdown", "html"])
def test_the_verdicts_of_peers_stand_in_the_table_with_what_they_are(name):
    said = (PeerVerdict(rule="2x", cases=3, refused=0), PeerVerdict(rule="assert_close", cases=78, refused=3))
    rows = (msgspec.structs.replace(PASSING, peers=said), FAILING)
    report = msgspec.structs.replace(INTERPRETED, variants=rows)
    text = html.unescape(formats.render(report, name)).replace("\\_", "_")
    assert "2x pass, assert_close 3 of 78 fail" in text
    assert text.count(content.PEERS) == 1
    assert content.PEERS not in formats.render(INTERPRETED, name)
    assert json_format.parse(json_format.render(report)).variants[0].peers == said


def in_dtype(dtype, *texts):
    """A variant that fails in a dtype for causes in these words, each of one finding."""
    found = [finding(FindingKind.RAISED, f"layout/{text}/{dtype}", text) for text in texts]
    causes = tuple(Cause(text=f.message, mend=f"mend {f.message}", findings=(f.id,)) for f in found)
    return msgspec.structs.replace(FAILING, dtype=dtype, findings=tuple(found), causes=causes)


def test_a_mend_has_a_line_of_its_own():
    report = msgspec.structs.replace(INTERPRETED, variants=(in_dtype("float16", "strides ignored"),))
    lines = [line.strip() for line in formats.render(report, "table").splitlines()]
    at = lines.index(f"strides ignored (raised {TIMES}1)")
    assert lines[at + 1] == "fix: mend strides ignored"
    assert "  Fix: mend strides ignored" in formats.render(report, "markdown").splitlines()


def test_a_cause_that_dtypes_share_stands_once_and_one_of_a_dtype_alone_under_its_name():
    rows = (
        in_dtype("float16", "strides", "tails"),
        in_dtype("bfloat16", "strides"),
        in_dtype("float32", "strides", "seams"),
    )
    text = formats.render(msgspec.structs.replace(INTERPRETED, variants=rows), "table")
    name = FAILING.name
    block = text.partition("findings\n  ")[2]
    assert block.startswith(f"{name} float16, bfloat16, float32; shown in float16\n    strides (")
    assert block.count("    strides (") == 1
    assert re.search(rf"  {re.escape(name)} float16\n    tails \(", text)
    assert re.search(rf"  {re.escape(name)} float32\n    seams \(", text)


def test_the_same_cause_of_another_variant_stands_under_its_own_name():
    other = msgspec.structs.replace(in_dtype("bfloat16", "strides"), name="other.py:softmax")
    text = formats.render(
        msgspec.structs.replace(INTERPRETED, variants=(in_dtype("float16", "strides"), other)), "table"
    )
    assert text.count("    strides (") == 2
    assert "shown in" not in text
