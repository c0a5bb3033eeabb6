"""Widths are tried upwards, and one that is foretold to take too long to compile is not tried."""

import threading
import time
from types import SimpleNamespace

import pytest

from softcheck.run.measuring import unsplit
from softcheck.run.process import WorkerDiedError
from softcheck.run.protocol import Failed, WidthTried
from softcheck.run.session import Session
from softcheck.run.widths import FREE, WIDEST, WidthLimit, Widths
from softcheck.variants.declaration import Declaration

BY_FOUR_WARPS = {4096: 0.2, 8192: 0.35, 16384: 0.8, 32768: 2.4, 65536: 8.2, 131072: 31.0, 262144: 192.0}
"""Seconds for sm_90 by block, as Triton 3.6 took them."""

BY_32_WARPS = {16384: 0.1, 32768: 0.2, 65536: 0.4, 131072: 1.5, 262144: 3.3, 524288: 9.4, 1048576: 42.0}


class Pool:
    """Workers whose variant takes the seconds of a table to compile."""

    seconds = 60.0

    def __init__(self, answer):
        self.tried, self.answer, self.declarations = [], answer, {}

    def take(self, _variant):
        return SimpleNamespace(loaded=set())

    def ask(self, worker, request, limits):
        self.tried.append(request.columns)
        yield self.answer(request.columns)


def taking(seconds, *, fatal=False):
    return Pool(lambda columns: WidthTried(seconds=seconds.get(columns, 0.1), fatal=fatal))


def test_a_width_beyond_the_budget_is_foretold_and_not_tried():
    pool, widths = taking(BY_FOUR_WARPS), Widths(10.0)
    limit = widths.limit(pool, "v", "float16", 2**17 + 1)
    assert limit is not None
    assert (limit.columns, limit.holds_to) == (65536, 32768)
    assert limit.seconds == pytest.approx(2 * 8.2, rel=0.25), "for sizes divisible by 16, and for others"
    assert max(pool.tried) == 32768
    assert pool.tried == sorted(set(pool.tried)), "each width once, upwards"
    assert str(limit) == "65536 would take 14 s to compile"
    assert widths.limits() == [limit]


@pytest.mark.parametrize(
    ("operation", "parameters"), [("softmax", {"causal": "top-left"}), ("cross_entropy", {"reduction": "mean"})]
)
def test_a_width_is_tried_on_a_row_that_is_not_split(operation, parameters):
    computed = Declaration(operation=operation, parameters=parameters).computed
    for columns in (2**12, 2**18, 2**20):
        tried = unsplit(computed, columns)
        assert columns // 2 < tried <= columns
        assert computed.matrix(tried) == (1, tried)
    assert unsplit(Declaration().computed, 2**18) == 2**18
    assert unsplit(Declaration(operation="softmax", parameters={"causal": "top-left", "queries": 3}).computed, 96) == 95


def test_rows_within_the_limit_are_run():
    widths = Widths(10.0)
    pool = taking(BY_FOUR_WARPS)
    assert widths.limit(pool, "v", "float16", 2**20) is not None
    assert widths.limit(pool, "v", "float16", 32768) is None
    assert widths.limit(pool, "v", "float16", 32769) is not None


@pytest.mark.parametrize(("budget", "holds_to"), [(2.0, 16384), (6.0, 32768), (200.0, 131072), (4000.0, None)])
def test_the_budget_decides(budget, holds_to):
    seconds = {**BY_FOUR_WARPS, 2**19: 200.0, 2**20: 210.0}
    limit = Widths(budget).limit(taking(seconds), "v", "float16", 2**20)
    assert (None if limit is None else limit.holds_to) == holds_to


def waiting(seconds):
    return Pool(lambda columns: WidthTried(seconds=seconds.get(columns, 0.001), of_compiler=False))


def test_a_call_that_waited_for_a_busy_device_is_no_compilation():
    """As torch's own kernels, loaded by a first call beside eleven other workers (an H200)."""
    assert Widths(10.0).limit(waiting({2**18: 0.4, 2**19: 2.0}), "v", "float16", 2**20) is None


def test_first_calls_that_grow_steadily_are_a_compiler_that_was_not_seen():
    limit = Widths(10.0).limit(waiting({2**15: 0.2, 2**16: 0.5, 2**17: 1.6, 2**18: 5.0}), "v", "float16", 2**20)
    assert limit is not None
    assert limit.holds_to == 2**17


