"""Children in which Triton's interpreter runs functions of tensors, and in which its compiler compiles."""

from pathlib import Path

import pytest
from children import Child


@pytest.fixture(scope="session")
def operating():
    """``operating(function, array)``: what a function of interpreted_operations.py returns for an array."""
    child = Child("toolchain/operating_child.py", TRITON_INTERPRET="1")
    file = Path(__file__).with_name("interpreted_operations.py")
    yield lambda function, array: child.ask(f"{file}:{function}", array)
    child.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("triton-cache"))
    child = Child("toolchain/compiling_child.py", TRITON_CACHE_DIR=cache, TRITON_DEFAULT_FP_FUSION="1")
    yield child
    child.close()
