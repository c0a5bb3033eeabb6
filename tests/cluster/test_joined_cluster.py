"""A cluster that others have started: what is refused there, and what is left behind."""

import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from command import softcheck
from digest import digest
from distributed import Client

from softcheck.report.json_format import parse

ROOT = Path(__file__).parents[2]
MARK = f"SOFTCHECK_TEST_{uuid.uuid4().hex}"
KERNEL = """
import time, torch

def f(x):
    with open({calls!r}, "a") as calls:
        calls.write(".")
    time.sleep(0.02)
    return torch.softmax(x, -1)
"""
FILLING = """
import builtins, threading
threading.Timer(0.1, lambda: setattr(builtins, "held", b"1" * 2**29)).start()
"""
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
    words = ("--nthreads", "2", "--resources", resources, "--memory-limit", "400MB")
    return dask(folder, "worker", "--name", name, *words, **environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joined")
    (folder / "sitecustomize.py").write_text(OTHER_MACHINE)
    (folder / "slow.py").write_text(KERNEL.format(calls=str(folder / "calls")))
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
            if is_ours and b"multiprocessing.forkserver" in (folder / "cmdline").read_bytes():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return [pid for pid, parent in parents.items() if parent in parents]


def report(folder, workers):
    return softcheck(
        *("report", "slow.py:f", "--dtype", "float16", "--family", "widths", "--format", "json"),
        *("--scheduler", folder / "scheduler.json", "--workers", workers),
        cwd=folder,
    )


def test_a_worker_out_of_memory_costs_what_was_under_way_and_the_cluster_is_left_as_it_was(folder):
    found = report(folder, 1)
    assert found.returncode == 0, found.stderr
    assert parse(found.stdout).variants[0].verdict == "pass"
    wait_for(lambda: not children())
    calls = folder / "calls"
    expected = len(calls.read_text())
    calls.unlink()
    with Client(scheduler_file=folder / "scheduler.json", set_as_default=False) as client:
        (address,) = client.scheduler_info()["workers"]

        def fill():
            wait_for(lambda: calls.exists() and len(calls.read_text()) > 8)
            # Its Nanny ends a Dask worker that takes 95 % of its limit.
            client.run(exec, FILLING, workers=[address])

        filling = threading.Thread(target=fill)
        filling.start()
        again = report(folder, 1)
        filling.join()
        assert address not in client.scheduler_info()["workers"]
    assert digest(parse(again.stdout)) == digest(parse(found.stdout)), again.stderr
    # Two threads of the worker make a case each, and a call loads the variant; between two cases nothing is under way.
    assert expected <= len(calls.read_text()) <= expected + 3


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
    from softcheck.cluster import dask as of_dask

    monkeypatch.setattr(of_dask, "_ANSWER_SECONDS", 0.2)
    found = softcheck("report", "torch", "--scheduler", "tcp://127.0.0.1:9", cwd=folder)
    assert found.returncode == 2
    assert "--scheduler tcp://127.0.0.1:9: no scheduler answered within 0.2 s" in found.stderr
