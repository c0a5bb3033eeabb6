"""Functions that take dim= and dtype= as torch's own do are judged over other dimensions and in wider types."""

import functools

import pytest
import torch
from probe_helpers import conclusion, kinds, made_in, subject_of

from softcheck import variant
from softcheck.probes import meetings
from softcheck.probes.space.way import Way
from softcheck.variants.registry import load


def right(x, dim=-1, dtype=None):
    return torch.softmax(x, dim, dtype=dtype)


def moved_back_where_it_was_swapped(x, dim=-1):
    answer = torch.softmax(x.transpose(dim, -1).contiguous(), -1)
    return answer.movedim(-1, dim).reshape(x.shape)


def last_dimension_whatever_is_asked(x, axis=-1):
    return torch.softmax(x, -1)


@variant(call="f(scores=x)")
def by_name_alone(*, scores, axis=-1):
    return torch.softmax(scores, axis)


@variant(call="f(scores=x)")
def by_name_alone_over_the_last(*, scores, axis=-1):
    return torch.softmax(scores, -1)


@variant(call="f(scores=x)")
def by_name_after_an_option(*, axis=-1, scores):
    return torch.softmax(scores, axis)


def answer_converted(x, dim=-1, dtype=None):
    answer = torch.softmax(x, dim)
    return answer if dtype is None else answer.to(dtype)


def dtype_ignored(x, dtype=None):
    return torch.softmax(x, -1)


def over_the_last_alone(x, dim=-1, dtype=None):
    if dim not in {-1, x.dim() - 1} or dtype is not None:
        raise ValueError("the last dimension, in the input's type")
    return torch.softmax(x, -1)


def without_options(x):
    return torch.softmax(x, -1)


AXES = ("dims", "dtype", "before")


def said_of(function, dtype="float32", *ways):
    """Returns the kinds of findings of all values of the axes, or of some ways."""
    return {str(each.kind) for found in made_in(function, dtype, AXES, *ways).values() for each in found}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [right, without_options, by_name_alone, by_name_after_an_option])
def test_right_functions_are_left_alone(function, dtype):
    assert said_of(function, dtype) == set()


def test_refusals_are_left_alone():
    assert said_of(over_the_last_alone, "float16") == {"raised"}
    assert conclusion("torch_options", over_the_last_alone, "float16", effort="quick").findings == ()


@pytest.mark.parametrize(
    ("function", "dtype", "kind"),
    [
        (moved_back_where_it_was_swapped, "float32", "ulp_exceeds_bound"),
        (last_dimension_whatever_is_asked, "float16", "ulp_exceeds_bound"),
        (by_name_alone_over_the_last, "float32", "ulp_exceeds_bound"),
        (answer_converted, "float16", "ulp_exceeds_bound"),
        (answer_converted, "bfloat16", "ulp_exceeds_bound"),
        (dtype_ignored, "float16", "wrong_dtype"),
    ],
)
def test_a_dimension_or_type_that_is_treated_wrongly_is_found(function, dtype, kind):
    assert kind in said_of(function, dtype)
    found = conclusion("torch_options", function, dtype, effort="quick")
    assert found.findings
    assert all(shown.violation.message.startswith("with ") for shown in found.findings)


