"""A cluster that others have started: what is refused there, and what is left behind."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from command import softcheck

from softcheck.report.json_format import parse

ROOT = Path(__file__).parents[2]
MARK = f"SOFTCHECK_TEST_{uuid.uuid4().hex}"
OTHER_MACHINE = "import platform\nplatform.machine = lambda: 'abacus'\n"


def dask(folder, *words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words, "--scheduler-file", folder / "scheduler.json"],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), MARK: "1", **environment},
    )


def wait_for(condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def worker(folder, name, resources="CPU=1", **environment):
    return dask(folder, "worker", "--name", name, "--nthreads", "2", "--resources", resources, **environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joined")
    (folder / "sitecustomize.py").write_text(OTHER_MACHINE)
    scheduler = dask(folder, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", ":0")
    first = worker(folder, "first")
    wait_for((folder / "scheduler.json").exists)
    yield folder
    for process in (first, scheduler):
        process.kill()
        process.wait()


def children():
    """Processes that a server of these Dask workers has forked."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = MARK.encode() in (folder / "environ").read_bytes()
            if is_ours and b"softcheck.run.fork_server" in (folder / "cmdline").read_bytes():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [pid for pid, parent in parents.items() if parent in parents]


def report(folder, workers):
    return softcheck(
        *("report", "torch", "--dtype", "float16", "--family", "widths", "--format", "json"),
        *("--scheduler", folder / "scheduler.json", "--workers", workers),
        cwd=folder,
    )


def test_a_cluster_is_joined_and_left_as_it_was(folder):
    found = report(folder, 1)
    assert found.returncode == 0, found.stderr
    assert parse(found.stdout).variants[0].verdict == "pass"
    wait_for(lambda: not children())
    assert report(folder, 1).stdout, "the same workers serve again"


@pytest.mark.parametrize(
    ("resources", "environment", "said"),
    [
        ("CPU=1", {"PYTHONPATH": "{folder}:{root}"}, ["differ in device", "first has", "second has abacus CPU"]),
        ("GPU=1", {}, ["second has the resources {'GPU': 1", "--resources CPU=1"]),
    ],
)
def test_a_worker_that_is_unlike_the_others_is_refused(folder, resources, environment, said):
    values = {name: value.format(folder=folder, root=ROOT) for name, value in environment.items()}
    second = worker(folder, "second", resources, **values)
    try:
        found = report(folder, 2)
    finally:
        second.kill()
        second.wait()
    assert found.returncode == 2, found.stderr
    assert all(words in found.stderr for words in said), found.stderr


def test_a_scheduler_that_does_not_answer_is_named(folder, monkeypatch):
    from softcheck.cluster import local

    monkeypatch.setattr(local, "_ANSWER_SECONDS", 0.2)
    found = softcheck("report", "torch", "--scheduler", "tcp://127.0.0.1:9", cwd=folder)
    assert found.returncode == 2
    assert "--scheduler tcp://127.0.0.1:9: no scheduler answered within 0.2 s" in found.stderr
