"""Choosing cases: a word that chooses nothing is an error, never an empty run."""

import pytest
from case_helpers import case_of

from softcheck.cases.corpus import select
from softcheck.errors import UsageError

HALF = case_of([[1.0]], name="one", tags=("mask", "wide"))
SINGLE = case_of([[1.0]], "float32", name="one", tags=("mask",))
OTHER = case_of([[2.0]], "float32", name="two")
ALL = [HALF, SINGLE, OTHER]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({}, ALL),
        ({"dtypes": ["float32"]}, [SINGLE, OTHER]),
        ({"families": ["test"]}, ALL),
        ({"tags": ["mask"]}, [HALF, SINGLE]),
        ({"tags": ["wide", "mask"]}, [HALF, SINGLE]),
        ({"globs": ["*/two/*", "test/one/float16"]}, [HALF, OTHER]),
        ({"dtypes": ["float32"], "tags": ["mask"]}, [SINGLE]),
    ],
)
def test_kinds_narrow_and_words_widen(asked, chosen):
    assert select(ALL, **asked) == chosen


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dtypes": ["floot16"]}, "unknown dtype 'floot16'; did you mean 'float16'"),
        ({"families": ["tets"]}, "unknown family 'tets'; did you mean 'test'"),
        ({"tags": ["maks", "mask"]}, "unknown tag 'maks'; did you mean 'mask'"),
        ({"globs": ["test/tow/float32"]}, "unknown case id 'test/tow/float32'; did you mean 'test/two/float32'"),
        ({"globs": ["*/one/*", "zzz"]}, "unknown case id 'zzz'; ids are family/name/dtype with the families test"),
        ({"dtypes": ["float64"]}, "none of 3 cases matches all of: dtype float64"),
        ({"tags": ["wide"], "dtypes": ["float32"]}, "matches all of: dtype float32; tag wide. Drop one"),
    ],
)
def test_what_matches_nothing_is_refused_with_a_hint(asked, said):
    with pytest.raises(UsageError, match=said):
        select(ALL, **asked)


def test_no_cases_at_all():
    with pytest.raises(UsageError, match="none of 0 cases"):
        select([])
