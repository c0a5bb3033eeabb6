"""Calls that end the host of their process, as by its out-of-memory killer: the finding is that of one device.

The hosts are made up: one ends where a call exits with the status 9.
"""

import contextlib
import types
from pathlib import Path

import pytest

from softcheck.cases.importing import case_from_numbers
from softcheck.cluster import host
from softcheck.cluster.remote import HostLostError, RemoteWorker
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

KERNELS = """
import os, torch

def softmax(x, status=None):
    if x.shape in {(2, 8), (3, 7), (5, 0)}:
        os._exit(status)
    return torch.softmax(x, -1)

def ends(x):
    return softmax(x, 7)

def ends_its_host(x):
    return softmax(x, 9)
"""


class Hosts:
    """Devices of a pool, at one place, whose host ends with a process that ends with the status 9."""

    places = 1
    jobs = 1

    def __init__(self):
        self.suspects = set()
        self.lost = 0

    def start_all(self, choice, *, check_heap):
        return [self.start(choice, place=0, check_heap=check_heap)]

    def start(self, choice, *, place, check_heap):
        self.started = getattr(self, "started", 0) + 1
        child = host.Child(
            session="made up",
            variants=(),
            id=str(self.started),
            device=choice,
            check_heap=check_heap,
            folder=str(Path.cwd()),
        )
        return RemoteWorker(self, child, host.serve(child, None, {}))

    def run(self, worker, request, limits, *, alone):
        answer = host.serve(worker.child, request, limits)
        if answer.death is not None and "exit status 9" in str(answer.death):
            self.lost += 1
            raise HostLostError("the worker process ended with its Dask worker, 0")
        return answer

    def end(self, worker):
        host.end(worker.child.id)

    def number(self, _place):
        return 0


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    (file := tmp_path_factory.mktemp("lost") / "kernels.py").write_text(KERNELS)
    with contextlib.closing(Session("interpreter")) as session:
        yield session, f"{file}:ends"


@pytest.fixture
def there(here, monkeypatch):
    monkeypatch.setattr(host, "get_worker", lambda: types.SimpleNamespace(name="0"))
    with contextlib.closing(Session("interpreter", devices=Hosts())) as session:
        yield session, f"{here[1]}_its_host"


CASES = [case_from_numbers("; ".join([" ".join(["0.5"] * columns)] * 3), "float16") for columns in (6, 7, 8)]


def shown(session, spec):
    """The declaration's dtypes, and all kinds of findings in cases and trials."""
    declared = session.load(spec)
    kinds = [
        [violation.kind for violation in result.measurement.violations]
        for case in CASES
        for result in session.run_case(case, [spec, "torch"])
    ]
    probed = run_probe(session, ProbeTask(variant=spec, dtype="float16", probe="empties", effort="quick"))
    return declared.dtypes, kinds, [(found.label, found.violation.kind) for found in probed.conclusion.findings]


def test_a_call_that_ends_its_host_is_found_as_one_that_ends_its_process(here, there):
    mine, theirs = shown(*here), shown(*there)
    assert mine == theirs
    assert mine[1] == [[], [], ["crash"], [], [], []]
    assert [kind for _, kind in mine[2]] == ["crash"]
    assert there[0]._devices.lost > 4
    assert not there[0].blames.notes


def test_a_host_that_others_end_costs_a_probe_nothing(here, there, monkeypatch):
    """Each request is lost once: no variant is to blame."""
    hosts, run = there[0]._devices, there[0]._devices.run
    lost = []

    def losing(worker, request, limits, *, alone):
        if lost.count(request) < 1:
            lost.append(request)
            host.end(worker.child.id)
            raise HostLostError("the Dask worker 0 ended")
        return run(worker, request, limits, alone=alone)

    task = ProbeTask(variant="torch", dtype="float16", probe="empties", effort="quick")
    monkeypatch.setattr(hosts, "run", losing)
    found = run_probe(there[0], task)
    assert found.conclusion == run_probe(here[0], task).conclusion
    assert len(lost) > 5


def test_a_dask_worker_sees_files_that_have_changed_since_the_last_session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (file := tmp_path / "kernel.py").write_text("f = 1\n")
    before, again = (host._sources_in("first", str(tmp_path), (f"{file}:f",)) for _ in range(2))
    file.write_text("f = 2\n")
    assert before == again == host._sources_in("first", str(tmp_path), (f"{file}:f",))
    assert before != host._sources_in("second", str(tmp_path), (f"{file}:f",))
