"""Plans cover every declared case and name what they leave out."""

import msgspec
import numpy as np
import pytest
from family_cases import cases_of

from softcheck.cases.case import PACKED, Layout
from softcheck.cases.importing import case_from_bits
from softcheck.run.patience import MOST_DEATHS
from softcheck.run.plan import left_out, plan, scouts, timed_together
from softcheck.variants.declaration import Declaration


def case(columns, name, layout=PACKED):
    bits = np.zeros((2, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=name, layout=layout)


CASES = [case(4, "narrow"), case(64, "wide"), case(8, "strided", Layout(row_stride=10))]


def names(planned):
    return {c.id.split("/")[1]: takers for c, takers in planned}


def test_every_variant_takes_every_case_it_declares():
    planned, notes = plan(CASES, {"a": Declaration(), "b": Declaration()}, ["float16"])
    assert names(planned) == {"narrow": ("a", "b"), "wide": ("a", "b"), "strided": ("a", "b")}
    assert notes == []


def test_what_is_left_out_is_named_and_counted():
    limits = Declaration(max_columns={"float16": 32}, layouts=("contiguous",))
    planned, notes = plan(CASES, {"a": limits}, ["float16"])
    assert names(planned)["wide"] == ()
    assert names(planned)["strided"] == ()
    assert notes == [
        "a, float16: 1 cases not run: wider than the declared 32 columns",
        "a, float16: 1 cases not run: strided layouts are not declared",
    ]


def test_undeclared_dtype_takes_nothing():
    planned, _ = plan(CASES, {"a": Declaration(dtypes=("float32",))}, ["float16"])
    assert all(takers == () for _, takers in planned)


def test_the_largest_cases_come_first():
    columns = [3, 900, 17, 0, 65]
    planned, _ = plan([case(n, f"columns-{n}") for n in columns], {"a": Declaration()}, ["float16"])
    assert [c.shape[1] for c, _ in planned] == sorted(columns, reverse=True)


def test_scouts_are_a_few_cases_of_all_widths():
    columns = [3, 900, 17, 0, 65, 4, 128, 511, 33, 260, 40, 7]
    cases = [case(n, f"columns-{n}") for n in columns]
    found = [c.shape[1] for c in scouts(cases, Declaration(), ["float16"])]
    assert len(found) == MOST_DEATHS
    assert (found[0], 0 in found, found == sorted(found)) == (3, False, True)
    assert found[-1] >= 260


def test_scouts_are_only_what_a_declaration_covers_in_each_dtype():
    limits = Declaration(max_columns={"float16": 32}, layouts=("contiguous",))
    assert [c.id for c in scouts(CASES, limits, ["float16", "float32"])] == [CASES[0].id]
    assert scouts(CASES, Declaration(dtypes=("float32",)), ["float16", "float32"]) == []


MASKED = cases_of("hidden", "float16")[0]
SCALED = cases_of("scales", "float16")[0]
IGNORING = cases_of("ignored-rows", "float16")[0]
LOSS = {"operation": "cross_entropy", "call": "f(x, target)"}


@pytest.mark.parametrize(
    ("found", "declaration", "why"),
    [
        (MASKED, Declaration(call="f(x, mask)"), None),
        (MASKED, Declaration(call="f(x, attn_mask=bias)"), None),
        (MASKED, Declaration(), "the case names 'behind', and the call takes none of bias, keep, mask"),
        (
            MASKED,
            Declaration(operation="log_softmax", call="f(x, mask)"),
            "their family is not for log_softmax",
        ),
        (SCALED, Declaration(call="f(x, scale)"), None),
        (SCALED, Declaration(call="f(x, t=temperature)"), None),
        (SCALED, Declaration(parameters={"scale": 1000.0}), None),
        (SCALED, Declaration(), "the case is of scale=1000, and neither the declaration nor the call says so"),
        (IGNORING, Declaration(**LOSS, parameters={"ignore_index": -100}), None),
        (
            IGNORING,
            Declaration(**LOSS),
            "the case is of ignore_index=-100, and neither the declaration nor the call says so",
        ),
    ],
)
def test_a_case_that_names_operands_is_for_calls_that_take_them(found, declaration, why):
    assert left_out(found, declaration) == why


def test_no_note_tells_of_cases_of_another_operation():
    planned, notes = plan([MASKED, SCALED, IGNORING], {"a": Declaration()}, ["float16"])
    assert notes == []
    assert not any(takers for _, takers in planned)
    _, notes = plan([msgspec.structs.replace(MASKED, id="saved/mine/float16")], {"a": Declaration()}, ["float16"])
    assert notes == [f"a, float16: 1 cases not run: {left_out(MASKED, Declaration())}"]


def test_variants_are_timed_beside_those_of_the_same_operands():
    declarations = {
        "a": Declaration(call="f(x, mask)"),
        "b": Declaration(),
        "c": Declaration(call="f(mask, x)"),
        "d": Declaration(call="f(x, bias)"),
        "e": Declaration(**LOSS),
        "f": Declaration(parameters={"scale": 0.5}),
    }
    assert timed_together(list("abcdef"), declarations) == [("a", "c"), ("b",), ("d",), ("e",), ("f",)]
