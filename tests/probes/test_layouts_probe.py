"""Strides and offsets that are ignored are found in each dimension; other paths that are right are left alone."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant
from softcheck.probes.base import Setting, Subject
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.axes import WaySpace
from softcheck.probes.space.way import Way
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import LoadedVariant


def called_as(function, way, dtype):
    """What a call in the circumstances of a way shows."""
    declaration = declaration_of(function)
    setting = Setting(declaration=declaration, dtype=dtype, backend="interpreter")
    subject = Subject(LoadedVariant(function.__name__, function, declaration), setting, torch.device("cpu"))
    space = WaySpace(subject, taken_dimensions=declaration.dimensions)
    return Attempts(space, 0).make(Way.parse(way, space.axes))


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


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("function", "way"),
    [
        (ignores_the_row_stride, "layout=of twice as many columns"),
        (rounds_the_pitch_to_whole_vectors, "columns=40,layout=padded by 3"),
        (ignores_the_column_stride, "layout=every second column"),
        (ignores_the_offset, "offset=1"),
        (normalises_the_unit_stride_dimension, "layout=transposed"),
        (takes_zero_strides_for_packed, "layout=expanded"),
        (aligns_the_base_down, "offset=1"),
        (pads_the_maximum_of_a_transposed_matrix, "contents=far apart,layout=transposed"),
        (leaves_the_head_out_of_the_maximum, "contents=peaks,offset=1"),
        (takes_the_second_dimension, "dims=3"),
        (takes_one_stride_between_rows, "dims=3,layout=first two exchanged"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_planted_faults_are_wrong_layouts(function, way, dtype):
    found = called_as(function, way, dtype)
    assert {violation.kind for violation in found.violations} == {"wrong_layout"}


def test_rows_shorter_than_the_way_to_an_aligned_address_are_tried():
    assert called_as(peels_a_head_longer_than_the_row, "columns=2,offset=1", "float16").violations


def test_a_column_stride_of_0_is_told_from_1_at_the_first_call():
    _is_packed.clear()
    assert called_as(keeps_zero_strides_for_packed, "layout=expanded columns", "float32").violations


def test_a_refusal_of_declared_strides_is_a_finding_and_of_undeclared_ones_is_not():
    assert kinds(conclusion("layouts", refuses_strides, effort="quick")) == {"raised"}
    assert conclusion("layouts", variant(layouts=("contiguous",))(refuses_strides), effort="quick").findings == ()


@pytest.mark.parametrize("function", [native, another_path_for_strides, inaccurate_everywhere])
def test_what_reads_the_right_elements_is_left_alone(function):
    assert conclusion("layouts", function, "float16", effort="quick").findings == ()


def test_a_finding_of_the_slice_names_its_layout():
    (first, *_) = conclusion("layouts", ignores_the_row_stride, effort="quick").findings
    assert str(first.violation.kind) == "wrong_layout"
    assert "layout" in first.violation.facts.way


@pytest.mark.parametrize("function", [right_in_any_shape, flattens_to_rows], ids=lambda f: f.__name__)
def test_right_functions_of_more_dimensions_are_left_alone(function):
    assert conclusion("layouts", function, "float16", effort="quick").findings == ()


def test_more_dimensions_are_tried_where_they_are_declared():
    (found,) = conclusion("layouts", knows_matrices_only, "float16", effort="quick").findings
    assert (found.label, str(found.violation.kind)) == ("dims=3", "raised")

    def undeclared(x):
        return knows_matrices_only(x)

    assert conclusion("layouts", undeclared, "float16", effort="quick").findings == ()


def test_one_dimension_is_no_promise():
    with pytest.raises(TypeError, match="dimensions is 1, expected at least 2"):
        variant(dimensions=1)
