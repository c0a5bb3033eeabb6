"""Guard bands: what reads or writes beyond its rows is found, around input, output and workspace."""

import subprocess
import sys

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant
from softcheck.probes.memory.guard_bands import CANARIES, MARGIN, Bands


def beyond(x, before, after):
    """The row with elements before and after it, whatever they belong to, as a kernel with wrong bounds sees it."""
    rows, columns = x.shape
    return x.as_strided((rows, before + columns + after), x.stride(), x.storage_offset() - before)


def takes_one_too_many(x):
    """Lanes up to and including the column count: the next row's first element, or what follows the last row."""
    wider = beyond(x, 0, 1)
    exponentials = torch.exp(x - wider.amax(dim=-1, keepdim=True))
    return exponentials / torch.exp(wider - wider.amax(dim=-1, keepdim=True)).sum(dim=-1, keepdim=True)


def looks_back_in_the_first_row(x):
    return torch.softmax(x, dim=-1) + 0 * beyond(x, 1, 0)[:1, :1]


def reads_and_discards(x):
    """A masked load is free to touch memory: what is read does not matter, and nothing is accused."""
    wider = beyond(x, 8, 8)
    return torch.softmax(torch.where(torch.arange(wider.shape[1]) < 8, -float("inf"), wider)[:, 8:-8], dim=-1)


def reads_rows_as_packed(x):
    rows, columns = x.shape
    return torch.softmax(x.as_strided((rows, columns), (columns, 1)), dim=-1)


def stores_a_power_of_two(x):
    """The last row's store is not masked."""
    output = torch.empty_like(x, memory_format=torch.contiguous_format)
    output.copy_(torch.softmax(x, dim=-1))
    block = 1 << (x.shape[1] - 1).bit_length()
    output[-1].as_strided((block,), (1,))[x.shape[1] :] = 0.0
    return output


def stores_before_the_output(x):
    output = x.new_empty(x.shape)
    output.copy_(torch.softmax(x, dim=-1))
    output.as_strided((1,), (1,), output.storage_offset() - 3).fill_(1.0)
    return output


def stores_between_strided_rows(x):
    rows, columns = x.shape
    output = torch.empty_strided((rows, columns), (columns + 3, 1), dtype=x.dtype)
    output.copy_(torch.softmax(x, dim=-1))
    output.as_strided((rows - 1, 1), (columns + 3, 1), output.storage_offset() + columns).fill_(0.5)
    return output


def clears_beyond_its_workspace(x):
    sums = torch.zeros(x.shape[0], dtype=torch.float32)
    sums.as_strided((4096,), (1,), sums.storage_offset()).zero_()
    return torch.softmax(x, dim=-1) + sums[0].to(x.dtype)


def reads_beyond_its_workspace(x):
    scratch = torch.zeros(x.shape[0])
    after = scratch.as_strided((1,), (1,), scratch.storage_offset() + scratch.numel())
    return torch.empty_like(x).copy_(torch.softmax(x, dim=-1) * (1 if float(after) < 0 else 2))


def writes_behind_the_input(x):
    beyond(x, 0, 1)[-1, -1] = 0.0
    return torch.softmax(x, dim=-1)


def subtracts_in_place(x):
    """Changes its input, and nothing beside it."""
    x -= x.amax(dim=-1, keepdim=True)
    return torch.softmax(x, dim=-1)


def native(x):
    return torch.softmax(x, dim=-1)


def honest(x):
    output = torch.empty_like(x)
    sums = torch.zeros(x.shape[0], 1, dtype=torch.float64)
    flags = torch.ones(3, dtype=torch.bool)
    assert flags.all()
    assert not sums.any()
    assert torch.full((2,), 7, dtype=torch.int32).tolist() == [7, 7]
    assert x.new_zeros(2).tolist() == [0, 0]
    output.copy_(torch.softmax(x, dim=-1))
    return output


