"""What stands on standard error while a report runs."""

import time

import pytest

from softcheck.cli import progress
from softcheck.run.model import Standing


def now(*kinds):
    return Standing(variant="v", dtype="float16", results=3, kinds=kinds)


def test_a_line_is_written_now_and_then_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.05)
    with progress.shown() as events:
        events.stage("running cases and probes")
        events.progress(3, 8)
        events.standing(now("raised"))
        time.sleep(0.3)
    text = capsys.readouterr().err
    assert "running cases and probes, 3 of 8; 1 of 1 verdicts fail so far" in text
    assert len(text.splitlines()) >= 2


def test_a_short_run_writes_nothing(capsys):
    with progress.shown() as events:
        events.stage("starting")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("kinds", "said"), [((), "v float16: pass so far"), (("raised",), "v float16: fail: raised so far")]
)
def test_a_verdict_as_it_stands(kinds, said):
    assert str(now(*kinds)) == said
