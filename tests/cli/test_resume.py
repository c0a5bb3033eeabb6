"""A report that is killed goes on with ``--resume`` and says the same as one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec
import pytest
from command import softcheck

from softcheck.cli.report import report_command as command
from softcheck.cli.resuming import DAYS_KEPT, clear_away, take_up
from softcheck.errors import UsageError
from softcheck.run.journal import Journal, RunHeader, _records
from softcheck.run.protocol import Ready

ROOT = Path(__file__).parents[2]
KERNEL = """
import pathlib, time, torch

def f(x):
    with open({calls!r}, "a") as calls:
        calls.write(f"{{tuple(x.shape)}}\\n")
    time.sleep(0.02)
    if 5 < x.shape[1] < 9:
        raise ValueError("not this width")
    return torch.softmax(x, -1)
"""
HEADER = RunHeader(
    softcheck="0",
    ready=Ready("interpreter", "CPU", "2", "3", "3", None),
    asked={"variants": ["torch"], "dtypes": ["float16"], "cases": "0"},
    sources={},
    settings={},
)
OPTIONS = ["--device", "interpreter", "--dtype", "float16", "--generate", "3", "--jobs", "2", "--seed", "2"]
CHOICE = ["--family", "widths", "--probe", "empties"]


@pytest.fixture
def kernel(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    path = folder / "slow.py"
    path.write_text(KERNEL.format(calls=str(tmp_path / "calls")))
    return path


def arguments(kernel):
    return ["report", *OPTIONS, *CHOICE, "--variant", f"{kernel}:f", "--variant", "torch", "--format", "json"]


def entries(journal):
    try:
        return len(_records(journal)) - 1
    except (UsageError, FileNotFoundError):
        return 0


def killed(words, journal, at):
    """Starts a run and kills it, with no chance to clean up, once its journal holds so many entries."""
    running = subprocess.Popen(
        [sys.executable, "-m", "softcheck.cli.main", *words],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for _ in range(6000):
        if entries(journal) >= at or running.poll() is not None:
            break
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL, "it ended by itself before it could be killed"


def told(text):
    """The report without what differs from run to run: times, and the command."""
    report = json.loads(text)
    report["environment"].pop("command")

    def without_seconds(value):
        if isinstance(value, dict):
            return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
        return [without_seconds(v) for v in value] if isinstance(value, list) else value

    return without_seconds(report)


def test_killed_run_goes_on_and_gives_the_same_report(kernel, tmp_path):
    whole = softcheck(*arguments(kernel), cwd=tmp_path)
    assert whole.returncode == 1, whole.stderr
    calls = len((tmp_path / "calls").read_text().splitlines())
    (tmp_path / "calls").unlink()
    journal = tmp_path / "j"
    cases = 2 * json.loads(whole.stdout)["variants"][0]["cases_run"] // 2
    killed([*arguments(kernel), "--journal", str(journal)], journal, at=8)
    first = entries(journal)
    killed(["report", "--resume", str(journal)], journal, at=cases + 4)
    second = entries(journal)
    assert 8 <= first < second
    with journal.open("ab") as torn:
        torn.write(b"\x00\x00\x10")
    done = softcheck("report", "--resume", str(journal), "--format", "json", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert told(done.stdout) == told(whole.stdout)
    assert not journal.exists(), "a complete run leaves no journal"
    repeated = len((tmp_path / "calls").read_text().splitlines()) - calls
    assert repeated <= 2 * 3 * 3, "only what was under way, loading included, is done again"


def test_killed_run_of_a_named_operation_goes_on(kernel, tmp_path):
    journal = tmp_path / "j"
    killed([*arguments(kernel), "--operation", "softmax", "--journal", str(journal)], journal, at=8)
    done = softcheck("report", "--resume", str(journal), "--format", "json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    rows = json.loads(done.stdout)["variants"]
    assert [(row["name"].count("@operation="), row["verdict"]) for row in rows] == [(1, "fail"), (1, "pass")]


def test_ctrl_c_names_the_command_that_goes_on(kernel, tmp_path):
    running = subprocess.Popen(
        [sys.executable, "-m", "softcheck.cli.main", *arguments(kernel)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state")},
        # A suite that a shell started in the background inherits SIGINT ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
    )
    for _ in range(6000):
        (journal,) = list((tmp_path / "state" / "softcheck").glob("*")) or [tmp_path / "none"]
        if entries(journal) >= 3:
            break
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    output, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(output)["interrupted"]
    assert f"go on with: softcheck report --resume {journal}" in said
    done = softcheck("report", "--resume", str(journal), "--format", "json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert not json.loads(done.stdout)["interrupted"]
    assert not journal.exists()


@pytest.mark.parametrize(
    ("more", "change", "said"),
    [
        (["--seed", "4"], None, "seed 2, and now it is 4"),
        (["--dtype", "float32"], None, "dtypes float16, and now it is float32"),
        (["--quick"], None, "effort normal, and now it is quick"),
        ([], "a comment", "slow.py:f has changed since"),
    ],
)
def test_journal_of_other_options_or_sources_is_refused(kernel, tmp_path, more, change, said):
    journal = tmp_path / "j"
    killed([*arguments(kernel), "--journal", str(journal)], journal, at=1)
    if change:
        kernel.write_text(f"{kernel.read_text()}# {change}\n")
    done = softcheck("report", "--resume", str(journal), *more)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert entries(journal) >= 1, "a refused journal is left alone"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"time_limit": []}, "'--time-limit' (env var: 'SOFTCHECK_TIME_LIMIT'): '[]'"),
        ({"seed": {"": None}}, "{'': None}"),
        ({"variant": [3]}, "unknown variant '3'"),
    ],
)
def test_journal_whose_options_are_none_is_refused(tmp_path, settings, said):
    header = msgspec.structs.replace(HEADER, settings=settings)
    Journal(tmp_path / "j", header, dict, resume=False, refusal=lambda *_: None).close()
    done = softcheck("report", "--resume", str(tmp_path / "j"))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


OWN = "softcheck-report-20250102-030405-77.journal"


@pytest.mark.parametrize(
    ("name", "days", "stays"),
    [
        (OWN, DAYS_KEPT + 1, False),
        (f".{OWN}.tmp", DAYS_KEPT + 1, False),
        (OWN, DAYS_KEPT - 1, True),
        ("mine.journal", 10 * DAYS_KEPT, True),
        (f"{OWN}.mine", 10 * DAYS_KEPT, True),
        ("softcheck-report-x.journal", 10 * DAYS_KEPT, True),
    ],
)
def test_only_old_journals_of_softchecks_own_naming_are_cleared_away(tmp_path, name, days, stays):
    file = tmp_path / name
    file.write_text("x")
    old = time.time() - 86400 * days
    os.utime(file, (old, old))
    clear_away(tmp_path)
    assert file.exists() == stays


def test_links_and_missing_folders_are_left_alone(tmp_path):
    target = tmp_path / "elsewhere"
    target.write_text("x")
    os.utime(target, (0, 0))
    (tmp_path / OWN).symlink_to(target)
    clear_away(tmp_path)
    assert (tmp_path / OWN).is_symlink()
    clear_away(tmp_path / "missing")


def test_old_journal_is_gone_on_with_and_a_new_run_clears_the_others_away(kernel, tmp_path):
    state = tmp_path / "state" / "softcheck"
    state.mkdir(parents=True)
    resumed, abandoned, named = state / OWN, state / OWN.replace("-77", "-78"), state / "mine"
    killed([*arguments(kernel), "--journal", str(resumed)], resumed, at=1)
    for file in (abandoned, named):
        file.write_bytes(resumed.read_bytes())
    for file in (resumed, abandoned, named):
        os.utime(file, (0, 0))
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    # A new run begins when the old one has just been taken up.
    take_up(click.Context(command), None, resumed)
    short = ["--variant", "torch", "--device", "interpreter", "--dtype", "float16", "--case", "ties/halves-9/*"]
    assert softcheck("report", *short, **environment).returncode == 0
    assert (resumed.exists(), abandoned.exists(), named.exists()) == (True, False, True)
    assert len(list(state.iterdir())) == 2, "a complete run removes its own"


def test_what_is_no_journal_is_refused(tmp_path):
    (tmp_path / "j").write_text("{}")
    done = softcheck("report", "--resume", str(tmp_path / "j"))
    assert done.returncode == 2
    assert "is no journal of softcheck" in done.stderr
