"""The search for the worst row finds what is wrong in a narrow region alone, and beats random sampling."""

from pathlib import Path

import numpy as np
import pytest

from oracles.formats import FORMATS
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.run.protocol import SearchOptions
from softcheck.run.search import KEPT, search, seeds
from softcheck.run.session import Session
from softcheck.search.objective import badness
from softcheck.variants.declaration import Declaration

KERNELS = Path(__file__).parents[1] / "kernels"


def narrow(name):
    return f"{KERNELS / 'narrow.py'}:{name}"


@pytest.fixture(scope="module")
def session():
    opened = Session("interpreter", jobs=1, seconds_per_call=60.0)
    yield opened
    opened.close()


def found(session, variant, *, rounds=60, columns=8, dtype="float32", **options):
    declaration = session.load(variant)
    assert not isinstance(declaration, str), declaration
    wanted = SearchOptions(variant=variant, dtype=dtype, columns=columns, rounds=rounds, **options)
    return search(session, wanted, declaration, lambda _: None)


def test_error_in_a_narrow_region_is_found_where_random_rows_miss_it(session):
    outcome = found(session, narrow("narrow"), rounds=250)
    assert outcome.found.figure("bound") > 5
    assert outcome.random.figure("bound") < 1
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in outcome.found.alone.violations}
    # What is printed is the judge's word on the row that is handed out.
    assert outcome.found.alone.max_bound_share == outcome.found.in_launch.max_bound_share
    assert outcome.smaller is not None
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in outcome.smaller.alone.violations}
    assert outcome.smaller.figure("bound") >= KEPT * outcome.found.figure("bound")


LOSSES = """
import torch
from softcheck.variants.declaration import variant


@variant(operation="cross_entropy", dtypes=("float16", "float32"))
def right(x, target):
    return torch.nn.functional.cross_entropy(x.float(), target, reduction="none")


@variant(operation="cross_entropy", dtypes=("float16", "float32"))
def wrong_beyond_30(x, target):
    loss = torch.nn.functional.cross_entropy(x.float(), target, reduction="none")
    return torch.where(x.abs().amax(dim=1) > 30, loss * 1.01, loss).to(x.dtype)
"""


def test_one_answer_for_each_row_is_searched_too(session, tmp_path):
    file = tmp_path / "losses.py"
    file.write_text(LOSSES)
    wrong = found(session, f"{file}:wrong_beyond_30", rounds=40)
    assert wrong.found.figure("bound") > 5
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in wrong.found.alone.violations}
    # float16 logits with losses of float32.
    right = found(session, f"{file}:right", rounds=20, dtype="float16")
    assert 0 < right.found.figure("bound") < 1
    assert right.found.violations == right.random.violations == right.violations == ()


def test_same_seed_gives_the_same_rows_whatever_else_is_imported(full_of_numbers):
    before = seeds(FORMATS["float32"], 8, 0, 1 << 16)
    full_of_numbers()
    assert np.array_equal(seeds(FORMATS["float32"], 8, 0, 1 << 16), before)


def test_right_function_is_left_alone(session):
    outcome = found(session, narrow("right"), rounds=250)
    assert 0 < outcome.found.figure("bound") < 0.2
    assert outcome.found.violations == outcome.random.violations == outcome.violations == ()


@pytest.mark.parametrize(("variant", "columns", "objective"), [("torch", 65, "bound"), ("eager", 128, "ulp")])
def test_search_beats_random_sampling_of_as_many_elements(session, variant, columns, objective):
    outcome = found(session, variant, columns=columns, rounds=150, objective=objective, shrinks=False)
    assert outcome.elements == 150 * outcome.rows_per_launch * columns
    assert outcome.found.figure(objective) > 1.02 * outcome.random.figure(objective)
    if objective == "bound":
        assert outcome.found.figure(objective) <= 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_formats_are_searched(session, dtype):
    outcome = found(session, "torch", dtype=dtype, columns=32, rounds=30)
    assert 0.95 < outcome.found.figure("bound") <= 1


def test_rounds_and_seed_decide_the_result(session):
    first, again, other = (found(session, "torch", rounds=25, seed=seed) for seed in (3, 3, 4))
    assert first.found == again.found
    assert first.random == again.random
    assert first.smaller == again.smaller
    assert other.random != first.random


def test_seconds_end_the_search_after_at_least_a_round(session):
    declaration = session.load("torch")
    shown = []
    outcome = search(
        session, SearchOptions(variant="torch", dtype="float32", columns=4, seconds=0.0), declaration, shown.append
    )
    assert outcome.rounds == 1
    assert [s.rounds for s in shown] == [1]


def test_what_is_wrong_only_among_other_rows_is_kept_apart(session):
    outcome = found(session, narrow("by_batch"), rounds=5)
    assert FindingKind.ULP_EXCEEDS_BOUND in {v.kind for v in outcome.found.in_launch.violations}
    assert outcome.found.alone.violations == ()
    assert badness(outcome.found.worse, "bound") == outcome.found.figure("bound") > 1


def test_output_that_is_no_number_is_found(session):
    outcome = found(session, narrow("nan_at_large"), rounds=20)
    assert outcome.found.figure("bound") == np.inf
    assert FindingKind.NAN_MISMATCH in {v.kind for v in outcome.found.alone.violations}
    assert FindingKind.NAN_MISMATCH in {v.kind for v in outcome.smaller.alone.violations}
    assert outcome.smaller.case.shape[1] <= 2


def test_variant_that_ends_its_process_gives_a_violation(session):
    outcome = found(session, narrow("dies_later"), rounds=20)
    assert [v.kind for v in outcome.violations] == [FindingKind.CRASH]
    assert outcome.found is None
    # The session goes on with another worker.
    assert found(session, "torch", rounds=2).found is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "float64"}, "float64"),
        ({"columns": 9}, "at most 8 columns"),
        ({"dtype": "bfloat16"}, "declares float16, float32"),
        ({"rounds": None}, "--seconds"),
    ],
)
def test_what_can_not_be_searched_is_refused(session, options, said):
    declaration = Declaration(dtypes=("float16", "float32"), max_columns=8)
    wanted = {"variant": "x", "dtype": "float32", "columns": 8, "rounds": 1, **options}
    with pytest.raises(UsageError, match=said):
        search(session, SearchOptions(**wanted), declaration, lambda _: None)


@pytest.mark.parametrize("columns", [1, 1025])
def test_seeds_come_from_every_family_and_fit_the_row(columns):
    fmt = FORMATS["float16"]
    rows = seeds(fmt, columns, 0, 1 << 22)
    assert rows.shape[1] == columns
    assert rows.dtype == fmt.storage
    assert len(rows) > 20
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert len(seeds(fmt, columns, 0, 5 * columns)) == 5


def test_candidates_are_the_judges_not_the_ratings(session):
    """The figure of the launch is the judge's measurement of that row alone."""
    outcome = found(session, "torch", rounds=5, shrinks=False)
    case = outcome.found.case
    (result,) = session.run_case(case, ["torch"])
    assert result.measurement.max_bound_share.value == outcome.found.figure("bound")
