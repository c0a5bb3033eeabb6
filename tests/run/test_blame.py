"""A crash is laid at the call that caused it, with a command that shows it, and at no innocent variant."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from test_session import case_of, hostile

from softcheck.cases.case import Layout
from softcheck.contract import FindingKind
from softcheck.run import blame, process
from softcheck.run.probing import run_probe
from softcheck.run.process import can_check_heap
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session

FAULTS = Path(__file__).parents[1] / "kernels" / "heap_faults.py"
VALUES = np.random.default_rng(0).normal(0, 2, (5, 40))
STRIDED = [
    case_of(VALUES[:, :columns], f"strided-{columns}", Layout(row_stride=77, offset=1)) for columns in (4, 7, 20)
]
TWO, THREE, FOUR, FIVE, THIRTY = (case_of(VALUES[:, :columns], f"packed-{columns}") for columns in (2, 3, 4, 5, 30))


def faulty(name):
    return f"{FAULTS}:{name}"


def run(cases, variants, *, seconds=60.0):
    """Results by variant and case id, and the session's blames and notes, of one worker after the other."""
    session = Session("interpreter", jobs=1, seconds_per_call=seconds)
    try:
        for name in variants:
            assert not isinstance(session.load(name, ("float16",)), str)
        found = {(r.variant, r.case.id): r for case in cases for r in session.run_case(case, variants)}
        return found, session.blames.all(), session.blames.notes
    finally:
        session.close()


@pytest.fixture
def own_heap(monkeypatch):
    """A first worker that is started from nothing: a forked heap holds other blocks. A search that does not hurry."""
    number, fork_worker = itertools.count(), process.fork_worker
    monkeypatch.setattr(process, "fork_worker", lambda *given: fork_worker(*given) if next(number) else None)
    monkeypatch.setattr(blame, "SECONDS", 600.0)


def kinds(results):
    return {violation.kind for result in results for violation in result.measurement.violations}


@pytest.mark.skipif(not can_check_heap(), reason="glibc's heap checks are not there")
@pytest.mark.usefixtures("own_heap")
def test_write_beyond_memory_is_laid_at_the_call_that_wrote_and_not_where_the_process_ended():
    name = faulty("writes_beyond_a_tensor_of_strided_input")
    found, (blame,), notes = run([TWO, *STRIDED, FIVE, THIRTY, FOUR], [name])
    assert len(found) == 7
    assert (kinds(found.values()), notes) == (set(), [])
    assert (blame.variant, blame.dtype, blame.case) == (name, "float16", STRIDED[0].id)
    assert (blame.violation.kind, blame.is_reproduced) == (FindingKind.CRASH, True)
    assert (
        f"memory was corrupted by an earlier call, {STRIDED[0].id}, likely an out-of-bounds write"
        in blame.violation.message
    )
    assert (blame.command.cases, blame.command.check_heap) == ((STRIDED[0],), True)


@pytest.mark.usefixtures("without_heap_checks")
def test_call_after_which_another_crashes_is_named_with_it():
    name = faulty("breaks_the_next_wide_call")
    found, (blame,), _ = run([TWO, THREE, FIVE, FOUR], [name])
    assert kinds(found.values()) == set()
    assert (blame.case, blame.command.cases) == (THREE.id, (THREE, FOUR))
    assert f"after it {FOUR.id} crashes in the same process" in blame.violation.message


@pytest.mark.usefixtures("without_heap_checks")
@pytest.mark.parametrize(
    ("name", "due"),
    [("crashes_once", set()), ("crashes_once_and_begins_with_a_change", {FindingKind.STATE_CHANGED})],
)
def test_crash_that_nothing_shows_again_is_a_note(name, due, tmp_path, monkeypatch):
    monkeypatch.setenv("CRASHES_ONCE", str(tmp_path / "crashed"))
    found, blames, (note,) = run([TWO, THREE, FOUR, FIVE], [faulty(name)])
    assert (len(found), kinds(found.values()), blames) == (4, due, [])
    assert f"{FOUR.id}: seen once, not again alone: the worker process ended" in note


