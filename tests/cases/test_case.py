"""Cases: rows as text, digests, layouts, and the rules between fields."""

import msgspec
import numpy as np
import pytest
from case_helpers import case_of
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.formats import FORMATS
from softcheck.cases.bit_rows import format_rows, parse_rows
from softcheck.cases.case import Case, Layout, check_contents, check_fields, digest
from softcheck.errors import UsageError


@pytest.mark.parametrize("dtype", FORMATS)
@given(data=st.data(), shape=st.tuples(st.integers(0, 4), st.integers(0, 9)))
@settings(deadline=None, max_examples=40)
def test_rows_survive_as_text(dtype, data, shape):
    fmt = FORMATS[dtype]
    count = shape[0] * shape[1]
    patterns = data.draw(st.lists(st.integers(0, 2**fmt.width - 1), min_size=count, max_size=count))
    bits = np.array(patterns, dtype=fmt.storage).reshape(shape)
    text = format_rows(bits, fmt)
    assert all(len(word) == fmt.hex_digits for row in text for word in row.split())
    again = parse_rows(text, shape[1], fmt)
    assert again.dtype == fmt.storage
    assert (again == bits).all()


def test_text_reads_as_a_person_would_write_it():
    assert format_rows(np.array([[0x3C00, 0x8001]], dtype=np.uint16), FORMATS["float16"]) == ("3c00 8001",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("3c00", "holds 1 elements, expected 2"),
        ("3c00 3c00 0000", "holds 3 elements, expected 2"),
        ("3c00 3c0", "'3c0' is not a float16 pattern of 4 hexadecimal digits"),
        ("3c00 3g00", "expected 4 hexadecimal digits per element"),
        ("3c00 3_00", "expected 4 hexadecimal digits per element"),
        ("3c00 +c00", "expected 4 hexadecimal digits per element"),
    ],
)
def test_damaged_rows_are_refused(row, said):
    with pytest.raises(UsageError, match=said):
        parse_rows((row,), 2, FORMATS["float16"])


def test_digest_tells_apart_whatever_a_kernel_could():
    bits = np.array([[0, 1], [2, 3]], dtype=np.uint16)
    half, brain = FORMATS["float16"], FORMATS["bfloat16"]
    inputs = [
        (bits, half, Layout()),
        (bits, brain, Layout()),
        (bits ^ np.uint16(1), half, Layout()),
        (bits.reshape(1, 4), half, Layout()),
        (bits.reshape(4, 1), half, Layout()),
        (bits, half, Layout(offset=1)),
        (bits, half, Layout(row_stride=3)),
        (bits, half, Layout(row_stride=1, column_stride=2)),
        (bits[:0], half, Layout()),
        (bits[:, :0], half, Layout()),
    ]
    assert len({digest(*one) for one in inputs}) == len(inputs)
    assert digest(bits, half, Layout(row_stride=2)) == digest(bits, half, Layout())
    assert digest(bits.astype(">u2"), half, Layout()) == digest(bits, half, Layout())
    assert digest(np.asfortranarray(bits), half, Layout()) == digest(bits, half, Layout())


def test_digest_stays_what_saved_cases_record():
    assert digest(np.array([[0x3C00, 0xBC00]], dtype=np.uint16), FORMATS["float16"], Layout()) == "cb4db3f522118a3b"


def test_first_rows_of_listed_bits():
    case = case_of([[1.0], [2.0], [3.0]])
    assert case.bits(2).tolist() == case.bits().tolist()[:2]
    assert case.bits(9).shape == (3, 1)


@pytest.mark.parametrize(
    ("layout", "shape", "extent"),
    [
        (Layout(), (3, 5), 15),
        (Layout(offset=4), (3, 5), 19),
        (Layout(row_stride=8, offset=2), (3, 5), 23),
        (Layout(row_stride=1, column_stride=3), (3, 5), 15),
        (Layout(row_stride=0), (3, 5), 5),
        (Layout(offset=2), (0, 5), 2),
    ],
)
def test_extent_is_the_last_address_plus_one(layout, shape, extent):
    assert layout.extent(*shape) == extent


def changed(case, **fields):
    return msgspec.structs.replace(case, **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"id": "test/a"}, "is not family/name/dtype"),
        ({"id": "Test/a/float16"}, "is not family/name/dtype"),
        ({"id": "test/../float16"}, "is not family/name/dtype"),
        ({"id": "test/a/float32"}, "ends in 'float32', but the case's dtype is 'float16'"),
        ({"dtype": "float17"}, "unknown dtype 'float17'.*did you mean 'float16'"),
        ({"rows": None}, "holds neither rows nor a recipe"),
        ({"rows": ("3c00", "3c00")}, "holds 2 rows, but its shape says 1"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields, said):
    with pytest.raises(UsageError, match=said):
        check_fields(changed(case_of([[1.0]], name="a"), **fields))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"rows": ("3c01 4000",)}, "has the digest .*, but .* is recorded"),
        ({"layout": Layout(offset=1)}, "has the digest .*, but .* is recorded"),
        ({"layout": Layout(row_stride=0, column_stride=0)}, "of different bits at one address"),
        ({"layout": Layout(row_stride=0, column_stride=2**60)}, "the layout spans .* GiB are free"),
    ],
)
def test_contents_that_were_altered_are_refused(fields, said):
    case = case_of([[1.0, 2.0]])
    check_contents(case)
    with pytest.raises(UsageError, match=said):
        check_contents(changed(case, **fields))


def test_elements_may_share_memory_where_they_are_equal():
    check_contents(case_of([[1.0, 2.0], [1.0, 2.0]], layout=Layout(row_stride=0)))
    check_contents(case_of([[1.0, 2.0], [2.0, 4.0]], layout=Layout(row_stride=1)))
    with pytest.raises(UsageError, match="of different bits at one address"):
        case_of([[1.0, 2.0], [1.0, 4.0]], layout=Layout(row_stride=1))


def test_negative_sizes_do_not_decode():
    line = msgspec.json.encode(case_of([[1.0]])).replace(b'"shape":[1,1]', b'"shape":[1,-1]')
    with pytest.raises(msgspec.ValidationError, match=r"shape"):
        msgspec.json.decode(line, type=Case)
