"""Reading and verifying corpora: every damage is named with file and line, and loses nothing else."""

import json

import msgspec
import pytest
from case_helpers import case_of, large_case

from softcheck.cases import corpus as corpora
from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, builtin_root, decode_case, default_corpora, encode_case, load, verify
from softcheck.cases.families import OF_OPERATIONS
from softcheck.cases.recipe import Normal, Recipe
from softcheck.errors import UsageError

ONE, TWO = case_of([[1.0]], name="one"), case_of([[2.0, 3.0]], name="two")


def written(path, *cases):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(case if isinstance(case, bytes) else encode_case(case) for case in cases))
    return path


def test_cases_survive_a_file(tmp_path):
    large = large_case()
    file = written(tmp_path / "a.jsonl", ONE, b"\n", TWO, large)
    assert load([file]) == [ONE, TWO, large]
    assert load([str(file), tmp_path]) == [ONE, TWO, large]
    assert verify([tmp_path]) == []


def test_a_folder_is_read_in_order_and_in_depth(tmp_path):
    written(tmp_path / "b.jsonl", ONE)
    written(tmp_path / "a" / "c.jsonl", TWO)
    written(tmp_path / "notes.txt", b"not a corpus")
    assert load([tmp_path]) == [TWO, ONE]


def test_a_default_layout_is_left_out_of_the_text():
    assert b"layout" not in encode_case(ONE)
    assert decode_case(encode_case(ONE)) == ONE


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (encode_case(ONE)[:40] + b"\n", "not JSON: Input data was truncated"),
        (b"[]\n", "not a case: Expected `object`, got `array`"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not"),
        (encode_case(ONE).replace(b'"dtype"', b'"dtypo"'), "unknown field `dtypo`"),
        (encode_case(ONE).replace(b"[1,1]", b"[1,1.5]"), "Expected `int`, got `float`.*shape"),
        (encode_case(ONE).replace(b"[1,1]", b'[1,"1"]'), "Expected `int`, got `str`.*shape"),
        (encode_case(ONE).replace(b'"float16"', b'"float61"'), "unknown dtype 'float61'"),
        (encode_case(ONE)[:-2] + b"}}\n", "not JSON"),
    ],
)
def test_a_malformed_line_is_named_and_the_rest_is_kept(tmp_path, line, said):
    file = written(tmp_path / "a.jsonl", ONE, line, TWO)
    with pytest.raises(UsageError, match=rf"a\.jsonl:2: .*{said}"):
        load([file])
    assert [p.startswith(f"{file}:2: ") for p in verify([file])] == [True]
    assert [line.case for line in corpora.read_lines(file)] == [ONE, None, TWO]


def test_a_truncated_last_line_is_an_error_not_an_end(tmp_path):
    file = written(tmp_path / "a.jsonl", ONE, encode_case(TWO)[:-10])
    with pytest.raises(UsageError, match=r"a\.jsonl:2: not JSON"):
        load([file])


def test_ids_are_unique_over_files(tmp_path):
    written(tmp_path / "a.jsonl", ONE)
    written(tmp_path / "b.jsonl", TWO, case_of([[7.0]], name="one"))
    with pytest.raises(UsageError, match=r"b\.jsonl:2: id 'test/one/float16' is in use at .*a\.jsonl:1"):
        load([tmp_path])
    assert ["id 'test/one/float16' is in use" in p for p in verify([tmp_path])] == [True]


def test_verify_finds_the_same_input_under_two_ids(tmp_path):
    written(tmp_path / "a.jsonl", ONE, case_of([[1.0]], name="again"))
    (problem,) = verify([tmp_path])
    assert problem.startswith(f"{tmp_path / 'a.jsonl'}:2: the same input as the case at")


@pytest.mark.parametrize("change", [{"digest": "0" * 16}, {"recipe": Recipe(Normal(4))}, {"shape": (4, 101)}])
def test_verify_finds_a_recipe_that_does_not_reproduce(tmp_path, change):
    written(tmp_path / "a.jsonl", msgspec.structs.replace(large_case(), **change))
    (problem,) = verify([tmp_path])
    assert "is recorded: its bits, shape, layout or operands were changed" in problem


def test_verify_refuses_what_does_not_fit_into_memory(tmp_path):
    case = Case(
        id="t/n/float32", dtype="float32", shape=(2**40, 2**10), digest="0", recipe=Recipe(Normal(3)), provenance="x"
    )
    written(tmp_path / "a.jsonl", case)
    (problem,) = verify([tmp_path])
    assert "GiB are free" in problem


def test_verify_names_an_empty_file(tmp_path):
    written(tmp_path / "a.jsonl", ONE)
    written(tmp_path / "b.jsonl", b"\n")
    assert verify([tmp_path]) == [f"{tmp_path / 'b.jsonl'}: holds no cases; add some or remove the file"]


def test_unknown_missing_empty_and_unreadable_corpora(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"no corpus 'egde'.*did you mean 'edge'"):
        load(["egde"])
    with pytest.raises(UsageError, match=r"neither a built-in name nor a file or folder; built-in corpora: .*edge"):
        load([tmp_path / "none"])
    with pytest.raises(UsageError, match=r"holds no \*.jsonl file"):
        load([tmp_path])
    with pytest.raises(UsageError, match="no cases in"):
        load([written(tmp_path / "a.jsonl", b"\n")])
    with pytest.raises(UsageError, match="an empty list of corpora"):
        load([])
    with pytest.raises(TypeError, match="expected a list of corpora"):
        load("edge")
    with pytest.raises(UsageError, match="not a regular file"):
        load(["/dev/zero"])

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(UsageError, match=r"can't read .*a\.jsonl: Permission denied"):
        load([tmp_path])
    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(UsageError, match=r"can't read the folder .*: Permission denied"):
        corpora.corpus_files(tmp_path)


def test_the_corpora_that_come_along():
    assert set(builtin_names()) == {"edge", "regressions", *OF_OPERATIONS}
    assert default_corpora(of_operations=False) == ["edge", "regressions"]
    assert len({case.digest for case in load(builtin_names())}) == len(load(builtin_names()))
    for file in builtin_root().rglob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            json.loads(line)


def test_the_regressions_that_come_along_verify():
    assert verify(["regressions"]) == []
