"""Row counts that fail, as a predicate over rows."""

import torch
from probe_helpers import conclusion

from softcheck.contract import FindingKind
from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.declaration import Declaration, declaration_of
from softcheck.variants.registry import LoadedVariant


def as_on_a_gpu(function):
    probe = registry.load("grid_limits")
    setting = Setting(declaration=declaration_of(function), dtype="float16", backend="cuda")
    subject = Subject(LoadedVariant(function.__name__, function, setting.declaration), setting, torch.device("cpu"))
    # The device judge would describe what is wrong in a million rows; below that the numpy judge does.
    trials = [trial for trial in probe.trials(setting) if max(stop.shape.rows for stop in trial.parameters) < 2**20]
    return probe.conclude([(trial, probe.run(subject, trial)) for trial in trials])


def right(x):
    return torch.softmax(x, dim=-1)


def grid_of_four(x):
    """Four programs, and no loop over the rows beyond."""
    output = torch.empty_like(x)
    output[:4] = torch.softmax(x[:4], dim=-1)
    return output


def rows_in_grid_y(x):
    if len(x) > 65535:
        raise RuntimeError("Triton Error [CUDA]: invalid argument")
    return torch.softmax(x, dim=-1)


def wraps_at_16_bits(x):
    output = torch.empty_like(x)
    output[: 2**16] = torch.softmax(x[: 2**16], dim=-1)
    return output


def refuses_no_rows(x):
    return x / (x.sum(dim=1, keepdim=True) if len(x) else 1 / 0)


def test_right_at_every_row_count():
    assert conclusion("grid_limits", right).findings == ()
    found = as_on_a_gpu(right)
    assert found.findings == ()
    assert found.trials == 4


def test_rows_beyond_the_grid():
    found = {s.violation.kind: s.violation.message for s in conclusion("grid_limits", grid_of_four).findings}
    assert found[FindingKind.UNWRITTEN_OUTPUT].startswith(
        "rows > 4 (3 of 7 row counts tried, 0 to 17); at rows = 5, columns = 300: "
    )


def test_grid_limits_on_a_gpu():
    [shown] = as_on_a_gpu(rows_in_grid_y).findings
    assert shown.violation.kind is FindingKind.RAISED
    assert shown.violation.message.startswith(
        "rows >= 65536 (2 of 20 row counts tried, 0 to 65537); at rows = 65536, columns = 5: "
    )
    assert shown.label == "rows-65536"
    found = {s.violation.kind: s.violation.message for s in as_on_a_gpu(wraps_at_16_bits).findings}
    assert found[FindingKind.UNWRITTEN_OUTPUT].startswith("rows > 65536 (1 of 20")


def test_no_rows():
    found = {s.violation.kind: s.violation.message for s in conclusion("grid_limits", refuses_no_rows).findings}
    assert "rows = 0 (1 of 7" in found[FindingKind.EMPTY_REFUSED]


def test_more_heads_than_a_second_dimension_of_a_grid_has_are_not_asked_for():
    def most(operation, **parameters):
        declared = Declaration(operation=operation, parameters=parameters)
        setting = Setting(declaration=declared, dtype="float16", backend="cuda")
        return {
            probe: max(stop.shape.rows for trial in registry.load(probe).trials(setting) for stop in trial.parameters)
            for probe in ("grid_limits", "shapes")
        }

    assert set(most("attention").values()) == {65535}
    assert set(most("attention", groups=2).values()) == {65535 // 2}
    assert min(most("softmax").values()) > 2**20
