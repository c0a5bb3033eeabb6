"""softcheck render: what any command saved can be drawn, and a format that it has not is refused by name."""

import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from softcheck.cli.listing import render_command as command
from softcheck.errors import UsageError
from softcheck.report.formats import FORMATS, SPEED_FORMATS
from softcheck.report.json_format import render

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
import sample_reports
import sample_speed


@pytest.fixture
def saved(tmp_path):
    paths = {"report": tmp_path / "report.json", "bench": tmp_path / "bench.json"}
    paths["report"].write_text(render(sample_reports.MEASURED), encoding="utf-8")
    paths["bench"].write_text(render(sample_speed.SWEEP), encoding="utf-8")
    return paths


def drawn(path, output_format):
    return CliRunner().invoke(command, [str(path), "--format", output_format], catch_exceptions=True)


@pytest.mark.parametrize(
    ("kind", "output_format"), [("report", f) for f in FORMATS] + [("bench", f) for f in SPEED_FORMATS]
)
def test_saved_result_is_drawn(saved, kind, output_format):
    found = drawn(saved[kind], output_format)
    assert (found.exit_code, found.exception) == (0, None)
    shown = {
        "report": sample_reports.MEASURED.variants[0].name,
        "bench": sample_speed.SWEEP.shapes[0].variants[0].variant,
    }
    # Annotations and their like hold findings alone, and this report has none.
    name = {"github": "softcheck", "sarif": "softcheck", "gitlab": "[]"}.get(output_format, shown[kind])
    assert name in found.output.replace("\\", "")
    if output_format == "json":
        assert found.output.encode() == saved[kind].read_bytes()


def test_format_that_a_benchmark_has_not_is_refused_with_those_that_it_has(saved):
    found = drawn(saved["bench"], "summary")
    assert isinstance(found.exception, UsageError)
    assert "'summary'" in str(found.exception)
    assert "markdown" in str(found.exception)


def test_a_baseline_stands_on_a_reports_page_and_nowhere_else(saved, tmp_path):
    before = tmp_path / "before.json"
    better = msgspec.structs.replace(sample_reports.MEASURED.variants[0], max_ulp=0.25)
    before.write_text(render(msgspec.structs.replace(sample_reports.MEASURED, variants=(better,))), encoding="utf-8")

    def drawn_beside(kind, output_format, *limits):
        words = [str(saved[kind]), "--format", output_format, "--baseline", str(before), *limits]
        return CliRunner().invoke(command, words, catch_exceptions=True)

    page = drawn_beside("report", "html")
    assert (page.exit_code, page.exception) == (0, None)
    assert "Against the baseline" in page.output
    assert "1 regression beyond 0.01 ULP" in page.output
    assert "0 regressions beyond 0.5 ULP" in drawn_beside("report", "html", "--max-ulp-increase", "0.5").output
    for kind, output_format in (("report", "table"), ("bench", "html")):
        refused = drawn_beside(kind, output_format)
        assert isinstance(refused.exception, UsageError)
        assert f"softcheck compare {before} {saved[kind]}" in str(refused.exception)
