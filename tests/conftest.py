"""For all tests: torch has one thread, ``gpu`` skips with its reason without a device, hypothesis has no deadline."""

import os

import pytest
from hypothesis import settings

# Read while torch is imported. Threads of several pytest workers that wait for each other's cores take most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where this suite runs in GitHub Actions, the reports of its tests are not that step's.
os.environ.pop("GITHUB_STEP_SUMMARY", None)

settings.register_profile("softcheck", deadline=None)
# The same examples on every run, so that a failure in CI is one that the change made.
settings.register_profile("softcheck-ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("softcheck-ci" if os.environ.get("CI") else "softcheck")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Take one worker more than there are cores: a third of the time tests wait for processes that they have started."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def interpreted():
    """Run variants on inputs under Triton's interpreter: ``interpreting_child.py`` says what is asked."""
    from children import Child

    child = Child("interpreting_child.py", TRITON_INTERPRET="1")
    yield child
    child.close()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Skip GPU tests where there is no device. Runs after deselection, so that torch is imported only for them."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if torch.cuda.is_available():
        return
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="needs a CUDA device; none found"))
