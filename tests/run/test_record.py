"""What a journal says of the variants' calls, and the run that goes on with it."""

import pytest
from msgspec.structs import replace

from softcheck.cases.corpus import default_corpora, load, select
from softcheck.cases.exhaustive import domain
from softcheck.errors import UsageError
from softcheck.run.check import check
from softcheck.run.exhaust import Parts
from softcheck.run.journal import RunHeader
from softcheck.run.model import RunOptions
from softcheck.run.protocol import Ready
from softcheck.run.record import Keeping, Kept, Record
from softcheck.variants.recognised import Recognised

READY = Ready("interpreter", "CPU", "2", "3", "3", None)
HEADER = RunHeader(softcheck="0", ready=READY, asked={}, sources={}, settings={})
OVER_ROWS = Recognised(operation="softmax", call="f(x.mT).mT")


def test_a_journal_says_one_call_of_a_variant(tmp_path):
    path = tmp_path / "journal"
    begun = Record(Keeping(path=path), HEADER)
    begun.add(Kept(fact=("v", OVER_ROWS)))
    begun.add(Kept(fact=("v", OVER_ROWS)))
    begun.close(is_complete=False)
    again = Record(Keeping(path=path, resume=True), HEADER)
    assert again.facts == {"v": OVER_ROWS}
    again.add(Kept(fact=("v", Recognised(operation="softmax", call="f(x)"))))
    again.close(is_complete=False)
    with pytest.raises(
        UsageError, match=r"called as f\(x.mT\).mT: softmax over dimension 0, and that it is called as f\(x\)"
    ):
        Record(Keeping(path=path, resume=True), HEADER)


def test_exhaust_goes_on_with_one_call_alone(tmp_path):
    def opened(fact, *, resume=True):
        Parts(tmp_path / "journal", replace(HEADER, fact=fact), domain("float16", 1), 1024, resume=resume).close()

    opened(OVER_ROWS, resume=False)
    opened(OVER_ROWS)
    with pytest.raises(UsageError, match="it was begun with the call "):
        opened(replace(OVER_ROWS, call="f(x)"))


def test_a_run_that_goes_on_makes_no_trial(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(
        "import pathlib, torch\n"
        "def f(x):\n"
        "    with open(pathlib.Path(__file__).with_name('calls'), 'a') as calls:\n        calls.write(f'{len(x)}x{x.shape[1]} ')\n"
        "    return torch.softmax(x, 0)\n"
    )
    cases = select(load(default_corpora()), dtypes=("float16",), globs=["ties/halves-9/*"])
    spec = f"{tmp_path}/k.py:f"
    options = RunOptions(
        variants=(spec,), dtypes=("float16",), cases=tuple(cases), whole_corpus=False, device="interpreter", jobs=1
    )
    keeping = Keeping(path=tmp_path / "journal")
    with monkeypatch.context() as patched:
        patched.setattr(Record, "close", lambda self, *, is_complete: self._journal.close())
        first = check(options, keeping=keeping)
    calls = tmp_path / "calls"
    assert "24x16" in calls.read_text().split()
    calls.unlink()
    second = check(options, keeping=replace_resume(keeping))
    assert "24x16" not in calls.read_text().split()
    assert first.facts == second.facts == {spec: Recognised(operation="softmax", call="f(x.mT).mT", dtype="float16")}


def replace_resume(keeping):
    return Keeping(path=keeping.path, resume=True)