def test_more_warps_hold_further():
    limit = Widths(20.0).limit(taking(BY_32_WARPS), "v", "float16", 2**20)
    assert limit is not None
    assert limit.holds_to == 524288


def test_narrow_rows_compile_nothing_first():
    pool = taking(BY_FOUR_WARPS)
    assert Widths(20.0).limit(pool, "v", "float16", FREE) is None
    assert pool.tried == []


@pytest.mark.parametrize(
    ("promised", "tried"), [(65536, [4096, 8192, 16384, 32768, 65536]), (20000, [4096, 8192, 16384, 20000])]
)
def test_no_width_is_tried_that_is_not_promised(promised, tried):
    pool, widths = taking(BY_FOUR_WARPS), Widths(20.0)
    pool.declarations["v"] = Declaration(max_columns=promised)
    assert widths.limit(pool, "v", "float16", 2**20) is None
    assert pool.tried == tried
    assert widths.limits() == []


@pytest.mark.parametrize("seconds", [0.0, 0.02, 25.0, None])
def test_what_does_not_grow_with_the_width_is_no_limit(seconds):
    """As a tiled kernel, compiled once, or torch.compile, which takes as long for any width; None: found in Triton's cache."""
    pool = Pool(lambda _: WidthTried(seconds=seconds))
    assert Widths(20.0).limit(pool, "v", "float16", 2**20) is None
    assert max(pool.tried) == WIDEST


def test_a_kernel_of_unknown_cost_is_foretold_from_narrower_ones():
    known = {**BY_FOUR_WARPS, 32768: None}
    limit = Widths(6.0).limit(taking(known), "v", "float16", 2**20)
    assert limit is not None
    assert limit.columns == 65536


def test_one_that_does_not_end_in_time_is_the_limit():
    def answer(columns):
        if columns == 8192:
            raise WorkerDiedError("no answer", timed_out=True, was_preparing=True)
        return WidthTried(seconds=0.1)

    limit = Widths(10.0).limit(Pool(answer), "v", "float16", 2**15)
    assert limit is not None
    assert str(limit) == "8192 was not compiled within 60 s"


def test_a_crash_is_left_to_cases_and_probes():
    def answer(columns):
        raise WorkerDiedError("gone", timed_out=False)

    pool, widths = Pool(answer), Widths(20.0)
    assert widths.limit(pool, "v", "float16", 2**17) is None
    assert widths.limit(pool, "v", "float16", 2**18) is None
    assert len(pool.tried) == 1


def test_an_input_without_room_is_no_limit():
    assert Widths(20.0).limit(Pool(lambda _: Failed("no memory", for_memory=True)), "v", "float16", 2**20) is None


def test_many_threads_try_each_width_once():
    pool = Pool(lambda columns: time.sleep(0.002) or WidthTried(seconds=BY_FOUR_WARPS.get(columns, 0.1)))
    widths, found = Widths(20.0), []
    threads = [
        threading.Thread(target=lambda n=n: found.append(widths.limit(pool, "v", "float16", n)))
        for n in (4096, 8192, 65536, 65537, 2**20, 2**20, 2**17)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pool.tried) == len(set(pool.tried))
    assert sum(limit is not None for limit in found) == 4


def test_a_resumed_run_keeps_its_limit():
    pool, widths = taking(BY_FOUR_WARPS), Widths(20.0)
    widths.know(WidthLimit(variant="v", dtype="float16", columns=32768, seconds=20.0))
    assert widths.limit(pool, "v", "float16", 2**17) is not None
    assert widths.limit(pool, "v", "float16", 16384) is None
    assert pool.tried == []


def test_a_worker_says_what_the_first_call_of_a_width_takes(tmp_path):
    """A variant that sleeps on each new width, four times as long on twice the width, in place of a compiler."""
    module = tmp_path / "sleeping.py"
    module.write_text(
        "import time, torch\nseen = set()\n\ndef f(x):\n    n = x.shape[1]\n    if n not in seen:\n"
        "        seen.add(n)\n        time.sleep(0.05 * (n / 4096) ** 2)\n    return torch.softmax(x, -1)\n"
    )
    spec = f"{module}:f"
    session = Session("interpreter", jobs=1)
    try:
        limit = Widths(0.6).limit(session, spec, "float32", 2**17)
        assert limit is not None
        assert limit.holds_to in {8192, 16384}
        assert session.width_limit(spec, "float32", 2**17) is None, "nothing is compiled without a GPU"
    finally:
        session.close()
