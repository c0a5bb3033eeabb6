"""Every pair on real workers: their hand-over, halving where memory does not suffice, and the wait before exclusive probes."""

import json
from dataclasses import dataclass

import msgspec
import pytest

from softcheck.cases.exhaustive import domain
from softcheck.contract import FindingKind
from softcheck.run import check, exhaust, stages
from softcheck.run.exhaust import pairs_job
from softcheck.run.pool import Lane, spread
from softcheck.run.record import Record
from softcheck.run.session import Session
from softcheck.variants.declaration import Declaration
from softcheck.variants.recognised import Recognised

VARIANTS = """
import json, os, pathlib, time
import torch

FOLDER = pathlib.Path({folder!r})


def logged(x, begun):
    call = dict(dtype=str(x.dtype), rows=len(x), elements=x.numel(), pid=os.getpid(), begun=begun, ended=time.monotonic())
    with open(FOLDER / "calls", "a") as calls:
        calls.write(json.dumps(call) + "\\n")


def wrong_once(x):
    logged(x, time.monotonic())
    y = torch.softmax(x, dim=-1)
    y[x.view(torch.int16)[:, 1] == 700] = 0.75
    return y


def wrong_once_and_large(x):
    y = wrong_once(x)
    if len(x) > 256:
        torch.empty(2**60, dtype=torch.uint8)
    return y


def no_room_beyond_row_512(x):
    logged(x, time.monotonic())
    if (x.view(torch.int16)[:, 1] >= 512).any():
        torch.empty(2**60, dtype=torch.uint8)
    return torch.softmax(x, dim=-1)


def exits_beyond_row_1024(x):
    logged(x, time.monotonic())
    if (x.view(torch.int16)[:, 1] >= 1024).any():
        os._exit(7)
    return torch.softmax(x, dim=-1)


def healthy(x):
    logged(x, time.monotonic())
    return torch.softmax(x, dim=-1)


def meets(x, own, other):
    (FOLDER / own).touch()
    limit = time.monotonic() + 60
    while not (FOLDER / other).exists():
        if time.monotonic() > limit:
            raise RuntimeError("the other one was not judged at the same time")
        time.sleep(0.01)
    logged(x, limit)
    return torch.softmax(x, dim=-1)


def meets_right(x):
    return meets(x, "left", "right")


def meets_left(x):
    return meets(x, "right", "left")


def goes_on_beside_probes(x):
    # Pairs come in bfloat16, probes in float16.
    begun = time.monotonic()
    if x.dtype == torch.float16:
        (FOLDER / "probed").touch()
    else:
        while not (FOLDER / "probed").exists():
            if time.monotonic() > begun + 60:
                raise RuntimeError("no probe ran beside the pairs")
            time.sleep(0.01)
        time.sleep(0.05)
    logged(x, begun)
    return torch.softmax(x, dim=-1)
"""


