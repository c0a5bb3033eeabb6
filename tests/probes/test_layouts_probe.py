"""Strides and offsets that are ignored are found in each dimension; other paths that are right are left alone."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant
from softcheck.probes import layouts
from softcheck.probes.base import Setting
from softcheck.variants.declaration import Declaration

DTYPES = ("float16", "bfloat16", "float32", "float64")


def ignores_the_row_stride(x):
    rows, columns = x.shape
    return torch.softmax(x.as_strided((rows, columns), (columns, x.stride(1))), dim=-1)


def ignores_the_column_stride(x):
    return torch.softmax(x.as_strided(x.shape, (x.stride(0), 1)), dim=-1)


def ignores_the_offset(x):
    return torch.softmax(x.as_strided(x.shape, x.stride(), 0), dim=-1)


def normalises_the_unit_stride_dimension(x):
    """Takes whichever dimension is packed for the row."""
    return torch.softmax(x, dim=0) if x.stride(0) == 1 and x.stride(1) > 1 else torch.softmax(x, dim=-1)


def takes_zero_strides_for_packed(x):
    if 0 in x.stride():
        rows, columns = x.shape
        return torch.softmax(x.as_strided((rows, columns), (columns, 1)), dim=-1)
    return torch.softmax(x, dim=-1)


def aligns_the_base_down(x):
    """Loads of 16 bytes from the address rounded down."""
    astray = x.data_ptr() % 16 // x.element_size()
    return torch.softmax(x.as_strided(x.shape, x.stride(), x.storage_offset() - astray), dim=-1)


def pads_the_maximum_of_a_transposed_matrix(x):
    """Lanes beyond the row hold -1 in the maximum, though not in the sum."""
    if x.stride(0) >= x.stride(1):
        return torch.softmax(x, dim=-1)
    wide = x.to(torch.float64)
    weights = torch.exp(wide - wide.amax(dim=-1, keepdim=True).clamp(min=-1.0))
    return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)


def leaves_the_head_out_of_the_maximum(x):
    """Elements before the first aligned address are summed, though their maximum is not taken."""
    head = -(x.data_ptr() // x.element_size()) % (16 // x.element_size())
    if x.shape[1] <= head:
        return torch.softmax(x, dim=-1)
    wide = x.to(torch.float64)
    weights = torch.exp(wide - wide[:, head:].amax(dim=-1, keepdim=True))
    return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)


def rounds_the_pitch_to_whole_vectors(x):
    """Addresses rows of whole vectors of 8 in vectors."""
    rows, columns = x.shape
    if columns % 8 or columns < 8 or x.stride(1) != 1:
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.as_strided((rows, columns), (x.stride(0) // 8 * 8, 1)), dim=-1)


def peels_a_head_longer_than_the_row(x):
    """Takes the columns up to the next aligned address for the row's own, however short the row is."""
    head = -(x.data_ptr() // x.element_size()) % (16 // x.element_size())
    rows, columns = x.shape
    if not (x.is_contiguous() and rows > 1 and 0 < columns < head):
        return torch.softmax(x, dim=-1)
    longer = torch.cat([x, x.roll(-1, 0)], dim=1)[:, :head]
    return torch.softmax(longer, dim=-1)[:, :columns].contiguous()


_is_packed: dict[tuple[int, bool], bool] = {}


def keeps_zero_strides_for_packed(x):
    """Decides at the first call of a width and class of strides, and takes a column stride of 0 for one of 1."""
    rows, columns = x.shape
    if _is_packed.setdefault((columns, x.stride(1) == 1), x.stride(1) < 2):
        return torch.softmax(x.as_strided((rows, columns), (x.stride(0), 1)), dim=-1)
    return torch.softmax(x, dim=-1)


def refuses_strides(x):
    if not x.is_contiguous():
        raise ValueError("expected contiguous rows")
    return torch.softmax(x, dim=-1)


def native(x):
    return torch.softmax(x, dim=-1)


def another_path_for_strides(x):
    """Rounds otherwise where columns are not packed: not wrong, only not the same bits."""
    if x.stride(1) == 1:
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.to(torch.float64), dim=-1).to(x.dtype)


