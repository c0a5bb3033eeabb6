"""The step summary: appended to, never beyond its limit, and never a reason to fail."""

import pytest
from sample_reports import INTERPRETED

from softcheck.report import ci, formats

WHOLE = formats.render(INTERPRETED, "markdown")


@pytest.fixture
def summary(tmp_path, monkeypatch):
    file = tmp_path / "summary.md"
    monkeypatch.setenv(ci.VARIABLE, str(file))
    return file


def add():
    ci.add_step_summary(lambda: WHOLE)


def test_what_the_step_has_written_before_stays(summary):
    summary.write_text("before\n")
    add()
    add()
    assert summary.read_text() == f"before\n{WHOLE}\n{WHOLE}\n"


@pytest.mark.parametrize(
    ("room", "has_details", "has_table"), [(50_000, True, True), (1400, False, True), (500, False, False)]
)
def test_the_limit_is_kept_by_leaving_out_details_and_then_the_table(summary, room, has_details, has_table):
    summary.write_text("x" * (ci.LIMIT - room - 1) + "\n")
    add()
    text = summary.read_text().partition("\n")[2]
    assert len(summary.read_bytes()) <= ci.LIMIT
    assert text.startswith("## softcheck\n\n**5 variants: 1 pass, 1 fail")
    assert ("<details>" in text, "| variant |" in text) == (has_details, has_table)
    assert ("at most 1024 KiB" in text) != has_details


def test_a_full_summary_is_left_as_it_is(summary):
    summary.write_bytes(b"x" * ci.LIMIT)
    add()
    assert summary.stat().st_size == ci.LIMIT


@pytest.mark.parametrize("path", ["", "no/such/folder/summary.md", ".", "nul\0byte"])
def test_a_summary_that_can_not_be_written_fails_nothing(monkeypatch, tmp_path, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ci.os, "environ", {ci.VARIABLE: path})
    add()
    assert list(tmp_path.iterdir()) == []


def test_without_a_summary_nothing_is_drawn(monkeypatch):
    monkeypatch.delenv(ci.VARIABLE, raising=False)
    ci.add_step_summary(lambda: pytest.fail("drawn for nobody"))
