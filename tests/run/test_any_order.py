"""One order of each row's elements stands for all of them only where a sample shows no other answer."""

import contextlib

import numpy as np
import pytest
import torch

from softcheck.cases.exhaustive import ascending_patterns, domain
from softcheck.errors import UsageError
from softcheck.run.first_look import show_any_order
from softcheck.run.session import Session

VARIANTS = """
import os, torch

def first_column_more(x):
    y = torch.softmax(x, -1)
    y[:, 0] = torch.nextafter(y[:, 0], torch.ones_like(y[:, 0]))
    return y

def by_row(x):
    y = torch.softmax(x, -1)
    y[5:6] = 0.25
    return y

def sums_in_order(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    total = e[:, 0]
    for column in range(1, x.shape[1]):
        total = total + e[:, column]
    return e / total[:, None]

def ends(x):
    os._exit(5)
"""


@pytest.fixture(scope="module")
def session():
    with contextlib.closing(Session("interpreter", jobs=1, seconds_per_call=60.0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("orders") / "orders.py"
    path.write_text(VARIANTS)
    return path


@pytest.mark.parametrize(("name", "columns"), [("torch", 3), ("one_block", 2)])
def test_a_kernel_that_takes_any_order_is_shown_to(session, name, columns):
    told = show_any_order(session, name, session.load(name), "float16", columns)
    assert "1,024 sampled rows had the same bits in every order" in told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("first_column_more", "has another answer with its columns in the order"),
        ("by_row", "has another answer in another row of the batch"),
        ("sums_in_order", "has another answer with its columns in the order"),
        ("ends", "exit status 5"),
    ],
)
def test_a_kernel_that_does_not_is_refused(session, file, name, said):
    declaration = session.load("torch")
    with pytest.raises(UsageError, match=said):
        show_any_order(session, f"{file}:{name}", declaration, "float16", 3)


def test_torch_numbers_ascending_rows_as_numpy_does():
    triples = domain("float16", 3, kind="ascending")
    start = triples.total - 4096
    index = torch.arange(start, triples.total, dtype=torch.int64)
    found = torch.stack(ascending_patterns(index, 3, lambda numbers: numbers.to(torch.int64)), 1).numpy()
    assert np.array_equal(found, triples.bits(start, 4096))
