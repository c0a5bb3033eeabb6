"""Cases from arrays, and files that try to do harm: only a UsageError may come of them."""

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.formats import FORMATS, decode
from softcheck.cases import importing
from softcheck.cases.case import Layout
from softcheck.cases.importing import case_from_bits, read_array
from softcheck.errors import UsageError


def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npy_header(text):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def saved(path, content):
    path.write_bytes(content)
    return path


def test_case_from_bits():
    case = case_from_bits(np.array([0x3C00, 0x7C00], dtype=np.uint16), "bfloat16", provenance="me", tags=("t",))
    assert case.id == f"saved/{case.digest}/bfloat16"
    assert case.shape == (1, 2)
    assert case.rows == ("3c00 7c00",)
    assert case.bits().tolist() == [[0x3C00, 0x7C00]]
    turned = case_from_bits(
        np.zeros((2, 3), np.uint64), "float64", family="f", name="n", provenance="", layout=Layout(1, 2)
    )
    assert turned.id == "f/n/float64"
    assert turned.layout == Layout(1, 2)


@pytest.mark.parametrize(
    ("bits", "dtype", "said"),
    [
        (np.zeros(2, np.uint16), "float61", "unknown dtype 'float61'"),
        (np.zeros(2, np.uint32), "float16", "bits of float16 are an array of uint16, got uint32"),
        (np.zeros(2, np.float16), "float16", "pass patterns, not values"),
        (np.zeros((1, 2, 3), np.uint16), "float16", r"has shape \(1, 2, 3\); expected"),
        (np.zeros((), np.uint16), "float16", r"has shape \(\); expected"),
    ],
)
def test_case_from_bits_refuses(bits, dtype, said):
    with pytest.raises(UsageError, match=said):
        case_from_bits(bits, dtype, provenance="")


def test_names_and_sizes_are_checked(monkeypatch):
    with pytest.raises(UsageError, match="is not family/name/dtype"):
        case_from_bits(np.zeros(2, np.uint16), "float16", name="a b", provenance="")
    monkeypatch.setattr(importing, "MAX_SAVED_ELEMENTS", 3)
    with pytest.raises(UsageError, match="holds 4 elements, more than the 3"):
        case_from_bits(np.zeros(4, np.uint16), "float16", provenance="")


@pytest.mark.parametrize("stored", ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_floats_keep_their_bits(tmp_path, stored, order):
    values = np.array([[0.0, -0.0, 1.5], [np.inf, -3.0, np.nan]]).astype(stored, order=order)
    bits, dtype = read_array(saved(tmp_path / "a.npy", npy(values)))
    assert dtype == np.dtype(stored).name
    native = np.ascontiguousarray(values.astype(dtype))
    assert (bits == native.view(FORMATS[dtype].storage)).all()


def test_npy_of_one_dimension_is_one_row(tmp_path):
    bits, _ = read_array(saved(tmp_path / "a.npy", npy(np.array([1.0, 2.0], np.float16))))
    assert bits.tolist() == [[0x3C00, 0x4000]]


@pytest.mark.parametrize(
    "array",
    [np.array([[0x3F80, 0xFF80]], np.uint16), np.array([[1.0, -np.inf]]).astype(ml_dtypes.bfloat16)],
    ids=["patterns", "ml_dtypes"],
)
def test_npy_bfloat16_needs_its_name(tmp_path, array):
    file = saved(tmp_path / "a.npy", npy(array))
    bits, dtype = read_array(file, dtype="bfloat16")
    assert decode(bits, FORMATS[dtype]).tolist() == [[1.0, -np.inf]]
    with pytest.raises(UsageError, match="unsigned bit patterns together with their dtype"):
        read_array(file)


@pytest.mark.parametrize("rows", [0, 2])
def test_npy_without_elements(tmp_path, rows):
    bits, _ = read_array(saved(tmp_path / "a.npy", npy(np.zeros((rows, 0), np.float32))))
    assert bits.shape == (rows, 0)


GOOD_NPY = npy(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not a .npy file"),
        (b"PK\x03\x04 not numpy", "is not a .npy file"),
        (GOOD_NPY[:-1], "is damaged: mmap length is greater"),
        (GOOD_NPY + b"x", "1 bytes follow the array"),
        (GOOD_NPY[:20], "is not a .npy file"),
        (
            npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000000)}"),
            "is damaged: mmap length is greater",
        ),
        (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -6)}" + " " * 9), "is damaged"),
        (npy_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "Python objects"),
        (
            npy_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}") + bytes(4),
            "expected float16, float32",
        ),
        (npy_header("__import__('os').system('true')"), "is not a .npy file"),
        (npy_header("(" * 200), "is not a .npy file"),
        (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}"), "is not a .npy file"),
        (
            npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1)}") + bytes(4),
            r"has shape \(1, 1, 1\)",
        ),
        (b"\x93NUMPY\x09\x00" + GOOD_NPY[8:], "version"),
        (npy(np.zeros(2, np.int32)), "holds int32"),
        (npy(np.zeros(2, np.complex64)), "holds complex64"),
        (npy(np.zeros(2, np.longdouble)), "expected float16"),
    ],
)
def test_npy_files_that_are_not_what_they_say(tmp_path, content, said):
    with pytest.raises(UsageError, match=said):
        read_array(saved(tmp_path / "a.npy", content))


