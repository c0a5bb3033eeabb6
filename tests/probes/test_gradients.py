"""Gradients that are wrong, and variants of which none is asked."""

import threading

import pytest
import torch
from probe_helpers import conclusion, kinds, made_in, subject_of

from softcheck import Arithmetic, variant
from softcheck.errors import UninterpretableError, UsageError
from softcheck.probes import meetings
from softcheck.probes.space.plan import Plan


class OfTwoForwards(torch.autograd.Function):
    """Keeps the probabilities in a place that the next forward takes."""

    held = None

    @staticmethod
    def forward(ctx, x):
        OfTwoForwards.held = torch.softmax(x, dim=-1)
        return OfTwoForwards.held.clone()

    @staticmethod
    def backward(ctx, grad):
        y = OfTwoForwards.held
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


class OfPackedGradients(torch.autograd.Function):
    """Takes the first output gradient of each row for all of its columns, as one with stride 0 has it."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        if grad.is_contiguous():
            return y * (grad - (y * grad).sum(dim=-1, keepdim=True))
        return y * (1 - y) * grad


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_right_gradients_are_left_alone(dtype):
    assert made_in(lambda x: torch.softmax(x, dim=-1), dtype) == {}


def test_right_gradients_are_left_alone_where_circumstances_meet():
    found = conclusion("gradients", lambda x: torch.softmax(x, dim=-1), labels={"part/1-of-4"})
    assert (found.findings, found.skipped, found.trials) == ((), (), 1)


@pytest.mark.parametrize("alignment", ["top-left", "bottom-right"])
@pytest.mark.parametrize("zero", [False, True])
def test_a_query_that_sees_no_key_has_no_gradient_to_show(alignment, zero):
    """The rows of an odd number of columns are matrices of which some queries see no key, where keys are fewer."""

    def softmax(x):
        queries, keys = x.shape[-2:]
        last = keys - queries if alignment == "bottom-right" else 0
        hidden = torch.ones(queries, keys, dtype=torch.bool).triu(last + 1)
        y = torch.softmax(x.masked_fill(hidden, -torch.inf), dim=-1)
        return y.masked_fill(hidden.all(dim=-1, keepdim=True), 0.0) if zero else y

    declared = variant(
        parameters={"causal": alignment}, call="f(x)", dtypes=("float32",), fully_masked="zero" if zero else "nan"
    )
    assert made_in(declared(softmax)) == {}


class OfTheLeastSum(torch.autograd.Function):
    """Divides by the smallest of all row sums, which is NaN as soon as one row is fully masked."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        least = torch.round(y.sum(dim=-1).amin())
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True)) / least


def test_a_fully_masked_row_leaves_the_gradients_of_others_alone():
    hidden = "contents=hidden rows"
    found = made_in(OfTheLeastSum.apply, "float32", (), hidden, f"{hidden},gradient=varying")
    assert {way: violation.kind for way, [violation] in found.items()} == {
        f"{hidden},gradient=varying": "wrong_gradient"
    }


