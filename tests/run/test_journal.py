"""Journals: what was written is read again, what a kill cut off is dropped, anything else is refused."""

import math
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcheck.errors import UsageError
from softcheck.run.journal import _MAGIC, Journal, read_header


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class Line(msgspec.Struct, frozen=True):
    value: float


def opened(path, *, resume=False, name="a"):
    def refusal(found, now):
        return None if found == now else f"it is {found.name}'s"

    return Journal(path, Head(name), Line, resume=resume, refusal=refusal)


def written(path, values):
    journal = opened(path)
    for value in values:
        journal.add(Line(value))
    journal.close()
    return path.read_bytes()


def read(path):
    journal = opened(path, resume=True)
    journal.close()
    return [line.value for line in journal.entries]


def test_entries_are_read_again_infinities_and_nan_among_them(tmp_path):
    written(tmp_path / "j", [1.5, math.inf, math.nan])
    first, second, third = read(tmp_path / "j")
    assert (first, second, math.isnan(third)) == (1.5, math.inf, True)
    assert read_header(tmp_path / "j", Head) == Head("a")


def test_it_is_gone_on_with_where_it_stopped(tmp_path):
    written(tmp_path / "j", [1.0])
    journal = opened(tmp_path / "j", resume=True)
    journal.add(Line(2.0))
    journal.close()
    assert read(tmp_path / "j") == [1.0, 2.0]


def test_entry_is_on_its_way_to_the_disk_when_add_returns(tmp_path):
    journal = opened(tmp_path / "j")
    journal.add(Line(3.0))
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "j").read_bytes())
    assert read(copy) == [3.0]
    journal.close()


@pytest.mark.parametrize("back", range(1, 25))
def test_a_record_cut_off_anywhere_is_dropped_and_the_ones_before_are_kept(tmp_path, back):
    content = written(tmp_path / "j", [1.0, 2.0, 3.0])
    (tmp_path / "j").write_bytes(content[:-back])
    found = read(tmp_path / "j")
    assert found == [1.0, 2.0, 3.0][: len(found)]
    assert 1 <= len(found) <= 2
    assert read(tmp_path / "j") == found, "what was cut off is gone for good"


def test_threads_may_share_it(tmp_path):
    journal = opened(tmp_path / "j")

    def add(start):
        for i in range(200):
            journal.add(Line(float(start + i)))

    threads = [threading.Thread(target=add, args=(1000 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    assert sorted(read(tmp_path / "j")) == sorted(float(1000 * t + i) for t in range(4) for i in range(200))


def test_existing_file_is_not_overwritten(tmp_path):
    written(tmp_path / "j", [1.0])
    with pytest.raises(UsageError, match="go on with --resume"):
        opened(tmp_path / "j")
    assert read(tmp_path / "j") == [1.0]


def test_journal_of_another_run_is_refused_with_the_reason_and_left_alone(tmp_path):
    content = written(tmp_path / "j", [1.0])
    with pytest.raises(UsageError, match="it is a's"):
        opened(tmp_path / "j", resume=True, name="b")
    assert (tmp_path / "j").read_bytes() == content


def test_damage_in_the_middle_is_refused(tmp_path):
    content = bytearray(written(tmp_path / "j", [1.0, 2.0, 3.0]))
    content[len(_MAGIC) + 30] ^= 0xFF
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(UsageError, match=r"damaged|no journal"):
        read(tmp_path / "j")


def test_missing_file_and_unwritable_place_are_usage_errors(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        read_header(tmp_path / "none", Head)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        opened(tmp_path / "file" / "j")


@given(cut=st.integers(0, 80), noise=st.binary(max_size=40))
def test_any_damage_gives_entries_or_a_usage_error(tmp_path_factory, cut, noise):
    path = tmp_path_factory.mktemp("journal") / "j"
    content = written(path, [1.0, 2.0, 3.0])
    path.write_bytes(content[:cut] + noise + content[cut + len(noise) :])
    try:
        read(path)
    except UsageError:
        return
