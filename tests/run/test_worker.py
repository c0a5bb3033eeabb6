"""Failures of the worker itself are no variant's fault."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from oracles.formats import FLOAT16
from softcheck.calling.call import to_bits
from softcheck.cases.exhaustive import domain
from softcheck.cases.importing import case_from_bits
from softcheck.errors import UsageError
from softcheck.judge.judge import STANDARD, judge
from softcheck.run import measuring, worker
from softcheck.run.protocol import Failed, Measured, RunCase, RunDomain, Started, decode_reply, encode_request
from softcheck.run.serving import Server

SCARCE = [torch.OutOfMemoryError("of 40 GB"), MemoryError("of 40 GB"), RuntimeError("can't allocate memory: of 40 GB")]
"""As a GPU's allocator, numpy and torch's allocator for the CPU say it."""


def failing(error):
    def fail(*_arguments, **_options):
        raise error

    return fail


@pytest.mark.parametrize("error", SCARCE)
def test_rows_that_do_not_fit_the_device_are_blamed_on_no_variant(monkeypatch, error):
    monkeypatch.setattr(measuring, "rows_on", failing(error))
    server = Server(torch.device("cpu"))
    with pytest.raises(UsageError, match=r"no memory left for 16 rows: .*of 40 GB"):
        list(server.answer(RunDomain(domain("float16", 2), 0, 16, "torch")))


@pytest.mark.parametrize("error", SCARCE)
def test_an_input_that_does_not_fit_the_device_is_blamed_on_no_variant(monkeypatch, error):
    monkeypatch.setattr(measuring, "place", failing(error))
    case = case_from_bits(np.zeros((2, 3), dtype=np.uint16), "float16", provenance="test")
    with pytest.raises(UsageError, match=r"can't be placed in the device's memory: .*of 40 GB"):
        list(Server(torch.device("cpu")).answer(RunCase(case, "torch")))


@pytest.mark.parametrize("error", SCARCE)
def test_a_worker_that_has_no_memory_for_a_judgement_goes_on(monkeypatch, error):
    """Ended by it, the worker would leave the blame with the variant that ran last."""
    # By contract is outside of what tries a device's memory again.
    monkeypatch.setattr(measuring, "by_contract", failing(error))
    sent = []
    requests = iter([encode_request(RunDomain(domain("float16", 2), 0, 16, "torch"))])

    def receive():
        message = next(requests, None)
        if message is None:
            raise EOFError
        return message

    connection = SimpleNamespace(recv_bytes=receive, send_bytes=lambda message: sent.append(decode_reply(message)))
    worker._serve(connection, Server(torch.device("cpu")).answer)
    started, failed = sent
    assert started == Started("torch")
    assert isinstance(failed, Failed)
    is_of_device = isinstance(error, torch.OutOfMemoryError)
    assert failed.message.startswith("too little device memory" if is_of_device else "out of host memory")
    assert failed.for_memory is is_of_device


@pytest.mark.parametrize("function", ["rows_on", "place"])
def test_what_else_goes_wrong_in_the_worker_is_not_called_want_of_memory(monkeypatch, function):
    monkeypatch.setattr(measuring, function, failing(RuntimeError("no such operator")))
    case = case_from_bits(np.zeros((2, 3), dtype=np.uint16), "float16", provenance="test")
    request = RunDomain(domain("float16", 2), 0, 16, "torch") if function == "rows_on" else RunCase(case, "torch")
    with pytest.raises(RuntimeError, match="no such operator"):
        list(Server(torch.device("cpu")).answer(request))


def judging(rows, most, monkeypatch):
    """The worker's measurement of so many pairs, on a pretended GPU that judges at most so many at once."""
    calls = []

    def judge_in_place(_variant, x, y, fmt, arithmetic):
        calls.append(len(x))
        if len(x) > most:
            raise torch.OutOfMemoryError("of 2 GB")
        return judge(to_bits(x, fmt), to_bits(y, fmt), fmt, arithmetic=arithmetic)

    monkeypatch.setattr(measuring, "judge_in_place", judge_in_place)
    measures = measuring.Measuring(SimpleNamespace(type="cuda"))
    x = torch.arange(2 * rows).view(rows, 2).remainder(7).to(torch.float16)
    y = torch.softmax(x.double(), dim=-1).to(torch.float16)
    y[rows - 2, 1] = 0.75
    return (
        measures._judge_where_it_is(None, x, y, FLOAT16, STANDARD),
        judge(to_bits(x, FLOAT16), to_bits(y, FLOAT16), FLOAT16),
        calls,
    )


def test_outputs_that_the_judge_has_no_memory_for_are_judged_in_halves(monkeypatch):
    monkeypatch.setattr(measuring, "_FEWEST_ROWS", 2)
    found, expected, calls = judging(9, 4, monkeypatch)
    assert calls == [9, 4, 5, 2, 3]
    assert found.violations == expected.violations
    assert found.violations[0].row == 7
    assert (found.rows, found.elements, found.max_ulp) == (9, 18, expected.max_ulp)
    assert found.histogram == expected.histogram


def test_a_judge_that_has_no_memory_for_few_rows_says_so(monkeypatch):
    with pytest.raises(UsageError, match=r"no memory left to judge \[9, 2\] outputs: of 2 GB"):
        judging(9, 4, monkeypatch)


def test_a_part_of_many_rows_is_judged_in_several_calls(tmp_path):
    (tmp_path / "k.py").write_text(
        f"import torch\n\ndef f(x):\n    with open({str(tmp_path / 'calls')!r}, 'a') as calls:\n        calls.write(f'{{len(x)}} ')\n    y = torch.softmax(x, -1)\n"
        "    y[x.view(torch.int16)[:, 1] == 77] = 0.25\n    return y\n"
    )
    server = Server(torch.device("cpu"))
    spec = f"{tmp_path}/k.py:f"
    pairs = domain("float16", 2)
    whole, parts = (
        [reply for reply in server.answer(RunDomain(pairs, 40, 100, spec, at_once)) if isinstance(reply, Measured)]
        for at_once in (None, 30)
    )
    assert (tmp_path / "calls").read_text().split()[1:] == ["100", "30", "30", "30", "10"]
    assert len(parts) == 1
    assert parts[0].measurement.violations == whole[0].measurement.violations
    assert parts[0].measurement.violations[0].row == 77
    assert parts[0].measurement.histogram == whole[0].measurement.histogram
