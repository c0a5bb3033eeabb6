"""Softmaxes that are wrong in some calls only: by chance, by what came before, or by what a marked file says."""

import os
from pathlib import Path

import torch


class _Calls:
    count = 0


def _off(x):
    return torch.softmax(x, dim=-1) * 0.5


def _is_first_process():
    """True in the process that makes the marked file, and in no other."""
    mark = Path(os.environ["SEEN_ONCE"])
    if not mark.exists():
        mark.write_text(str(os.getpid()), encoding="ascii")
    return mark.read_text(encoding="ascii") == str(os.getpid())


def wrong_in_the_first_process(x):
    return _off(x) if _is_first_process() and x.shape[-1] > 2 else torch.softmax(x, dim=-1)


def raises_in_the_first_process(x):
    if _is_first_process() and x.shape[-1] > 2:
        raise RuntimeError(f"{x.shape[0]} rows met a bad moment")
    return torch.softmax(x, dim=-1)


def wrong_in_every_third_call(x):
    """As a race is, whatever the input."""
    _Calls.count += 1
    return torch.softmax(x, dim=-1) if _Calls.count % 3 else _off(x)


def wrong_after_a_wide_row(x):
    _Calls.count += x.shape[-1] >= 30
    return _off(x) if _Calls.count and x.shape[-1] < 5 else torch.softmax(x, dim=-1)


def wrong_everywhere(x):
    return _off(x)


def breaks_softcheck_in_the_first_process(x):
    """As damaged memory may."""
    if _is_first_process() and x.shape[-1] > 2:
        from softcheck.probes import equal_calls

        equal_calls.ordinary_rows = None
    return torch.softmax(x, dim=-1)