class ZeroWhereAllIsHidden(torch.autograd.Function):
    """Answers 0 for a fully masked row, whose weights are computed again in the backward, as NaN."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.softmax(x, dim=-1).nan_to_num(nan=0.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        y = torch.softmax(x, dim=-1)
        return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


@pytest.mark.parametrize(
    ("function", "is_wrong"),
    [(ZeroWhereAllIsHidden.apply, True), (lambda x: torch.ops.aten._safe_softmax(x, -1), False)],
    ids=["of-nan", "torch"],
)
def test_the_gradient_of_a_row_that_is_0_whatever_it_holds_is_0(function, is_wrong):
    def declared(x):
        return function(x)

    found = made_in(variant(fully_masked="zero")(declared), "float32", (), "contents=hidden rows,gradient=varying")
    messages = [violation.message for violations in found.values() for violation in violations]
    assert len(messages) == is_wrong
    assert all("expected 0: the column is hidden" in message for message in messages)


class OfRoundedProducts(torch.autograd.Function):
    """Rounds the products to the format before they are added and subtracted, as torch does on a GPU."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        product = (grad * y).double()
        return (product - y.double() * product.sum(dim=-1, keepdim=True)).to(y.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_may_be_rounded_to_the_format(dtype):
    assert made_in(OfRoundedProducts.apply, dtype) == {}


def test_a_backward_needs_its_own_forward():
    found = made_in(OfTwoForwards.apply)
    due = dict.fromkeys(["asked=in turn", "asked=with other calls between"], "wrong_gradient")
    assert {way: violation.kind for way, [violation] in found.items()} == due


def test_the_layout_of_the_output_gradient_matters():
    found = made_in(OfPackedGradients.apply, "bfloat16", ("gradient",))
    assert "gradient=one number for each row" in found
    assert "gradient=varying" not in found


def test_nothing_is_asked_where_no_gradient_is_carried_or_the_forward_is_wrong():
    assert kinds(conclusion("gradients", lambda x: torch.softmax(x.detach(), dim=-1))) == set()
    assert kinds(conclusion("gradients", lambda x: torch.softmax(x * 1.01, dim=-1), labels={"part/1-of-4"})) == set()

    def without_gradients(x):
        if x.requires_grad:
            raise ValueError("call x.detach() first")
        return torch.softmax(x, dim=-1)

    refused = conclusion("gradients", without_gradients)
    assert refused.findings == ()
    (words,) = refused.skipped
    assert words.startswith("gradients: an input that requires one is refused: ValueError: call x.detach() first")


class WithoutBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.softmax(x, dim=-1)


def halved(x):
    """Half of the gradient is cut off."""
    y = torch.softmax(x, dim=-1)
    return (y + y.detach()) / 2


def declared(function, *, backward):
    def softmax(x):
        return function(x)

    return variant(backward=backward)(softmax)


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda x: torch.softmax(x.detach(), dim=-1), "wrong_gradient", "the output carries none, and --backward"),
        (WithoutBackward.apply, "raised", "the backward raises NotImplementedError"),
        (
            lambda x: torch.from_numpy(x.numpy()).softmax(-1),
            "raised",
            "an input that requires one is refused: RuntimeError: Can't call numpy()",
        ),
    ],
)
def test_gradients_that_are_promised_must_be_there(function, kind, words):
    [shown] = conclusion("gradients", declared(function, backward=True)).findings
    assert shown.violation.kind == kind
    assert words in shown.violation.message
    unasked = conclusion("gradients", declared(function, backward=None))
    assert unasked.findings == ()


def lacks_a_block(_ctx, grad):
    return torch.softmax(grad)


def gives_none(_ctx, _grad):
    return None


def keeps(ctx, x):
    y = torch.softmax(x, dim=-1)
    ctx.save_for_backward(y)
    return y


@pytest.mark.parametrize(
    ("backward", "kind", "words"),
    [
        (lacks_a_block, "raised", "the backward raises TypeError: softmax() missing 1 required"),
        (gives_none, "wrong_gradient", "the output carries a gradient, and the backward gives the input none"),
    ],
)
def test_a_backward_that_cannot_run_is_a_finding_though_nothing_is_promised(backward, kind, words):
    found = made_in(by_hand(keeps, backward), "float32", (), "gradient=varying")
    [[violation]] = found.values()
    assert violation.kind == kind
    assert words in violation.message
    assert conclusion("gradients", declared(by_hand(keeps, backward), backward=False)).findings == ()


