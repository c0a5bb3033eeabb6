"""The example of each explained word shows what it explains, as its page says: on these cases, or by this probe."""

import contextlib
import itertools
import re
import shlex

import pytest

from softcheck.cases.corpus import builtin_names, load, select
from softcheck.contract import FindingKind
from softcheck.explain import files, pages
from softcheck.run.probing import run_probe
from softcheck.run.protocol import ProbeTask
from softcheck.run.session import Session
from softcheck.run.size_limits import size_limits

EXAMPLES = {name: page for name, page in pages().items() if page.example}
LONG = {
    "layouts",
    "meetings",
    "regimes",
    "volume",
    "histories",
    "sizes",
    "head_shapes",
    "keys",
    "shared_masks",
    "options",
    "gradients",
}
"""Probes of which a few trials are enough here."""

DAMAGING = {"out_of_bounds_write", "guard_bands"}
"""Words whose examples write to memory that is not theirs."""

FEW = 12
"""Cases of a family on which an example must show what it shows."""


def opened():
    return contextlib.closing(Session("auto", jobs=1, seconds_per_call=2))


@pytest.fixture(scope="module")
def session():
    with opened() as shared:
        yield shared


@pytest.fixture
def own_or_shared(session, name):
    """A session of its own for an example after which a crash of a later one would be traced back through all calls."""
    with opened() if name in DAMAGING else contextlib.nullcontext(session) as chosen:
        yield chosen


def shown(session, spec, options):
    """Kinds of findings under options of softcheck report."""
    words = shlex.split(options)
    chosen = {option: [v for o, v in itertools.pairwise(words) if o == option] for option in words[::2]}
    if "--probe" in chosen:
        (probe,) = chosen["--probe"]
        result = run_probe(
            session,
            ProbeTask(variant=spec, dtype="float16", probe=probe, effort="quick" if probe in LONG else "normal"),
        )
        return {str(found.violation.kind) for found in result.conclusion.findings}
    cases = select(
        load(builtin_names()), dtypes=("float16",), globs=chosen.get("--case", ()), families=chosen.get("--family", ())
    )
    results = [result for case in cases[:: max(1, len(cases) // FEW)] for result in session.run_case(case, [spec])]
    kinds = {str(violation.kind) for result in results for violation in result.measurement.violations}
    return kinds | {str(limit.kind) for limit in size_limits(results, [])}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_page_shows_what_the_page_explains(own_or_shared, tmp_path, name):
    page, session = EXAMPLES[name], own_or_shared
    if "--device cuda" in page.shown_by and session.ready.backend != "cuda":
        pytest.skip("shows on a GPU alone")
    file = tmp_path / "example.py"
    file.write_text(page.program)
    spec = f"{file}:{page.function}"
    assert not isinstance(session.load(spec, ("float16",)), str)
    kinds = shown(session, spec, page.shown_by)
    assert name in kinds if name in set(FindingKind) else kinds


def test_the_index_links_to_the_page_of_each_word():
    written = files()
    linked = re.findall(r"\]\((.+?)\)", written.pop("README.md"))
    assert sorted(linked) == sorted(written)
    assert len(written) == len(pages())


def test_a_word_of_two_meanings_keeps_both():
    assert "paths that calls take" in pages()["regimes"].meaning
    assert "the probe regimes" in pages()["regimes"].meaning