def in_pieces_of_the_first_dimension(x, dim=-1):
    return torch.cat(
        [torch.softmax(piece, dim) for piece in x.split(max(1, 65536 * max(1, len(x)) // max(1, x.numel())))]
    )


def in_pieces_of_another_dimension(x, dim=-1):
    along = 0 if x.dim() < 2 or dim % x.dim() else 1
    return (
        torch.softmax(x, dim)
        if x.dim() < 2
        else torch.cat([torch.softmax(one, dim) for one in x.split(40, along)], along)
    )


def decorated(function):
    @functools.wraps(function)
    def softmax(x, dim=-1):
        return in_pieces_of_the_first_dimension(x, dim)

    return softmax


@pytest.mark.parametrize("way", ["columns=66049,dims=1 over 0", "columns=1030,rows=65,dims=2 over 0"])
@pytest.mark.parametrize(
    ("function", "is_wrong"),
    [(in_pieces_of_the_first_dimension, True), (decorated(right), True), (in_pieces_of_another_dimension, False)],
)
def test_a_dimension_is_summed_as_a_whole_in_large_tensors(function, is_wrong, way):
    assert bool(made_in(function, "float32", (), way)) is is_wrong
    space = meetings._space_of(subject_of(function))
    assert Way.parse(way, space.axes) in {Way.parse(str(each), space.axes) for each in space.always}


def backward(grad_output, output, dim=-1):
    return torch._softmax_backward_data(grad_output, output, dim, output.dtype)


def gradient_moved_otherwise(grad_output, output, dim=-1):
    moved = torch._softmax_backward_data(
        grad_output.transpose(dim, -1).reshape(-1, output.shape[dim]),
        output.movedim(dim, -1).reshape(-1, output.shape[dim]),
        -1,
        output.dtype,
    )
    return moved.view(output.movedim(dim, -1).shape).movedim(-1, dim)


def last_dimension_alone(grad_output, output, dim=-1):
    assert dim in {-1, output.dim() - 1}
    return backward(grad_output, output)


@pytest.mark.parametrize(
    ("function", "found"),
    [(backward, set()), (last_dimension_alone, {"raised"}), (gradient_moved_otherwise, {"ulp_exceeds_bound"})],
)
def test_all_operands_of_a_backward_are_moved(function, found):
    declared = variant(operation="softmax_backward", call="f(grad, y)")(function)
    assert said_of(declared, "float16", "dims=3 over 0") == said_of(declared, "float32", "dims=4 over 1") == found


def over_several(x, dim=-1):
    return torch.logsumexp(x, dim)


def over_one_after_another(x, dim=-1):
    for each in (dim,) if isinstance(dim, int) else sorted(dim, reverse=True):
        x = torch.logsumexp(x, each)
    return x


def over_one_alone(x, dim=-1):
    return torch.logsumexp(x.movedim(dim, -1), -1)


@pytest.mark.parametrize(
    ("function", "found"),
    [(over_several, set()), (over_one_alone, {"raised"}), (over_one_after_another, {"wrong_shape"})],
)
def test_two_dimensions_are_reduced_at_once(function, found):
    declared = variant(operation="logsumexp")(function)
    assert said_of(declared, "float32", "dims=2 over -2;-1") == found
    assert kinds(conclusion("torch_options", declared, effort="quick")) == found - {"raised"}


@pytest.mark.parametrize(
    ("function", "is_ignored"),
    [
        (last_dimension_whatever_is_asked, True),
        (by_name_alone_over_the_last, True),
        (moved_back_where_it_was_swapped, False),
    ],
)
def test_a_dimension_that_is_ignored_is_told_from_one_that_is_treated_wrongly(function, is_ignored):
    found = [each for made in made_in(function, "float32", ("dims",)).values() for each in made]
    assert found
    assert all(("the answers are those of axis=-1" in each.message) is is_ignored for each in found)


_default = [1.0]


def scale_that_stays(x, scale=None):
    _default[0] = _default[0] if scale is None else scale
    return torch.softmax(x * _default[0], -1)


def scale_of_one_call(x, scale=None):
    return torch.softmax(x * (1.0 if scale is None else scale), -1)


def test_an_option_leaves_no_mark():
    found = made_in(scale_that_stays, "float32", (), "before=another option")
    assert list(found) == ["before=another option"]
    assert made_in(scale_of_one_call, "float32", (), "before=another option") == {}


def test_another_option_is_given_beside_a_dimension(tmp_path):
    source = "import torch\ndef softmax(x, dim=-1, scale=1.0):\n    return torch.softmax(x * scale, dim)\n"
    (tmp_path / "kernel.py").write_text(source)
    function = load(f"{tmp_path / 'kernel.py'}:softmax").function
    function.__name__ = f"{tmp_path / 'kernel.py'}:softmax"
    assert made_in(function, "float32", (), "dims=2 over 0,scale=3", "dims=3 over 1,scale=0.5") == {}


def test_a_log_sum_exp_over_a_dimension_is_judged():
    def row_sums(x, dim=-1):
        return torch.logsumexp(x, dim)

    def sums_of_the_last(x, dim=-1):
        return torch.logsumexp(x.transpose(0, dim), 0 if dim else -1) if dim in {0, -2} else torch.logsumexp(x, dim)

    assert said_of(variant(operation="logsumexp")(row_sums)) == set()
    assert said_of(variant(operation="logsumexp")(sums_of_the_last))


def with_dtype(x, dtype=None):
    return torch.logsumexp(x.double(), -1).to(x.dtype if dtype is None else dtype)


def with_dtype_of_its_own(x, dtype=None):
    return torch.logsumexp(x.double(), -1).to(x.dtype)


def with_dtype_of_rounded_answers(x, dtype=None):
    return torch.logsumexp(x.double(), -1).to(x.dtype).to(x.dtype if dtype is None else dtype)


KEPT = []


def with_dtype_that_stays(x, dtype=None):
    KEPT.extend([] if dtype is None else [dtype])
    return torch.logsumexp(x.double(), -1).to(KEPT[-1] if KEPT else x.dtype)


@pytest.mark.parametrize("keeps_dimension", [True, False])
@pytest.mark.parametrize(
    ("function", "found"),
    [
        (with_dtype, set()),
        (with_dtype_of_its_own, {"wrong_dtype"}),
        (with_dtype_of_rounded_answers, {"ulp_exceeds_bound"}),
        (with_dtype_that_stays, {"wrong_dtype"}),
    ],
)
def test_answers_of_rows_in_another_type_may_have_either_shape(function, found, keeps_dimension):
    def answer(x, dtype=None):
        y = function(x, dtype)
        return y[:, None] if keeps_dimension else y

    declared = variant(operation="logsumexp", dtypes=["float32", "float64"])(answer)
    KEPT.clear()
    assert said_of(declared) == found
    KEPT.clear()
    assert bool(conclusion("torch_options", declared).findings) is bool(found)
