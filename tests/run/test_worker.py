"""Failures of the worker itself are no variant's fault."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from softcheck.cases.exhaustive import domain
from softcheck.cases.importing import case_from_bits
from softcheck.errors import UsageError
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
    monkeypatch.setattr(measuring, "judge_in_place", failing(error))
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
    assert failed.message == f"the device has no memory left to judge [16, 2] outputs: {error}"
    assert failed.for_memory


@pytest.mark.parametrize("function", ["rows_on", "place"])
def test_what_else_goes_wrong_in_the_worker_is_not_called_want_of_memory(monkeypatch, function):
    monkeypatch.setattr(measuring, function, failing(RuntimeError("no such operator")))
    case = case_from_bits(np.zeros((2, 3), dtype=np.uint16), "float16", provenance="test")
    request = RunDomain(domain("float16", 2), 0, 16, "torch") if function == "rows_on" else RunCase(case, "torch")
    with pytest.raises(RuntimeError, match="no such operator"):
        list(Server(torch.device("cpu")).answer(request))


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
    assert parts[0].result.violations == whole[0].result.violations
    assert parts[0].result.violations[0].row == 77
    assert parts[0].result.histogram == whole[0].result.histogram