@pytest.mark.parametrize(
    ("function", "kind", "place", "dtype"),
    [
        (takes_one_too_many, "out_of_bounds_read", "input", "float16"),
        (looks_back_in_the_first_row, "out_of_bounds_read", "input", "bfloat16"),
        (writes_behind_the_input, "out_of_bounds_write", "input", "float32"),
        (stores_a_power_of_two, "out_of_bounds_write", "output", "float64"),
        (stores_before_the_output, "out_of_bounds_write", "output", "float16"),
        (stores_between_strided_rows, "out_of_bounds_write", "output", "bfloat16"),
        (clears_beyond_its_workspace, "out_of_bounds_write", "output", "float32"),
        (reads_beyond_its_workspace, "out_of_bounds_read", "output", "float64"),
        (reads_beyond_its_workspace, "out_of_bounds_read", "output", "bfloat16"),
        (takes_one_too_many, "out_of_bounds_read", "input", "float32"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_planted_faults_are_found(function, kind, place, dtype):
    found = conclusion("guard_bands", function, dtype)
    assert kind in kinds(found)
    assert place in {shown.label.partition("/")[0] for shown in found.findings if shown.violation.kind == kind}


def test_packed_rows_are_found_between_rows_that_lie_apart_and_only_there():
    found = conclusion("guard_bands", reads_rows_as_packed)
    assert [(shown.label, str(shown.violation.kind)) for shown in found.findings] == [
        ("gaps/3x129", "out_of_bounds_read")
    ]


def test_what_is_handed_out_lies_in_margins_in_every_trial_that_puts_something_there():
    sizes = []

    def records_its_memory(x):
        output = torch.empty_like(x).copy_(torch.softmax(x, dim=-1))
        sizes.append(output.untyped_storage().nbytes())
        return output

    found = conclusion("guard_bands", records_its_memory)
    assert found.findings == ()
    assert found.trials == 7
    assert min(sizes) >= 2 * MARGIN, "a store beyond the output would damage this process's own memory"


def test_a_store_beyond_the_output_is_told_once_and_by_the_trial_of_outputs():
    def stores_a_row_too_many(x):
        rows, columns = x.shape
        output = torch.empty_like(x).copy_(torch.softmax(x, dim=-1))
        whole = torch.empty(0, dtype=x.dtype).set_(output.untyped_storage())
        begin = output.storage_offset() + rows * columns
        whole[begin : begin + columns] = 0.5
        return output

    found = conclusion("guard_bands", stores_a_row_too_many).findings
    assert [(shown.label.partition("/")[0], str(shown.violation.kind)) for shown in found] == [
        ("output", "out_of_bounds_write")
    ]


def test_a_declaration_of_contiguous_rows_is_respected():
    @variant(layouts=("contiguous",))
    def packed(x):
        return reads_rows_as_packed(x)

    assert conclusion("guard_bands", packed).findings == ()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("function", [reads_and_discards, subtracts_in_place, native, honest])
def test_what_keeps_to_its_memory_is_left_alone(function, dtype):
    found = conclusion("guard_bands", function, dtype)
    assert found.findings == ()
    assert found.trials >= 3


def test_an_output_that_bands_could_not_be_put_around_is_said():
    assert any("guard bands around the output" in reason for reason in conclusion("guard_bands", native).skipped)
    assert conclusion("guard_bands", honest).skipped == ()


def test_where_and_how_far_a_store_went_is_said():
    found = conclusion("guard_bands", stores_a_power_of_two).findings
    # Where no bands lie around the output, torch itself refuses what the function does.
    [shown] = [shown for shown in found if str(shown.violation.kind) == "out_of_bounds_write"]
    assert "element 387 after the beginning to element 513" in shown.violation.message
    assert shown.violation.count == 127


def test_a_function_under_torch_compile_is_left_alone():
    @torch.compile(backend="eager", fullgraph=True)
    def compiled(x):
        output = torch.empty_like(x)
        return output.copy_(torch.softmax(x, dim=-1))

    def function(x):
        return compiled(x)

    for probe in ("guard_bands", "unwritten"):
        assert conclusion(probe, function).findings == ()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("of 40 GB"), MemoryError("of 40 GB"), None])
def test_bands_that_memory_does_not_suffice_for_are_left_out(monkeypatch, error):
    """Nobody but the probe asked for twice the memory. On a CPU torch raises a plain RuntimeError, here a real one."""

    def scarce(*_arguments, **_options):
        raise error

    margin = 2**50 if error is None else MARGIN
    tensor, around = torch.zeros(4), Bands(CANARIES[0], margin)
    if error is not None:
        monkeypatch.setattr(torch, "full", scarce)
    assert around(tensor, True) is tensor
    assert not around.holds(tensor)
    assert around.overrun() is None


def test_what_else_goes_wrong_with_bands_is_not_hidden(monkeypatch):
    def broken(*_arguments, **_options):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch, "full", broken)
    with pytest.raises(RuntimeError, match="no such operator"):
        Bands(CANARIES[0], MARGIN)(torch.zeros(4), True)


def test_functions_that_act_on_a_device_context_are_torchs_own_even_if_first_asked_for_in_a_probe():
    code = (
        "import torch\nfrom softcheck.probes.poison import handing_out\n"
        "def made():\n    with torch.device('meta'):\n        return torch.empty(2).device.type\n"
        "with handing_out(lambda tensor, initialised: tensor):\n    print(made())\nprint(made())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["meta", "meta"]


def masked(function):
    return variant(call="f(x, mask)")(function)


@masked
def takes_a_mask(x, mask):
    return torch.softmax(x.masked_fill(mask, -float("inf")), dim=-1)


@masked
def takes_a_mask_that_is_one_too_wide(x, mask):
    wider = torch.cat([x, x[:, :1]], dim=1).masked_fill(beyond(mask, 0, 1), -float("inf"))
    return torch.softmax(wider[:, :-1], dim=-1) * (1.0 - 1e-3 * (wider[:, -1:] == -float("inf")).to(x.dtype))


@masked
def writes_behind_a_mask(x, mask):
    mask.as_strided((1,), (1,), mask.storage_offset() + mask.numel())[0] ^= True
    return takes_a_mask(x, mask)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (takes_a_mask, set()),
        (takes_a_mask_that_is_one_too_wide, {"out_of_bounds_read"}),
        (writes_behind_a_mask, {"out_of_bounds_write"}),
    ],
)
def test_memory_around_an_operand_is_left_alone_and_does_not_matter(function, found):
    seen = conclusion("guard_bands", function, labels={"operands/3x129", "operands/2x600"})
    assert (kinds(seen), seen.trials) == (found, 2)
    assert (
        found != {"out_of_bounds_write"} or "the caller's mask, of shape [3, 129]" in seen.findings[0].violation.message
    )
