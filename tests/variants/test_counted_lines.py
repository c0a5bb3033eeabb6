"""Lines of a variant's files are counted in every call, each for the variant that runs."""

import importlib.util
import sys

import pytest
import torch

from softcheck.run.protocol import Load
from softcheck.run.serving import Server
from softcheck.variants import coverage

CODE = """
def helper(x):
    return x + 1

def softmax(x):
    if x > 3:
        return helper(x)
    return x

def other(x):
    return helper(x)
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text(CODE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("counted", file)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def new(variant):
    return {line for _, line in coverage.newly_run(variant)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_each_line_is_told_once_for_each_variant(module):
    coverage.attribute_to("one", [module.__file__])
    module.softmax(1)
    assert new("one") == {6, 8}
    module.softmax(5)
    module.softmax(1)
    assert new("one") == {3, 7}
    coverage.attribute_to("two", [module.__file__])
    module.other(1)
    assert new("two") == {3, 11}
    assert new("one") == set()


def test_nothing_is_counted_of_a_variant_that_never_ran():
    assert coverage.newly_run("nobody") == frozenset()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_worker_puts_back_what_calls_left_and_goes_on_counting(module):
    server = Server(torch.device("cpu"))
    coverage.attribute_to("three", [module.__file__])
    module.softmax(1)
    list(server.answer(Load("torch", ("float16",))))
    coverage.attribute_to("three", [module.__file__])
    module.other(1)
    assert new("three") == {3, 6, 8, 11}
