"""Row counts that fail in some layout, as a predicate; widths and layouts that fail by themselves are left to others."""

import torch
from probe_helpers import conclusion, kinds

from softcheck.probes import registry
from softcheck.probes.base import Setting
from softcheck.variants.declaration import Declaration, variant


def test_right_rows_are_left_alone():
    found = conclusion("shapes", lambda x: torch.softmax(x, dim=-1), "bfloat16", effort="quick")
    assert (found.findings, found.skipped) == ((), ())
    assert found.trials == 23


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
        "packed: rows > 16 (1 of 6 row counts tried, 1 to 17); at rows = 17, columns = 2: "
    )
    assert "also in offset-1-to-17x129" in shown.violation.message


def test_a_row_count_together_with_a_layout():
    def one_row_taken_for_packed(x):
        if len(x) == 1:
            x = x.as_strided(x.shape, (x.shape[1], 1))
        return torch.softmax(x, dim=-1)

    [shown] = conclusion("shapes", one_row_taken_for_packed, effort="quick").findings
    assert shown.violation.kind == "wrong_layout"
    assert shown.violation.message.startswith("every-second-column: rows = 1 (")


def test_whole_vectors_that_do_not_begin_at_whole_vectors():
    def stride_rounded_down(x):
        if x.shape[1] % 8 == 0 and 512 <= x.shape[1] <= 8192 and x.stride(1) == 1:
            x = x.as_strided(x.shape, (x.stride(0) // 8 * 8, 1))
        return torch.softmax(x, dim=-1)

    found = conclusion("shapes", stride_rounded_down, effort="quick")
    assert kinds(found) == {"wrong_layout"}
    assert found.findings[0].violation.message.startswith("padded-by-1: rows >= 2 (")


def test_what_fails_by_its_layout_or_its_width_alone_is_left_to_other_probes():
    def packed_rows_assumed(x):
        return torch.softmax(x.as_strided(x.shape, (x.shape[1], 1)) if x.numel() else x, dim=-1)

    def odd_widths_wrong(x):
        return torch.softmax(x, dim=-1) * (1 + x.shape[1] % 2)

    assert conclusion("shapes", packed_rows_assumed, effort="quick").findings == ()
    assert conclusion("shapes", odd_widths_wrong, effort="quick").findings == ()
    assert "sum_violation" in kinds(conclusion("sizes", odd_widths_wrong, effort="quick"))


def test_only_what_is_declared_is_asked_for():
    @variant(layouts=("contiguous",), max_columns=2000)
    def packed_only(x):
        assert x.is_contiguous()
        assert x.shape[1] <= 2000
        return torch.softmax(x, dim=-1)

    assert conclusion("shapes", packed_only, effort="quick").findings == ()
    trials = registry.load("shapes").trials(Setting(declaration=Declaration(), dtype="float16", backend="cuda"))
    counts = {(trial.parameters.layout, shape.rows) for trial in trials for shape in trial.parameters.shapes}
    assert {("transposed", 2**20), ("offset", 65537), ("row-step", 1), ("packed", 2**24)} <= counts
    assert max(shape.elements for trial in trials for shape in trial.parameters.shapes) <= 2**24