@torch.library.custom_op("softcheck_gradients::softmax", mutates_args=())
def without_formula(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


class Detached(torch.nn.Module):
    __name__ = "Detached"

    def __init__(self):
        super().__init__()
        self.zero = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return torch.softmax(x.detach(), dim=-1) + self.zero.to(x.dtype)


@pytest.mark.parametrize("function", [WithoutBackward.apply, lambda x: without_formula(x), Detached()])  # noqa: PLW0108
def test_a_function_that_says_that_it_has_no_backward_is_left_alone_with_a_note(function):
    found = conclusion("gradients", declared(function, backward=None), effort="quick", labels={"part/1-of-4"})
    assert found.findings == ()
    assert any(reason.startswith("gradients: ") for reason in found.notes)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
def test_a_backward_that_can_be_called_once_is_not_called_twice():
    def softmax(x):
        exponentials = (x - x.amax(dim=-1, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    function = torch.compile(softmax, fullgraph=True, dynamic=True, backend="aot_eager")
    with pytest.raises(UsageError, match="asked has no value 'twice'"):
        made_in(declared(function, backward=None), "float32", (), "asked=twice")


def test_a_second_backward_that_wide_rows_alone_refuse_is_found():
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x, -1)
            ctx.save_for_backward(y if x.shape[-1] <= 1024 else None)
            ctx.kept = y
            return y.clone()

        @staticmethod
        def backward(ctx, g):
            y = ctx.kept
            ctx.kept = ctx.saved_tensors[0]
            return y * (g - (y * g).sum(-1, keepdim=True))

    found = made_in(Softmax.apply, "float32", (), "asked=twice", "columns=4100", "columns=4100,asked=twice")
    assert [*found] == ["columns=4100,asked=twice"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there to be asked")
def test_a_backward_that_needs_a_gpu_is_no_finding():
    def times_itself(_ctx, grad):
        torch.cuda.Event().record()
        return grad

    with pytest.raises(UninterpretableError, match="can't run without a GPU"):
        made_in(by_hand(keeps, times_itself))


def test_promised_gradients_that_are_right_are_left_alone_and_unpromised_ones_are_not_judged():
    assert made_in(declared(lambda x: torch.softmax(x, dim=-1), backward=True)) == {}
    assert made_in(declared(OfTwoForwards.apply, backward=False)) == {}


class Scaled(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.function = function
        self.__name__ = "Scaled"

    def forward(self, x):
        return self.function(x * self.scale)


@pytest.mark.parametrize("wrap", [Scaled, lambda function: torch.compile(function, backend="eager")])
def test_gradients_of_modules_with_parameters_and_of_compiled_functions_are_judged(wrap):
    assert made_in(wrap(lambda x: torch.softmax(x, dim=-1))) == {}
    assert made_in(wrap(halved), "float32", (), "gradient=varying")


def by_hand(forward, backward):
    """An autograd function of two plain ones."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return forward(ctx, x)

        @staticmethod
        def backward(ctx, grad):
            return backward(ctx, grad)

    return Function.apply


def saved(ctx, x):
    y = torch.softmax(x, dim=-1)
    ctx.save_for_backward(y)
    return y


def of_saved(ctx, grad):
    (y,) = ctx.saved_tensors
    return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def by_whole_chunks(ctx, grad):
    right = of_saved(ctx, grad)
    done = len(right) if len(right) < 256 else len(right) // 256 * 256
    return torch.cat([right[:done], torch.zeros_like(right[done:])])


def into_the_output(ctx, grad):
    (y,) = ctx.saved_tensors
    gradient = of_saved(ctx, grad)
    y.data.copy_(gradient)
    return gradient


def in_the_output(ctx, grad):
    (y,) = ctx.saved_tensors
    return y.mul_(grad - (y * grad).sum(dim=-1, keepdim=True))


def input_alone(ctx, x):
    ctx.x = x.detach()
    return torch.softmax(x, dim=-1)


def of_input(ctx, grad):
    y = torch.softmax(ctx.x, dim=-1)
    return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def of_a_square(ctx, grad):
    right = of_saved(ctx, grad)
    return right.t() if right.shape[0] == right.shape[1] else right


def once(ctx, grad):
    (_y,) = ctx.saved_tensors
    gradient = of_saved(ctx, grad) * getattr(ctx, "turn", 1)
    ctx.turn = 2
    return gradient


def for_leaves(x):
    return by_hand(saved, of_saved)(x) if x.is_leaf else torch.softmax(x.detach(), dim=-1)


def of_detached(ctx, x):
    ctx.y = torch.softmax(x.detach(), dim=-1)
    return ctx.y.clone()


def from_detached(ctx, grad):
    return ctx.y * (grad - (ctx.y * grad).sum(dim=-1, keepdim=True))


_here = threading.local()


def saved_in_its_thread(ctx, x):
    _here.is_known = True
    return saved(ctx, x)


def of_its_thread(ctx, grad):
    return of_saved(ctx, grad) if getattr(_here, "is_known", False) else torch.zeros_like(grad)


def saved_once(ctx, x):
    ctx.is_repeated = len(x) > 1 and x.stride(0) == 0
    y = torch.softmax(x[:1] if ctx.is_repeated else x, dim=-1)
    ctx.save_for_backward(y)
    return y.expand(x.shape).contiguous()


def of_the_first_row(ctx, grad):
    return of_saved(ctx, grad[:1] if ctx.is_repeated else grad).expand(grad.shape)


def test_the_gradient_of_an_expanded_row_may_be_laid_at_any_of_its_rows():
    def repeated(x):
        is_repeated = len(x) > 1 and x.stride(0) == 0
        return torch.softmax(x[:1], dim=-1).repeat(len(x), 1) if is_repeated else torch.softmax(x, dim=-1)

    assert made_in(repeated, "bfloat16", (), "layout=expanded,gradient=varying") == {}


def saved_with_its_strides(ctx, x):
    ctx.save_for_backward(x)
    ctx.strides = x.stride()
    return torch.softmax(x, dim=-1)


def by_the_strides_of_then(ctx, grad):
    (x,) = ctx.saved_tensors
    y = torch.softmax(x.as_strided(x.shape, ctx.strides), dim=-1)
    return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def rounded_where_a_gradient_is_asked(x):
    y = torch.softmax(x, dim=-1)
    hidden = x == -float("inf")
    return torch.where(hidden, 1e-3, y) if x.requires_grad else y


@pytest.mark.parametrize(
    ("function", "kind", "way"),
    [
        (by_hand(saved_once, of_the_first_row), "wrong_gradient", "layout=expanded,gradient=varying"),
        (
            by_hand(saved_with_its_strides, by_the_strides_of_then),
            "wrong_gradient",
            "layout=transposed,asked=with saved tensors packed",
        ),
        (by_hand(saved_in_its_thread, of_its_thread), "wrong_gradient", "asked=in another thread"),
        (rounded_where_a_gradient_is_asked, "masked_not_zero", "contents=hidden columns,gradient=varying"),
        (by_hand(saved, by_whole_chunks), "wrong_gradient", "rows=1027,gradient=varying"),
        (by_hand(saved, into_the_output), "output_reused", "gradient=varying"),
        (by_hand(saved, in_the_output), "output_reused", "gradient=varying"),
        (by_hand(input_alone, of_input), "wrong_gradient", "asked=with the input overwritten"),
        (by_hand(saved, of_a_square), "wrong_gradient", "columns=2,rows=2,gradient=varying"),
        (by_hand(saved, once), "wrong_gradient", "asked=twice"),
        (for_leaves, "wrong_gradient", "asked=of a hidden layer"),
    ],
    ids=[
        "expanded",
        "packed",
        "thread",
        "with a gradient",
        "tall",
        "output",
        "in place",
        "overwritten",
        "square",
        "twice",
        "hidden",
    ],
)
def test_gradients_that_are_wrong_in_some_ways_of_asking(function, kind, way):
    plain = way if way == "gradient=varying" else "gradient=varying"
    found = made_in(function, "float32", (), way, plain)
    assert kind in {str(violation.kind) for violation in found[way]}
    assert (plain in found) == (way == plain)


def test_the_plan_has_every_way_of_asking():
    space = meetings._space_of(subject_of(lambda x: torch.softmax(x, dim=-1)))
    ways = Plan(space.axes, space.excluded, [0]).ways(meetings.BUDGETS["normal"].calls)
    for axis in space.axes:
        assert {way.get(axis.name, axis.plain) for way in ways} == {*axis.values}


def test_a_graph_for_the_output_gradient_alone_breaks_a_promise_only_where_there_is_one():
    again = "asked=of the gradient"
    assert made_in(by_hand(of_detached, from_detached), "float32", (), again) == {}
    promised = variant(backward=True)(lambda x: by_hand(of_detached, from_detached)(x))  # noqa: PLW0108
    [violation] = made_in(promised, "float32", (), again)[again]
    assert "silently missing" in violation.message


def test_a_backward_that_is_marked_once_differentiable_is_not_silent():
    marked = by_hand(of_detached, torch.autograd.function.once_differentiable(from_detached))
    assert made_in(variant(backward=True)(lambda x: marked(x))) == {}  # noqa: PLW0108


def test_a_wrong_second_derivative_is_found():
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * grad - y * (y.detach() * grad).sum(dim=-1, keepdim=True)

    [(way, [violation])] = made_in(by_hand(saved, backward)).items()
    assert way == "asked=of the gradient"
    assert "the gradient of sum w dx" in violation.message


def test_a_second_derivative_of_subnormal_probabilities_is_left_alone():
    @variant(arithmetic=Arithmetic(exp="libdevice", division="div_rn", intermediate="input"))
    def in_sixteen_bits(x):
        exponentials = torch.exp(x - x.amax(dim=-1, keepdim=True))
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    ways = ("rows=1813,asked=of the gradient", "columns=46058,asked=of the gradient")
    assert made_in(in_sixteen_bits, "float16", (), *ways) == {}


class OfNarrowRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, dim=-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(dim=-1, keepdim=True))


def lost_in_wide_rows(x):
    return OfNarrowRows.apply(x) if x.shape[1] <= 2048 else torch.softmax(x.detach(), dim=-1)


def left_to_torch_in_wide_rows(x):
    return torch.softmax(x if x.shape[1] > 2048 else x.detach(), dim=-1)


def test_a_gradient_that_some_widths_lose_is_found():
    wide = "columns=4100,gradient=varying"
    [[violation]] = made_in(lost_in_wide_rows, "float32", (), wide).values()
    assert "the answer carries no gradient" in violation.message
    assert made_in(left_to_torch_in_wide_rows) == {}


class OfFiniteGradients(OfNarrowRows):
    @staticmethod
    def backward(ctx, grad):
        return OfNarrowRows.backward(ctx, grad.nan_to_num(0.0))


class OfUnbalancedGradients(OfNarrowRows):
    @staticmethod
    def backward(ctx, grad):
        return OfNarrowRows.backward(ctx, grad) * (grad.sum(dim=-1, keepdim=True) != 0)


@pytest.mark.parametrize(
    ("function", "words"),
    [(OfFiniteGradients, "with a NaN"), (OfUnbalancedGradients, "cancelling")],
)
def test_gradients_that_hold_nan_or_cancel_are_passed_on(function, words):
    assert [*made_in(function.apply)] == [f"gradient={words}"]


def of_two_answers(lost):
    """A softmax beside its log-sum-exp, whose backward loses the gradient that ``lost`` names if both are there."""

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            lse = torch.logsumexp(x.float(), dim=-1)
            y = (x.float() - lse[:, None]).exp()
            ctx.save_for_backward(y)
            return y.to(x.dtype), lse

        @staticmethod
        def backward(ctx, of_y, of_lse):
            (y,) = ctx.saved_tensors
            found = torch.zeros_like(y)
            if of_y is not None and not (lost == "y" and of_lse is not None):
                found += y * (of_y - (y * of_y).sum(dim=-1, keepdim=True))
            if of_lse is not None and not (lost == "lse" and of_y is not None):
                found += y * of_lse[:, None]
            return found

    def softmax(x):
        return Both.apply(x)

    return variant(call="f(x)[0]", dtypes=("float16", "float32"))(softmax)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("lost", ["y", "lse", ""])
def test_a_gradient_lost_beside_that_of_another_answer_is_found(lost, dtype):
    found = made_in(of_two_answers(lost), dtype)
    assert [*found] == (["asked=of all answers"] if lost else [])
    assert all("output gradients of [0] and [1] at once" in each.message for [each] in found.values())


def test_an_answer_whose_gradient_is_refused_is_left_alone():
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.amax(dim=-1)

        @staticmethod
        def backward(ctx, grad):
            raise NotImplementedError("for monitoring alone")

    def softmax(x):
        return torch.softmax(x, dim=-1), Refusing.apply(x)

    declared = variant(call="f(x)[0]", dtypes=("float32",))(softmax)
    assert made_in(declared, "float32", (), "asked=of all answers") == {}


class OfTheLogits(torch.autograd.Function):
    """Gives the bias the gradient of the logits, with the scale in it."""

    @staticmethod
    def forward(ctx, x, bias):
        y = torch.softmax(x.float() * 4.0 + bias, dim=-1)
        ctx.save_for_backward(y)
        return y.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        dx = y * (grad - (y * grad).sum(dim=-1, keepdim=True)) * 4.0
        return dx.to(grad.dtype), dx.to(grad.dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("function", "due"),
    [
        (lambda x, bias: torch.softmax(x.float() * 4.0 + bias, dim=-1).to(x.dtype), []),
        (lambda x, bias: torch.softmax(x.float() * 4.0 + bias.detach(), dim=-1).to(x.dtype), []),
        (OfTheLogits.apply, ["asked=by the bias"]),
    ],
    ids=["right", "constant", "scaled"],
)
def test_the_gradient_by_a_bias_is_that_by_the_scaled_logits(function, due, dtype):
    def softmax(x, bias):
        return function(x, bias)

    declared = variant(parameters={"scale": 4.0}, call="f(x, bias)", dtypes=(dtype,))(softmax)
    assert [*made_in(declared, dtype)] == due