def test_values_are_never_converted(tmp_path):
    file = saved(tmp_path / "a.npy", GOOD_NPY)
    with pytest.raises(UsageError, match="holds float32, not float16"):
        read_array(file, dtype="float16")
    with pytest.raises(UsageError, match="holds uint16, asked for as float32"):
        read_array(saved(tmp_path / "b.npy", npy(np.zeros(2, np.uint16))), dtype="float32")


def test_paths_and_names(tmp_path):
    with pytest.raises(UsageError, match="is not a regular file"):
        read_array(tmp_path / "none.npy")
    with pytest.raises(UsageError, match=r"has the ending '\.pt'; expected"):
        read_array(saved(tmp_path / "a.pt", b""))
    with pytest.raises(UsageError, match="leave the tensor name 'x' out"):
        read_array(saved(tmp_path / "a.npy", GOOD_NPY), tensor="x")


@pytest.mark.parametrize(
    ("code", "dtype"), [("F16", "float16"), ("BF16", "bfloat16"), ("F32", "float32"), ("F64", "float64")]
)
def test_safetensors_keep_their_bits(tmp_path, code, dtype):
    storage = FORMATS[dtype].storage
    bits = np.arange(6, dtype=storage).reshape(2, 3)
    size = 6 * storage.itemsize
    header = {"__metadata__": {"a": "b"}, "x": entry(code, [2, 3], 0, size), "ids": entry("I64", [1], size, size + 8)}
    data = bits.astype(storage.newbyteorder("<")).tobytes() + bytes(8)
    file = saved(tmp_path / "a.safetensors", safetensors(header, data))
    read, found = read_array(file, tensor="x")
    assert found == dtype
    assert (read == bits).all()
    with pytest.raises(UsageError, match="holds 2 tensors; name one of: ids, x"):
        read_array(file)
    with pytest.raises(UsageError, match="holds no tensor 'y'"):
        read_array(file, tensor="y")
    with pytest.raises(UsageError, match="tensor 'ids' is I64"):
        read_array(file, tensor="ids")


def test_safetensors_of_one_tensor_need_no_name(tmp_path):
    file = saved(tmp_path / "a.safetensors", safetensors({"x": entry("F16", [2], 0, 4)}, b"\x00\x3c\x00\x40"))
    assert read_array(file)[0].tolist() == [[0x3C00, 0x4000]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01\x02",
        safetensors({}, length=2**63),
        safetensors({}, length=3),
        safetensors(b""),
        safetensors(b"[]"),
        safetensors(b"[" * 100_000),
        safetensors(b'{"x":'),
        safetensors(b"\xff\xff"),
        safetensors(b'{"x":{"dtype":"F16","shape":[NaN],"data_offsets":[0,2]}}', bytes(2)),
        safetensors(b'{"x":{"dtype":"F16","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,2]}}', bytes(2)),
        safetensors({"x": entry("F16", [-1, -1], 0, 2)}, bytes(2)),
        safetensors({"x": entry("F16", [1], -2, 0)}, bytes(2)),
        safetensors({"x": entry("F16", [1.0], 0, 2)}, bytes(2)),
        safetensors({"x": {"dtype": "F16"}}),
        safetensors({"x": 3}),
        safetensors({"x": entry("F16", [1], 2, 0)}, bytes(2)),
        safetensors({"x": entry("F16", [1], 1, 3)}, bytes(3)),
        safetensors({"x": entry("F16", [2], 0, 4), "y": entry("F16", [1], 2, 4)}, bytes(4)),
        safetensors({"x": entry("F16", [1], 0, 2)}, bytes(3)),
        safetensors({"x": entry("F16", [2], 0, 4)}, bytes(3)),
        safetensors({"x": entry("F16", [3], 0, 4)}, bytes(4)),
        safetensors({"x": entry("F16", [2**40, 2**40], 0, 4)}, bytes(4)),
        safetensors({"x": entry("F16", [0, 2**63], 0, 0)}),
    ],
)
def test_safetensors_that_break_the_format(tmp_path, content):
    with pytest.raises(UsageError, match="is not a safetensors file that can be read"):
        read_array(saved(tmp_path / "a.safetensors", content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (safetensors({"x": entry("F8_E5M2", [2], 0, 2)}, bytes(2)), "tensor 'x' is F8_E5M2"),
        (safetensors({"x": entry("F16", [], 0, 2)}, bytes(2)), r"has shape \(\)"),
        (safetensors({}), "holds 0 tensors; name one of: none"),
    ],
)
def test_safetensors_of_which_nothing_can_be_judged(tmp_path, content, said):
    with pytest.raises(UsageError, match=said):
        read_array(saved(tmp_path / "a.safetensors", content))


@given(cut=st.integers(0, 200), byte=st.integers(0, 255), kind=st.sampled_from(["npy", "safetensors"]))
@settings(deadline=None, max_examples=150)
def test_any_changed_byte_gives_an_array_or_a_usage_error(tmp_path_factory, cut, byte, kind):
    whole = GOOD_NPY if kind == "npy" else safetensors({"x": entry("F32", [2, 3], 0, 24)}, bytes(24))
    at = cut % len(whole)
    file = saved(tmp_path_factory.getbasetemp() / f"changed.{kind}", whole[:at] + bytes([byte]) + whole[at + 1 :])
    try:
        bits, dtype = read_array(file)
    except UsageError:
        return
    assert bits.dtype == FORMATS[dtype].storage
    assert bits.ndim == 2
