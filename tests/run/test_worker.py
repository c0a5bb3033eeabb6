"""What the worker itself can't do is no variant's fault."""

import pytest
import torch

from softcheck.cases.exhaustive import domain
from softcheck.errors import UsageError
from softcheck.run import worker
from softcheck.run.protocol import RunDomain


def test_rows_that_do_not_fit_the_device_are_blamed_on_no_variant(monkeypatch):
    def scarce(*_arguments):
        raise torch.OutOfMemoryError("of 40 GB")

    monkeypatch.setattr(worker, "rows_on", scarce)
    session = worker._Session(torch.device("cpu"))
    with pytest.raises(UsageError, match="no memory left for 16 rows: of 40 GB"):
        list(session.answer(RunDomain(domain("float16", 2), 0, 16, "torch")))