@dataclass
class Variants:
    """Functions in a file that log their calls beside it."""

    folder: object

    def __getattr__(self, function):
        return f"{self.folder / 'variants.py'}:{function}"

    def own_and_again(self):
        """Rows of the calls of the process that came first, and of those that show a finding again in new ones."""
        calls = self.calls()
        first = calls[0]["pid"]
        return tuple([call["rows"] for call in calls if (call["pid"] == first) is own] for own in (True, False))

    def calls(self):
        log = self.folder / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def variants(tmp_path):
    (tmp_path / "variants.py").write_text(VARIANTS.format(folder=str(tmp_path)))
    return Variants(tmp_path)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 1024 rows that are halved down to 64."""
    for backend in ("interpreter", "cuda"):
        monkeypatch.setitem(exhaust.ROWS_AT_ONCE, backend, 1024)
    monkeypatch.setattr(exhaust, "_LEAST_PART", 64)


@pytest.fixture(scope="module")
def shared():
    opened = Session("interpreter", jobs=3)
    yield opened
    opened.close()


def wanted(variant, first=2000, dtype="float16"):
    return variant, domain(dtype, 2, first=first)


def judged(session, *todo, at_once=2):
    jobs, found = [], []
    for variant, pairs in todo:
        # As its loading has told, so that no call is a trial's.
        session.know(variant, Recognised(operation="softmax", call="f(x)"))
        jobs.append(pairs_job(session, variant, Declaration(), pairs))
    errors = spread(session, [Lane(jobs, at_once)], found.append, lambda *_: None)
    return found, errors


def test_parts_that_memory_does_not_suffice_for_are_halved_and_come_to_the_same(shared, variants, small_parts):
    (found,), errors = judged(shared, wanted(variants.wrong_once_and_large))
    assert errors == []
    assert variants.own_and_again() == ([1024, 512, *[256] * 7, 208], [1024, 256])
    assert (found.domain.first, found.ended) == (2000, None)
    kinds = {v.kind: v.row for v in found.measurement.violations}
    assert kinds[FindingKind.ULP_EXCEEDS_BOUND] == kinds[FindingKind.SUM_VIOLATION] == 700
    at_once = shared.run_domain(variants.wrong_once, found.domain, 0, 2000)
    assert found.measurement.elements == at_once.elements == 4000
    for name in ("violations", "max_ulp", "histogram", "max_bound_share", "max_sum_deviation", "flushed"):
        assert getattr(found.measurement, name) == getattr(at_once, name), name


def test_a_variant_that_finds_no_memory_for_the_least_part_loses_none_of_those_before(shared, variants, small_parts):
    (found,), errors = judged(shared, wanted(variants.no_room_beyond_row_512))
    assert errors == [], "that is the variant's fault, and so a finding"
    assert variants.own_and_again() == ([1024, 512, 512, 256, 128, 64], [1024])
    assert [v.kind for v in found.measurement.violations] == [FindingKind.OUT_OF_MEMORY]
    assert found.measurement.elements == 2 * 512
    assert found.domain.first == found.measurement.rows == 512 + 64


def test_a_variant_that_ends_the_worker_leaves_the_next_one_a_new_one(shared, variants, small_parts):
    todo = [wanted(variants.exits_beyond_row_1024, first=4096), wanted(variants.healthy)]
    (broken, right), errors = judged(shared, *todo, at_once=1)
    assert errors == []
    assert [v.kind for v in broken.measurement.violations] == [FindingKind.CRASH]
    assert (broken.domain.first, broken.measurement.elements) == (2048, 2 * 1024)
    assert (right.domain.first, right.measurement.violations) == (2000, ())
    pids = [call["pid"] for call in variants.calls()]
    assert pids[0] != pids[-1] == pids[-2]


def test_two_are_judged_at_once_each_in_a_process_of_its_own(shared, variants, small_parts):
    found, errors = judged(shared, wanted(variants.meets_right), wanted(variants.meets_left))
    assert errors == []
    assert [e.measurement.violations for e in found] == [(), ()]
    assert len({call["pid"] for call in variants.calls()}) == 2


def test_pairs_go_on_beside_probes_and_exclusive_ones_wait_for_their_end(shared, variants, monkeypatch):
    """The parent takes the device for a GPU, where alone probes are exclusive; its workers have none."""
    monkeypatch.setitem(exhaust.ROWS_AT_ONCE, "cuda", 256)
    monkeypatch.setattr(shared, "ready", msgspec.structs.replace(shared.ready, backend="cuda"))
    name = variants.goes_on_beside_probes
    monkeypatch.setattr(stages, "wanted", lambda *_: [domain("bfloat16", 2, first=2048)])
    options = check.RunOptions(
        variants=(name,),
        dtypes=("float16",),
        cases=(),
        whole_corpus=False,
        probes=("addresses", "empties"),
        exhaustive=True,
    )
    # How long wider kernels compile would be asked of the pretended GPU, by calls that are no probe's.
    monkeypatch.setattr(shared, "width_limit", lambda *_: None)
    shared.know(name, Recognised(operation="softmax", call="f(x)"))
    run = check.Run(options=options, ready=shared.ready, declarations={name: Declaration()})
    shown = []
    stages.cases_and_probes(shared, run, check.Events(stage=shown.append), Record(None, None))
    (found,) = run.exhausted
    assert (run.errors, found.measurement.violations, found.domain.first) == ([], (), 2048)
    assert [(p.task.probe, p.conclusion.findings) for p in run.probed] == [("empties", ()), ("addresses", ())]
    assert shown == ["running cases and probes", "running probes that need the GPU alone"]
    calls = variants.calls()
    pair = [call for call in calls if call["dtype"] == "torch.bfloat16"]
    beside = [call for call in calls if call["dtype"] == "torch.float16" and call["elements"] == 0]
    alone = [call for call in calls if call["dtype"] == "torch.float16" and call["elements"] > 0]
    assert [call["rows"] for call in pair] == [256] * 8
    assert beside
    assert min(call["begun"] for call in beside) < pair[-1]["ended"]
    assert {call["pid"] for call in pair}.isdisjoint({call["pid"] for call in beside})
    assert alone
    assert pair[-1]["ended"] < min(call["begun"] for call in alone)