def test_call_that_crashes_alone_too_is_its_own_fault():
    found, blames, _ = run([TWO, THREE, FOUR], [hostile("aborts")])
    assert {case_id for (_, case_id), r in found.items() if r.measurement.violations} == {THREE.id}
    assert kinds(found.values()) == {FindingKind.CRASH}
    assert blames == []


@pytest.mark.usefixtures("without_heap_checks")
def test_victim_is_not_blamed_and_the_culprit_that_ran_before_it_is():
    culprit, victim = faulty("poisons_whoever_comes_next"), faulty("yields")
    found, (blame,), notes = run([TWO, THREE, FOUR], [culprit, victim, hostile("healthy")])
    assert len(found) == 9
    assert (kinds(found.values()), notes) == (set(), [])
    assert (blame.variant, blame.case) == (culprit, THREE.id)
    assert blame.command.variants == (culprit, victim)


@pytest.mark.usefixtures("without_heap_checks")
def test_call_that_crashes_after_any_other_variant_is_its_own_fault():
    name = faulty("crashes_after_any_other")
    found, (blame,), notes = run([TWO, THREE, FOUR], ["eager", name])
    assert (len(found), kinds(found.values()), notes) == (6, set(), [])
    assert (blame.variant, blame.case) == (name, THREE.id)
    assert blame.command.variants == ("torch", name)
    assert "after the same calls of torch it crashes too" in blame.violation.message


def test_declared_crash_is_not_searched_for(monkeypatch):
    monkeypatch.setattr("softcheck.run.blame._Search.culprit", lambda _: pytest.fail("searched"))
    name = faulty("declares_its_crashes")
    found, (blame,), notes = run([TWO, THREE, FOUR], ["eager", name])
    assert (len(found), kinds(found.values()), notes) == (6, set(), [])
    assert (blame.variant, blame.case, blame.is_reproduced) == (name, THREE.id, False)


@pytest.mark.usefixtures("without_heap_checks")
def test_crash_between_several_variants_that_nothing_shows_again_is_a_note(tmp_path, monkeypatch):
    monkeypatch.setenv("CRASHES_ONCE", str(tmp_path / "crashed"))
    found, blames, (note,) = run([TWO, FOUR], [hostile("healthy"), faulty("crashes_once")])
    assert (len(found), kinds(found.values()), blames) == (4, set(), [])
    assert "alone in a new process it passes" in note
    assert hostile("healthy") in note


def test_exception_that_shows_only_beside_another_variant_is_a_note():
    culprit, victim = faulty("leaves_a_mark"), faulty("raises_where_marked")
    found, blames, notes = run([TWO, THREE], [culprit, victim])
    assert (len(found), kinds(found.values()), blames) == (4, set(), [])
    assert all(culprit in note and "found a mark" in note for note in notes)
    assert notes


def test_exception_that_shows_alone_too_is_a_finding():
    found, _, notes = run([TWO, THREE], [faulty("leaves_a_mark"), faulty("raises_on_three_columns")])
    assert {case_id for (_, case_id), r in found.items() if r.measurement.violations} == {THREE.id}
    assert (kinds(found.values()), notes) == ({FindingKind.RAISED}, [])


def test_hang_on_what_an_earlier_call_locked_is_no_fault_of_the_call_that_waits():
    found, (blame,), _ = run([TWO, THREE, FOUR], [faulty("leaves_a_lock_held")], seconds=1.0)
    assert kinds(found.values()) == set()
    assert blame.violation.kind is FindingKind.TIMEOUT


@pytest.mark.skipif(not can_check_heap(), reason="glibc's heap checks are not there")
@pytest.mark.usefixtures("own_heap")
def test_trial_that_corrupts_memory_is_named():
    name = faulty("writes_beyond_a_tensor_of_strided_input")
    session = Session("interpreter", jobs=1, seconds_per_call=60.0)
    try:
        result = run_probe(session, ProbeTask(variant=name, dtype="float16", probe="layouts", effort="quick"))
        assert result.conclusion.findings == ()
        assert kinds(session.run_case(THIRTY, [name])) == set()
        (blame,) = session.blames.all()
    finally:
        session.close()
    assert blame.case.startswith("probe/layouts/"), blame.violation.message
    assert (blame.command.probes, blame.command.check_heap) == (("layouts",), True)
