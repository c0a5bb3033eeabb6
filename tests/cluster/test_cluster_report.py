"""Reports on two places of this machine's cores, and on two Dask workers: the same as alone, whatever becomes of the workers."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import msgspec
import pytest
from command import softcheck
from digest import digest

from softcheck.report.json_format import parse
from softcheck.run.journal import _records

ROOT = Path(__file__).parents[2]
KERNEL = """
import os, pathlib, time, torch

def parent(pid):
    return int(pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])

def f(x):
    # Its parent is the server that forks workers, and the server's parent the Dask worker.
    host = parent(os.getppid())
    with open({calls!r}, "a") as calls:
        calls.write(f"{{host}} {{tuple(x.shape)}}\\n")
    time.sleep(0.02)
    if 5 < x.shape[1] < 9:
        raise ValueError("not this width")
    return torch.softmax(x, -1)

def ends(x):
    os._exit(7)

def ends_its_host(x):
    if x.shape[1] == 7:
        os.kill(parent(os.getppid()), 9)
    return torch.softmax(x, -1)
"""
CHOICE = ["--dtype", "float16", "--family", "widths", "--probe", "empties", "--jobs", "2", "--format", "json"]
WORDS = ["report", "slow.py:f", "slow.py:ends", "torch", *CHOICE]
MARK = "SOFTCHECK_TEST_MARK"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "slow.py").write_text(KERNEL.format(calls=str(folder / "calls")))
    return folder


@pytest.fixture(scope="module")
def alone(folder):
    """The report's digest from this machine alone, and the number of calls that it takes."""
    found = softcheck(*WORDS, "--device", "interpreter", cwd=folder)
    assert found.returncode == 1, found.stderr
    return digest(parse(found.stdout)), sum(hosts(folder).values())


@pytest.fixture(autouse=True)
def _no_calls_yet(folder, alone):
    (folder / "calls").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def scheduler(folder):
    """Two Dask workers, whose scheduler learns at once that one has ended."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    resources = ("--nworkers", "1", "--nthreads", "1", "--resources", "CPU=1", "--memory-limit", "0", "--no-dashboard")
    words = [("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"), *[("worker", *resources)] * 2]
    dask = [
        subprocess.Popen(
            [sys.executable, "-m", "dask", *each, "--scheduler-file", file],
            cwd=folder,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        for each in words
    ]
    wait_for(file.exists)
    yield ("--scheduler", str(file), "--workers", "2")
    for process in reversed(dask):
        process.kill()
        process.wait()


def hosts(folder):
    """The servers' parents by the number of calls in their processes."""
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    found = [int(line.split()[0]) for line in lines]
    return {host: found.count(host) for host in found}


def started(words, folder, mark):
    return subprocess.Popen(
        [sys.executable, "-m", "softcheck", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), MARK: mark},
        start_new_session=True,
        # A suite that a shell started in the background inherits SIGINT ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
    )


def marked(mark):
    """Processes that have the mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def wait_for(condition, seconds=150.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_two_places_give_the_same_report(folder, alone):
    expected, calls = alone
    found = softcheck(*WORDS, "--workers", 2, cwd=folder)
    assert found.returncode == 1, found.stderr
    assert digest(parse(found.stdout)) == expected
    assert sum(hosts(folder).values()) == calls


def test_a_cluster_gives_the_same_report(folder, alone, scheduler):
    expected, calls = alone
    found = softcheck(*WORDS, *scheduler, cwd=folder)
    assert found.returncode == 1, found.stderr
    assert digest(parse(found.stdout)) == expected
    assert sum(hosts(folder).values()) == calls
    assert len(hosts(folder)) == 2, "every Dask worker has a share of the calls"


def test_a_dask_worker_that_is_killed_costs_what_was_under_way(folder, alone, scheduler):
    expected, calls = alone
    running = started([*WORDS, *scheduler], folder, "")
    wait_for(lambda: len(hosts(folder)) == 2 and min(hosts(folder).values()) > 2)
    killed = next(iter(hosts(folder)))
    os.kill(killed, signal.SIGKILL)
    output, said = running.communicate(timeout=60)
    assert running.returncode == 1, said
    assert digest(parse(output)) == expected
    # A job is a case, or a probe of at most six trials, and a case's second call explains a wrong one.
    assert sum(hosts(folder).values()) <= calls + 6


def test_a_variant_that_ends_its_dask_worker_is_named_and_others_are_judged(folder, alone, scheduler):
    found = softcheck("report", "slow.py:ends_its_host", "torch", *CHOICE, *scheduler, cwd=folder)
    guilty, innocent = parse(found.stdout).variants
    assert [(f.kind, f.case) for f in guilty.findings] == [("crash", "widths/7/float16")]
    assert "the worker process ended with its Dask worker" in guilty.findings[0].message
    assert innocent.verdict == "pass", innocent.findings
    assert found.returncode == 1, found.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_command_that_is_ended(folder, alone, number):
    mark, journal = uuid.uuid4().hex, folder / "journal"
    running = started([*WORDS, "--workers", "2", "--journal", str(journal)], folder, mark)
    wait_for(lambda: journal.exists() and len(_records(journal)) > 8)
    # A terminal's Ctrl-C goes to all processes of the group.
    os.killpg(running.pid, number) if number == signal.SIGINT else running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == (130 if number == signal.SIGINT else -number)
    wait_for(lambda: not marked(mark), 30.0)
    begun = len(_records(journal))
    (folder / "calls").unlink(missing_ok=True)
    done = softcheck("report", "--resume", journal, "--device", "interpreter", "--format", "json", cwd=folder)
    assert begun > 8
    resumed = sum(hosts(folder).values())
    expected, calls = alone
    assert digest(parse(done.stdout)) == expected
    assert resumed < calls - 4, "what the journal holds is not run again"


def test_two_kinds_of_cluster_at_once_are_refused(folder):
    found = softcheck("report", "torch", "--gpus", "all", "--workers", 2, cwd=folder)
    assert found.returncode == 2
    assert "leave out --scheduler and --workers, or --gpus" in found.stderr


def test_gpus_where_there_is_none_run_nothing(folder):
    found = softcheck("report", "torch", "--gpus", "all", cwd=folder, CUDA_VISIBLE_DEVICES="")
    assert found.returncode == 3
    assert "--workers 2" in found.stderr


def test_without_dask_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for name in [name for name in sys.modules if name.startswith("softcheck.cluster")]:
        monkeypatch.delitem(sys.modules, name)
    found = softcheck("report", "torch", "--scheduler", "tcp://127.0.0.1:9", cwd=folder)
    assert found.returncode == 2
    assert "pip install 'softcheck[cluster]'" in found.stderr


def test_a_domain_is_judged_in_parts_on_a_cluster(folder, scheduler):
    words = [
        "exhaust",
        "slow.py:f",
        "torch",
        "--sample-first",
        "8192",
        "--format",
        "json",
        "--columns",
        "3",
        "--any-order",
    ]
    # A note says how long all rows would take.
    found = [softcheck(*words, *where, cwd=folder) for where in (["--device", "interpreter"], scheduler)]
    assert [done.returncode for done in found] == [0, 0], found[1].stderr
    here, there = (digest(msgspec.structs.replace(parse(done.stdout), notes=())) for done in found)
    assert here == there
    assert len(hosts(folder)) == 3, "this machine's own server's parent, and both Dask workers"
