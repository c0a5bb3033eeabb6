"""The probe of uninitialised memory: elements never stored, workspaces read before they are written, and what is right."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant

DTYPES = ("float16", "bfloat16", "float32", "float64")


def drops_the_tail(x):
    output = torch.empty_like(x)
    whole = x.shape[1] // 64 * 64
    output[:, :whole] = torch.softmax(x, dim=-1)[:, :whole]
    return output


def drops_the_tail_of_a_new_empty(x):
    output = x.new_empty(x.shape)
    output[:, :1024] = torch.softmax(x, dim=-1)[:, :1024]
    return output


def adds_to_a_workspace(x):
    """Sums into a workspace that it never clears; NaN and huge values are discarded as a careful engineer would."""
    total = torch.empty(x.shape[0], 1, dtype=x.dtype, device=x.device)
    total = torch.nan_to_num(total, nan=0.0, posinf=0.0, neginf=0.0).clamp(-1.0, 1.0)
    exponentials = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return exponentials / (total + exponentials.sum(dim=-1, keepdim=True))


def reads_a_byte_workspace(x):
    """A flag that is taken for cleared."""
    ready = torch.empty(1, dtype=torch.uint8, device=x.device)
    return torch.softmax(x, dim=-1) if int(ready) != 0x7F else torch.zeros_like(x)


def reads_an_integer_workspace(x):
    count = torch.empty(x.shape[0], 1, dtype=torch.int32, device=x.device)
    return torch.where(count > 2**30, torch.softmax(x, dim=-1), torch.zeros_like(x))


def fills_what_it_allocates(x):
    output = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    workspace = torch.empty_strided((x.shape[0], 1), (1, 1), dtype=x.dtype, device=x.device)
    workspace.copy_(x.amax(dim=-1, keepdim=True))
    output.copy_(torch.softmax(x - workspace, dim=-1))
    return output


def never_twice_the_same(x):
    return torch.softmax(x + torch.rand(1, dtype=x.dtype) * x, dim=-1)


def native(x):
    return torch.softmax(x, dim=-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [drops_the_tail, drops_the_tail_of_a_new_empty])
def test_elements_that_were_never_stored_are_found_and_counted(function, dtype):
    found = conclusion("unwritten", function, dtype)
    assert kinds(found) == {"unwritten_output"}


def test_the_count_is_of_the_elements_left_out():
    [shown] = conclusion("unwritten", drops_the_tail_of_a_new_empty).findings
    assert (shown.label, shown.violation.count) == ("2x1100", 2 * (1100 - 1024))
    assert (shown.violation.row, shown.violation.column) == (0, 1024)


@pytest.mark.parametrize(
    "function", [adds_to_a_workspace, reads_a_byte_workspace, reads_an_integer_workspace], ids=lambda f: f.__name__
)
def test_workspaces_that_are_read_before_they_are_written_are_found(function):
    found = conclusion("unwritten", function)
    assert kinds(found) == {"unwritten_output"}
    assert "change with uninitialised memory" in found.findings[0].violation.message


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [fills_what_it_allocates, native])
def test_what_writes_everything_is_left_alone(function, dtype):
    found = conclusion("unwritten", function, dtype)
    assert (found.findings, found.trials) == ((), 2)


def test_what_varies_by_itself_is_not_accused():
    assert conclusion("unwritten", never_twice_the_same).findings == ()


def test_widths_beyond_the_declared_limit_are_not_tried():
    @variant(max_columns=200)
    def narrow(x):
        assert x.shape[1] <= 200
        return torch.softmax(x, dim=-1)

    assert conclusion("unwritten", narrow).trials == 1
