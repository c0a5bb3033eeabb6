"""Contents of standard error while a report runs."""

import io
import time

import numpy as np
import pytest

from softcheck.cases.importing import case_from_bits
from softcheck.cli import progress
from softcheck.contract import FindingKind
from softcheck.run.model import FirstFinding, Standing
from softcheck.run.patience import HANG_SECONDS
from softcheck.run.protocol import ProbeTask


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


def test_a_finding_is_told_at_once_with_its_command(capsys):
    task = ProbeTask(variant="v", dtype="float16", probe="sizes")
    found = FirstFinding(
        variant="v",
        dtype="float16",
        kind=FindingKind.SUM_VIOLATION,
        where="probe/sizes/columns-1-100",
        made_by=task,
        backend="interpreter",
    )
    with progress.shown() as events:
        events.found(found)
        text = capsys.readouterr().err
    assert text == (
        "softcheck: v float16: sum_violation at probe/sizes/columns-1-100; "
        "softcheck report --variant v --dtype float16 --probe sizes --device interpreter\n"
    )


@pytest.mark.parametrize(
    ("kind", "seconds", "ending"),
    [
        (FindingKind.TIMEOUT, 3.0, "--device interpreter --time-limit 3\n"),
        (FindingKind.TIMEOUT, HANG_SECONDS, "--device interpreter\n"),
        (FindingKind.RAISED, 3.0, "--device interpreter\n"),
    ],
)
def test_the_command_of_a_call_that_took_too_long_has_the_limit_that_it_had(capsys, kind, seconds, ending):
    task = ProbeTask(variant="v", dtype="float16", probe="sizes")
    with progress.shown() as events:
        events.found(
            FirstFinding(
                variant="v",
                dtype="float16",
                kind=kind,
                where="probe/sizes",
                made_by=task,
                backend="interpreter",
                seconds_per_call=seconds,
            )
        )
        assert capsys.readouterr().err.endswith(ending)


def test_a_finding_is_one_unbroken_line_of_a_terminal_too(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    case = case_from_bits(np.zeros((1, 4), dtype=np.uint16), "float16", provenance="test", name="four")
    found = FirstFinding(
        variant="[red]v",
        dtype="float16",
        kind=FindingKind.RAISED,
        where=case.id,
        made_by=case,
        backend="interpreter",
    )
    with progress.shown(("mine",)) as events:
        events.found(found)
    assert (
        "[red]v float16: raised at saved/four/float16; softcheck report --variant '[red]v' --dtype float16 "
        "--case saved/four/float16 --corpus mine --device interpreter\n"
    ) in terminal.getvalue()


def test_a_short_run_writes_nothing(capsys):
    with progress.shown() as events:
        events.stage("starting")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("kinds", "said"), [((), "v float16: pass so far"), (("raised",), "v float16: fail: raised so far")]
)
def test_a_verdict_as_it_stands(kinds, said):
    assert str(now(*kinds)) == said