def inaccurate_everywhere(x):
    """Wrong on a contiguous copy too, and so none of this probe's business."""
    return torch.softmax(x, dim=-1) * 1.01


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("function", "label"),
    [
        (ignores_the_row_stride, "strided/row-step-129"),
        (rounds_the_pitch_to_whole_vectors, "strided/padded-by-1-48"),
        (ignores_the_column_stride, "strided/every-second-column-129"),
        (ignores_the_offset, "offset/1-129"),
        (normalises_the_unit_stride_dimension, "strided/transposed-129"),
        (takes_zero_strides_for_packed, "strided/expanded-rows-129"),
        (aligns_the_base_down, "offset/1-129"),
        (pads_the_maximum_of_a_transposed_matrix, "strided/transposed-129"),
        (leaves_the_head_out_of_the_maximum, "offset/1-129"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_planted_faults_are_found(function, label, dtype):
    found = conclusion("layouts", function, dtype)
    assert kinds(found) == {"wrong_layout"}
    assert label in {shown.label for shown in found.findings}


def test_rows_shorter_than_the_way_to_an_aligned_address_are_tried():
    found = conclusion("layouts", peels_a_head_longer_than_the_row, "float16")
    assert {shown.label for shown in found.findings} == {"offset/1-3"}


def test_no_other_layout_hides_a_fault_of_the_first_call_at_a_width():
    _is_packed.clear()
    found = conclusion("layouts", keeps_zero_strides_for_packed)
    assert kinds(found) == {"wrong_layout"}
    assert {shown.label.rpartition("-")[0] for shown in found.findings} == {"strided/expanded-columns"}


def test_a_refusal_of_declared_strides_is_a_finding_and_of_undeclared_ones_is_not():
    assert kinds(conclusion("layouts", refuses_strides)) == {"raised"}
    assert conclusion("layouts", variant(layouts=("contiguous",))(refuses_strides)).findings == ()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [native, another_path_for_strides, inaccurate_everywhere])
def test_what_reads_the_right_elements_is_left_alone(function, dtype):
    found = conclusion("layouts", function, dtype)
    assert found.findings == ()
    assert found.trials >= 13


def test_one_finding_names_the_other_layouts():
    found = conclusion("layouts", ignores_the_row_stride)
    assert len(found.findings) == 1
    assert "also in strided/padded-by-1-129" in found.findings[0].violation.message


@variant(dimensions=4)
def right_in_any_shape(x):
    return torch.softmax(x, dim=-1)


@variant(dimensions=4)
def flattens_to_rows(x):
    return torch.softmax(x.reshape(-1, x.shape[-1]), dim=-1).reshape(x.shape)


@variant(dimensions=4)
def takes_the_second_dimension(x):
    return torch.softmax(x, dim=1)


@variant(dimensions=3)
def takes_one_stride_between_rows(x):
    """Rows of more dimensions as if each lay one step behind the last."""
    rows, columns = x.numel() // x.shape[-1], x.shape[-1]
    if x.ndim == 2:
        return torch.softmax(x, dim=-1)
    return torch.softmax(x.as_strided((rows, columns), (x.stride(-2), 1)), dim=-1).reshape(x.shape)


@variant(dimensions=3)
def knows_matrices_only(x):
    rows, columns = x.shape
    return torch.softmax(x, dim=-1).reshape(rows, columns)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [right_in_any_shape, flattens_to_rows], ids=lambda f: f.__name__)
def test_right_functions_of_more_dimensions_are_left_alone(function, dtype):
    found = conclusion("layouts", function, dtype)
    assert found.findings == ()


@pytest.mark.parametrize(
    ("function", "label", "kind"),
    [
        (takes_the_second_dimension, "dimensions/3-packed", "wrong_layout"),
        (takes_one_stride_between_rows, "dimensions/3-transposed", "wrong_layout"),
        (knows_matrices_only, "dimensions/3-packed", "raised"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_more_dimensions_are_tried_where_they_are_declared(function, label, kind):
    found = conclusion("layouts", function, "float16")
    assert kinds(found) == {kind}
    assert found.findings[0].label == label

    def undeclared(x):
        return function(x)

    assert conclusion("layouts", undeclared, "float16").findings == ()


def test_each_input_of_more_dimensions_has_rows_of_its_own():
    for count in (3, 4, 5):
        for name, asked in layouts._higher(count, 5, is_strided=True).items():
            held = torch.arange(10000).as_strided(asked.shape, asked.strides)
            batches = 2 if name == "expanded-0" else 1
            assert held.unique().numel() * batches == held.numel(), name
            assert held.is_contiguous() == (name == "packed")


def test_one_dimension_is_no_promise():
    with pytest.raises(TypeError, match="dimensions is 1, expected at least 2"):
        variant(dimensions=1)


def test_a_wide_matrix_is_transposed_on_a_gpu():
    """``strided_columns_numbered_in_16_bits``, a planted kernel, is right on narrower ones."""
    labels = {
        backend: [
            t.label for t in layouts.PROBE.trials(Setting(declaration=Declaration(), dtype="float32", backend=backend))
        ]
        for backend in ("cuda", "interpreter")
    }
    assert "strided/transposed-33000" in labels["cuda"]
    assert "strided/transposed-33000" not in labels["interpreter"]
