"""Row counts that fail, as a predicate; widths that fail by themselves are left to others."""

import torch
from probe_helpers import conclusion, kinds

from softcheck.probes import registry
from softcheck.probes.base import Setting
from softcheck.variants.declaration import Declaration, variant


def test_right_rows_are_left_alone():
    found = conclusion("shapes", lambda x: torch.softmax(x, dim=-1), "bfloat16", effort="quick")
    assert (found.findings, found.skipped, found.trials) == ((), (), 1)


def test_the_failing_row_counts_are_told():
    def tail_of_a_tile_forgotten(x):
        out = torch.empty(x.shape, dtype=x.dtype)
        whole = len(x) // 16 * 16 if len(x) > 16 else len(x)
        out[:whole] = torch.softmax(x[:whole], dim=-1)
        return out

    [shown] = (
        s
        for s in conclusion("shapes", tail_of_a_tile_forgotten, effort="quick").findings
        if s.violation.kind == "unwritten_output"
    )
    assert shown.violation.message.startswith(
        "rows > 16 (1 of 6 row counts tried, 1 to 17); at rows = 17, columns = 2: "
    )


def test_what_fails_by_its_width_alone_is_left_to_another_probe():
    def odd_widths_wrong(x):
        return torch.softmax(x, dim=-1) * (1 + x.shape[1] % 2)

    assert conclusion("shapes", odd_widths_wrong, effort="quick").findings == ()
    assert "sum_violation" in kinds(conclusion("sizes", odd_widths_wrong, effort="quick"))


def test_only_what_is_declared_is_asked_for():
    @variant(layouts=("contiguous",), max_columns=100)
    def narrow(x):
        assert x.shape[1] <= 100
        return torch.softmax(x, dim=-1)

    assert conclusion("shapes", narrow, effort="quick").findings == ()
    trials = registry.load("shapes").trials(Setting(declaration=Declaration(), dtype="float16", backend="cuda"))
    shapes = {stop.shape for trial in trials for stop in trial.parameters}
    assert {(1, 129), (4097, 129), (2**24, 1), (2**24 + 1025, 3)} <= shapes
