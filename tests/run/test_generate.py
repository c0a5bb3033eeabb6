"""The search with generated cases: what it counts, passes on and shrinks, with a session that only pretends to run."""

import shlex
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from oracles.formats import decode
from softcheck.cases.case import check_contents
from softcheck.cases.corpus import decode_case
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import Extreme, unmeasured
from softcheck.report.reproduce import reproduce_command
from softcheck.run.generate import generate
from softcheck.run.session import CaseMeasurement
from softcheck.variants.declaration import Declaration


class Pretending:
    """A session whose variant breaks a promise exactly where ``wrong`` says so of a case."""

    ready = SimpleNamespace(backend="interpreter")

    def __init__(self, wrong):
        self.wrong = wrong
        self.cases = []

    def run_case(self, case, variants):
        self.cases.append(case)
        violations = (Violation(FindingKind.RAISED, "raised"),) if self.wrong(case) else ()
        return [CaseMeasurement(variants[0], case, unmeasured(case.shape, violations), 0.0)]


def search(wrong, *, examples=60, seed=0, **declared):
    session = Pretending(wrong)
    judged = []
    found = generate(
        session,
        "mine",
        "float16",
        examples=examples,
        seed=seed,
        declaration=Declaration(**declared),
        on_result=judged.append,
    )
    return session, found, judged


def test_without_a_failure_every_example_is_judged_and_passed_on():
    session, found, judged = search(lambda _: False)
    assert found.failure is None
    assert (found.variant, found.dtype) == ("mine", "float16")
    assert found.examples == len(judged) == len(session.cases) > 0
    assert [result.case for result in judged] == session.cases
    assert all(case.dtype == "float16" for case in session.cases)


def test_same_seed_gives_the_same_cases_whatever_else_is_imported(full_of_numbers):
    before, *_ = search(lambda _: False, examples=200)
    full_of_numbers()
    after, *_ = search(lambda _: False, examples=200)
    assert [case.digest for case in after.cases] == [case.digest for case in before.cases]


def test_a_failure_ends_the_search_and_the_steps_of_its_shrinking_are_not_passed_on():
    def wrong(case):
        return case.shape[1] >= 5

    session, found, judged = search(wrong)
    assert wrong(found.failure.case)
    assert not any(wrong(result.case) for result in judged)
    assert len(session.cases) > len(judged) + 1
    assert found.examples == len(judged) + 1


def test_a_rare_value_is_found():
    def wrong(case):
        return bool(np.isnan(decode(case.bits(), case.format)).any())

    _, found, _ = search(wrong, examples=200)
    assert found.failure is not None
    assert found.failure.case.shape == (1, 1)


@pytest.mark.parametrize("limit", [7, {"float16": 7, "float32": 900}])
def test_cases_stay_within_the_declaration(limit):
    session, _, _ = search(lambda _: False, max_columns=limit, layouts=("contiguous",))
    assert max(case.shape[1] for case in session.cases) <= 7
    assert all(case.layout.is_contiguous(case.shape[1]) for case in session.cases)


def test_a_seed_gives_the_same_cases_and_another_gives_others():
    digests = [[case.digest for case in search(lambda _: False, seed=seed)[0].cases] for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_a_failure_that_does_not_come_back_is_still_reported():
    seen = []

    def wrong(case):
        seen.append(case)
        return len(seen) == 5

    _, found, _ = search(wrong)
    assert found.failure is not None
    assert found.failure.case == seen[4]


def test_cases_name_what_the_call_takes_and_their_failure_is_saved_by_its_line():
    loss = {"operation": "cross_entropy", "call": "f(x, target)", "parameters": {"ignore_index": -100.0}}
    right, *_ = search(lambda _: False, examples=80, **loss)
    assert any(-100 in case.operands.target for case in right.cases)
    _, found, _ = search(lambda case: max(case.operands.target) >= 9, examples=80, **loss)
    case = found.failure.case
    assert case.operands.target == (9,)
    assert case.shape[0] == 1
    check_contents(case)
    words = shlex.split(reproduce_command("mine", case, "interpreter"))
    assert decode_case(words[words.index("--line") + 1].encode()) == case
    masked, *_ = search(lambda _: False, examples=20, call="f(x, keep)")
    assert {case.operands.names for case in masked.cases} == {("behind",)}
    plain, *_ = search(lambda _: False, examples=20)
    assert {case.operands for case in plain.cases} == {None}


class Erring(Pretending):
    """A session whose variant's error over bound grows as the mean of a case's numbers nears 37.123."""

    def __init__(self):
        super().__init__(lambda _: False)
        self.shares = []

    def run_case(self, case, variants):
        (result,) = super().run_case(case, variants)
        values = np.nan_to_num(decode(case.bits(), case.format), nan=1e6, posinf=1e6, neginf=-1e6)
        distance = abs(values.mean() - 37.123) if values.size else 1e6
        self.shares.append(1 / (1 + distance))
        worst = Extreme(value=self.shares[-1], row=0, column=0, input_bits="", output_bits="")
        measured = msgspec.structs.replace(result.measurement, max_bound_share=worst)
        return [CaseMeasurement(result.variant, case, measured, 0.0)]


def test_later_examples_seek_the_largest_error_over_bound():
    gains = []
    for seed in range(5):
        session = Erring()
        generate(
            session,
            "mine",
            "float16",
            examples=200,
            seed=seed,
            declaration=Declaration(),
            on_result=lambda _: None,
        )
        assert len(session.shares) == 200
        # The first half is drawn freely.
        gains.append(max(session.shares[101:]) / max(session.shares[:101]))
    assert sorted(gains)[1] > 2, "in four of five runs the error at least doubles"
