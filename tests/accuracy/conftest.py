"""Leaves out, without a GPU, what share.py leaves to other variants, dtypes and commands."""

from pathlib import Path

from share import dtype_generated, dtype_run

from softcheck.variants.registry import BUILTIN


def is_run(item):
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "accuracy" in params:
        variant, dtype, judged = params["accuracy"]
        name = judged if isinstance(judged, str) else judged[0].family
        return variant not in BUILTIN or dtype == dtype_run(variant, name)
    if "generated_accuracy" in params:
        variant, dtype = params["generated_accuracy"]
        return variant not in BUILTIN or dtype == dtype_generated(variant)
    return True


def pytest_collection_modifyitems(config, items):
    """Deselects them, unless dtypes were asked for: to skip thousands of tests would take longer than to run some."""
    here = [item for item in items if item.path.parent == Path(__file__).parent]
    if not here or config.getoption("--softcheck-dtype"):
        return
    import torch

    if torch.cuda.is_available() and config.getoption("--softcheck-device") != "interpreter":
        return
    left_out = {item for item in here if not is_run(item)}
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))
