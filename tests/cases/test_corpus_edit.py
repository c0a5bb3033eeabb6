"""Adding to a corpus: nothing is lost, nothing is saved twice."""

import multiprocessing
import os
import signal

import msgspec
import pytest
from case_helpers import case_of

from softcheck.cases import corpus_edit
from softcheck.cases.corpus import encode_case, load, verify
from softcheck.cases.corpus_edit import add
from softcheck.errors import UsageError

ONE, TWO = case_of([[1.0]], name="one"), case_of([[2.0, 3.0]], name="two")


def test_add_makes_the_file_and_appends(tmp_path):
    file = tmp_path / "new" / "a.jsonl"
    assert add(ONE, file) == file
    add(TWO, file)
    assert load([file]) == [ONE, TWO]
    assert [entry.name for entry in file.parent.iterdir()] == ["a.jsonl"]
    assert file.stat().st_mode & 0o600 == 0o600


def test_add_keeps_old_bytes_and_mode(tmp_path):
    file = tmp_path / "a.jsonl"
    old = b" " + encode_case(ONE).rstrip()
    file.write_bytes(old)
    file.chmod(0o640)
    add(TWO, file)
    assert file.read_bytes() == old + b"\n" + encode_case(TWO)
    assert file.stat().st_mode & 0o777 == 0o640


def test_add_through_a_link_keeps_the_link(tmp_path):
    add(ONE, tmp_path / "real" / "a.jsonl")
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "real" / "a.jsonl")
    add(TWO, link)
    assert link.is_symlink()
    assert load([tmp_path / "real"]) == [ONE, TWO]


@pytest.mark.parametrize("target", ["a.jsonl", "b.jsonl"])
def test_add_refuses_a_saved_input_and_names_it(tmp_path, target):
    add(ONE, tmp_path / "a.jsonl")
    same = case_of([[1.0]], name="other")
    with pytest.raises(UsageError, match=r"saved already, as 'test/one/float16' at .*a\.jsonl:1"):
        add(same, tmp_path / target)
    with pytest.raises(UsageError, match=r"id 'test/one/float16' is in use at .*a\.jsonl:1"):
        add(case_of([[9.0]], name="one"), tmp_path / target)
    with pytest.raises(UsageError, match="saved already"):
        add(same, tmp_path / "elsewhere" / "c.jsonl", beside=[tmp_path / "a.jsonl"])
    assert load([tmp_path]) == [ONE]


def test_add_refuses_a_case_that_contradicts_itself(tmp_path):
    with pytest.raises(UsageError, match="digest"):
        add(msgspec.structs.replace(ONE, digest="0" * 16), tmp_path / "a.jsonl")
    with pytest.raises(UsageError, match=r"expected a name that ends in \.jsonl"):
        add(ONE, tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_add_leaves_a_damaged_file_as_it_is(tmp_path):
    file = tmp_path / "a.jsonl"
    damaged = encode_case(ONE) + b'{"id":"test/cut\n'
    file.write_bytes(damaged)
    with pytest.raises(UsageError, match=r"a\.jsonl:2: .*Nothing was changed; fix this line first"):
        add(TWO, file)
    assert file.read_bytes() == damaged


def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "a.jsonl"
    add(ONE, file)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(corpus_edit.os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device; nothing was changed"):
        add(TWO, file)
    assert load([file]) == [ONE]


def _add_many(folder, worker, count):
    for i in range(count):
        add(case_of([[float(worker), float(i)]], name=f"{worker}-{i}"), folder / "a.jsonl")


def _die_before_the_rename(file):
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    corpus_edit.Path.replace = die
    add(TWO, file)


def _run(target, *arguments):
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments)
    process.start()
    return process


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_two_writers_at_once_lose_nothing(tmp_path):
    workers = [_run(_add_many, tmp_path, worker, 12) for worker in range(3)]
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(load([tmp_path])) == 36
    assert verify([tmp_path]) == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_killed_writer_leaves_the_old_file_whole_and_the_lock_free(tmp_path):
    file = tmp_path / "a.jsonl"
    add(ONE, file)
    victim = _run(_die_before_the_rename, file)
    victim.join(60)
    assert victim.exitcode == -signal.SIGKILL
    assert load([tmp_path]) == [ONE]
    add(TWO, file)
    assert load([tmp_path]) == [ONE, TWO]
