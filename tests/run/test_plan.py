"""Plans cover every declared case and name what they leave out."""

from types import SimpleNamespace

import numpy as np

from softcheck.cases.case import PACKED, Layout
from softcheck.cases.importing import case_from_bits
from softcheck.judge.measurement import unmeasured
from softcheck.run import check
from softcheck.run.patience import MOST_DEATHS
from softcheck.run.plan import plan
from softcheck.run.protocol import Ready
from softcheck.run.record import Record
from softcheck.run.session import Result
from softcheck.variants.declaration import Declaration


def case(columns, name, layout=PACKED):
    bits = np.zeros((2, columns), dtype=np.uint16)
    return case_from_bits(bits, "float16", provenance="test", name=name, layout=layout)


CASES = [case(4, "narrow"), case(64, "wide"), case(8, "strided", Layout(row_stride=10))]


def names(planned):
    return {c.id.split("/")[1]: takers for c, takers in planned.tasks}


def test_every_variant_takes_every_case_it_declares():
    planned = plan(CASES, {"a": Declaration(), "b": Declaration()}, ["float16"])
    assert names(planned) == {"narrow": ("a", "b"), "wide": ("a", "b"), "strided": ("a", "b")}
    assert planned.notes == ()


def test_what_is_left_out_is_named_and_counted():
    limits = Declaration(max_columns={"float16": 32}, layouts=("contiguous",))
    planned = plan(CASES, {"a": limits}, ["float16"])
    assert names(planned)["wide"] == ()
    assert names(planned)["strided"] == ()
    assert planned.notes == (
        "a, float16: 1 cases not run: wider than the declared 32 columns",
        "a, float16: 1 cases not run: strided layouts are not declared",
    )


def test_undeclared_dtype_takes_nothing():
    planned = plan(CASES, {"a": Declaration(dtypes=("float32",))}, ["float16"])
    assert all(takers == () for _, takers in planned.tasks)


def test_a_few_of_all_widths_come_first_and_then_the_largest():
    columns = [3, 900, 17, 0, 65, 4, 128, 511, 33, 260, 40, 7]
    planned = plan([case(n, f"columns-{n}") for n in columns], {"a": Declaration()}, ["float16"])
    widths = [c.shape[1] for c, _ in planned.tasks]
    assert planned.scouts == MOST_DEATHS
    scouts, rest = widths[:MOST_DEATHS], widths[MOST_DEATHS:]
    assert (min(scouts), 0 in scouts) == (3, False)
    assert max(scouts) >= 260
    assert rest == sorted(rest, reverse=True)
    assert sorted(widths) == sorted(columns)


def test_few_cases_are_all_run_first():
    planned = plan(CASES, {"a": Declaration()}, ["float16"])
    assert (planned.scouts, len(planned.tasks)) == (3, 3)


def test_progress_leaves_out_what_is_not_run_and_what_a_journal_holds():
    options = check.Options(variants=("v",), dtypes=("float16",), cases=tuple(CASES), whole_corpus=False)
    ready = Ready(backend="interpreter", device="CPU", torch="2", triton="3", python="3.11", driver=None)
    run = check.Run(options=options, ready=ready, declarations={"v": Declaration(layouts=("contiguous",))})
    record = Record(None, None)
    for done in CASES[:1]:
        record.results["v", done.id] = Result("v", done, unmeasured(done.shape, ()), 0.1)
    shown = []

    def each(tasks, _keep, progress):
        for number, _ in enumerate([names for _, names in tasks if names], start=1):
            progress(number, 0)
        return []

    check._run_cases(SimpleNamespace(run=each), run, check.Events(progress=lambda *now: shown.append(now)), record)
    assert shown == [(1, 1)]
