"""Places of a cluster: each has its own GPU, and a request that needs it for itself has it."""

import contextlib
import dataclasses
import os
import threading
import time

import msgspec
import pytest
from distributed import Client, Nanny, Scheduler, SpecCluster

from softcheck.cluster import local
from softcheck.cluster.dask import DaskCluster, difference
from softcheck.cluster.host import TaskAnswer
from softcheck.cluster.local import LocalDevices
from softcheck.errors import NothingRunError, SoftcheckError, UsageError
from softcheck.run.process import waits
from softcheck.run.protocol import Load, Ready
from softcheck.run.session import Session
from softcheck.variants.recognised import Recognised

KERNEL = """
import os, pathlib, time, torch

def f(x):
    begun = time.monotonic()
    time.sleep(0.3)
    with open({calls!r}, "a") as calls:
        calls.write(f"{{os.environ['CUDA_VISIBLE_DEVICES']}} {{begun}} {{time.monotonic()}}\\n")
    return torch.softmax(x, -1)
"""
LIMITS = waits(60.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    (folder / "slow.py").write_text(KERNEL.format(calls=str(folder / "calls")))
    return folder


@pytest.fixture(scope="module", params=["local", "dask"])
def session(request, folder):
    gpus = ["5", "GPU-7"]
    with contextlib.ExitStack() as stack:
        if request.param == "local":
            devices = LocalDevices(gpus, 6)
        else:
            options = {"nthreads": 3, "resources": {"CPU": 1}, "memory_limit": 0, "dashboard": False}
            nannies = {
                number: {"cls": Nanny, "options": options | {"env": {"CUDA_VISIBLE_DEVICES": gpu}}}
                for number, gpu in enumerate(gpus)
            }
            scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
            made = SpecCluster(workers=nannies, scheduler=scheduler, silence_logs=False)
            client = stack.enter_context(Client(stack.enter_context(made), set_as_default=False))
            client.wait_for_workers(2, timeout=60.0)
            devices = stack.enter_context(contextlib.closing(DaskCluster(client, ())))
        yield stack.enter_context(contextlib.closing(Session("interpreter", devices=devices)))


def of_dask(session):
    if not isinstance(session._devices, DaskCluster):
        pytest.skip("of Dask alone")


@pytest.fixture(autouse=True)
def _no_calls_yet(folder):
    (folder / "calls").unlink(missing_ok=True)


def calls(folder):
    return [line.split() for line in (folder / "calls").read_text().splitlines()]


def test_each_place_has_a_gpu_of_its_own_and_every_process_its_places(session, folder):
    assert (session.places, session.jobs) == (2, 6)
    # Every process is told, and makes no trial.
    session.know(f"{folder}/slow.py:f", Recognised(operation="softmax", call="f(x)"))
    with session.on_one_device() as first, session.on_one_device() as second:
        for own in (first, second, first, second):
            assert not isinstance(own.load(f"{folder}/slow.py:f", ("float16",)), str)
    seen = [gpu for gpu, *_ in calls(folder)]
    assert sorted(set(seen)) == ["5", "GPU-7"]
    assert (seen[0], seen[1]) == (seen[2], seen[3])
    assert "CUDA_VISIBLE_DEVICES" not in os.environ or os.environ["CUDA_VISIBLE_DEVICES"] not in seen


def test_a_request_that_needs_a_device_for_itself_waits_and_is_waited_for(session, folder):
    of_dask(session)
    name = f"{folder}/slow.py:f"
    request = Load(name, ("float16",), facts={name: Recognised(operation="softmax", call="f(x)")})
    with session.on_one_device() as own:
        workers = [own.take(fresh=True) for _ in range(3)]
        alone = [False, True, False]

        def ask(worker, is_alone):
            own._devices.run(worker, request, {None: LIMITS}, alone=is_alone)

        threads = [threading.Thread(target=ask, args=pair) for pair in zip(workers, alone, strict=True)]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        for worker in workers:
            own.give(worker)
    spans = sorted((float(begun), float(ended)) for _, begun, ended in calls(folder))
    assert len(spans) == 3
    overlaps = sum(later[0] < earlier[1] for i, earlier in enumerate(spans) for later in spans[i + 1 :])
    assert overlaps <= 1, "the first and the last may run side by side, the second with none"


def test_workers_that_are_idle_are_ended_but_one_of_each_device(session, folder):
    for place in (0, 1):
        own = session.at(place)
        for worker in [own.take(fresh=True) for _ in range(2)]:
            own.give(worker)
    session.retire_idle()
    assert sorted(worker.place for worker in session._shared.idle) == [0, 1]


def test_a_device_that_is_lost_is_left_out(session, monkeypatch):
    of_dask(session)
    cluster = session._devices
    real = cluster._submit

    def submit(kind, child, name, *arguments, **options):
        if name in gone:
            raise NothingRunError("torch sees no CUDA device")
        return real(kind, child, name, *arguments, **options)

    monkeypatch.setattr(cluster, "_submit", submit)
    monkeypatch.setattr(cluster, "_dead", set())
    gone = {"1"}
    for place in (1, None, 1):
        with contextlib.closing(cluster.start("interpreter", place=place, check_heap=False)) as worker:
            assert worker.place == 0
    gone.add("0")
    with pytest.raises(SoftcheckError, match="no Dask worker has such a device any more: 0, 1"):
        cluster.start("interpreter", place=None, check_heap=False)


@pytest.mark.parametrize("field", ["device", "torch", "triton", "python", "driver", "memory_bytes", "softcheck"])
def test_every_field_of_two_devices_is_compared_but_their_memory(field):
    ready = Ready(backend="cuda", device="H200", torch="2.9", triton="3.5", python="3.11", driver="570", memory_bytes=7)
    first = TaskAnswer(place="first", ready=ready, sources={"softcheck": "aa", "version": "1"})
    assert difference([first], dataclasses.replace(first, place="second")) is None
    if field == "softcheck":
        other = dataclasses.replace(first, sources={"softcheck": "bb", "version": "1"})
    else:
        other = dataclasses.replace(first, ready=msgspec.structs.replace(ready, **{field: None}))
    assert (difference([first], other) is None) == (field == "memory_bytes")


def test_numbers_of_gpus_that_there_are_not_are_refused():
    assert local._numbers("0,2", 3) == [0, 2]
    for wrong in ("3", "0,0", "x", "-1", ""):
        with pytest.raises(UsageError, match="different numbers from 0 to 2"):
            local._numbers(wrong, 3)
