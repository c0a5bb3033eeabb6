"""Made-up reports that the renderers' tests draw: every verdict, figures that were not measured, long messages."""

import msgspec

from softcheck.cases.case import Case
from softcheck.contract import FindingKind
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.outcome import KernelArithmetic
from softcheck.report.model import (
    Bin,
    CaseResult,
    CopyBaseline,
    Environment,
    Exhaustive,
    Finding,
    Report,
    VariantResult,
    Witness,
)
from softcheck.toolchain.ptx import ObservedArithmetic
from softcheck.variants.place import SourcePlace

ENVIRONMENT = Environment(
    backend="interpreter",
    device="cpu",
    torch="2.13.0",
    triton="3.9.0",
    python="3.11.7",
    softcheck="0.1.0",
    seed=0,
    git_commit="0123456789abcdef0123456789abcdef01234567",
    command="softcheck report --dtype float16",
)

WITNESS = Witness(
    case="normal/781-columns/float16",
    row=3,
    column=780,
    input_bits="c0a1",
    output_bits="0b3c",
    exact="2.2067e-4",
)

PASSING = VariantResult(
    name="one_block",
    dtype="float16",
    verdict="pass",
    reason=None,
    cases_run=168,
    probes_run={"empties": 10, "sizes": 421},
    properties={"batch_invariant": True},
    elements=1234567,
    max_ulp=0.50137,
    mean_ulp=0.2483,
    p999_ulp=0.4998,
    ulp_is="at least",
    witness=WITNESS,
    max_ulp_ftz=0.50137,
    max_bound_share=0.4251,
    flushed=0,
    max_sum_deviation=0.00039,
    sum_violations=0,
    special_mismatches=0,
    rejudged_rows=2,
    max_abs_difference_to_torch=0.000244,
    findings=(),
    gb_per_s=None,
    speed_vs_torch=None,
    seconds=2.25,
)

PRESCALED = KernelArithmetic(
    declared=Arithmetic(exp="prescaled_ex2_approx"),
    kernels=("softmax_kernel",),
    target="cuda:90",
    observed=ObservedArithmetic(exponentials=("prescaled_ex2_approx",), divisions=("div_full",), sums=("float32",)),
    shown=Arithmetic(exp="prescaled_ex2_approx"),
    weaknesses=("multiplies by log2 e before subtracting the maximum",),
    leaves_contract="beyond |x| ≈ 450: logits scaled before the maximum is subtracted",
)

UNSUPPORTED = VariantResult(
    name="eager_compiled",
    dtype="float16",
    verdict="unsupported",
    reason="torch.compile is judged on a GPU only; run with --device cuda",
    cases_run=0,
    elements=0,
    max_ulp=None,
    mean_ulp=None,
    p999_ulp=None,
    ulp_is="at least",
    witness=None,
    max_ulp_ftz=None,
    max_bound_share=None,
    flushed=None,
    max_sum_deviation=None,
    sum_violations=None,
    special_mismatches=None,
    rejudged_rows=None,
    max_abs_difference_to_torch=None,
    findings=(),
    gb_per_s=None,
    speed_vs_torch=None,
    seconds=0.0,
)


def finding(kind: FindingKind, case: str, message: str, *, known: str | None = None, count: int = 1) -> Finding:
    """A finding on row 1, column 2 of a case."""
    return Finding(
        id=f"{abs(hash_of(kind + case)):012x}"[:12],
        kind=kind,
        case=case,
        message=message,
        reproduce=f"softcheck report --variant notebook_basic --case {case}",
        count=count,
        row=1,
        column=2,
        input_bits="fc00",
        output_bits="3c00",
        known=known,
    )


def hash_of(text: str) -> int:
    """A checksum that, unlike ``hash``, is the same in every process."""
    import zlib

    return zlib.crc32(text.encode()) << 16


FAILING = msgspec.structs.replace(
    PASSING,
    name="my_kernels.py:softmax",
    verdict="fail",
    place=SourcePlace("kernels/my_kernels.py", 17),
    max_ulp=812.4,
    mean_ulp=10.22,
    p999_ulp=640.0,
    max_ulp_ftz=30.5,
    max_bound_share=1.0004,
    flushed=4096,
    max_sum_deviation=0.865,
    sum_violations=12,
    special_mismatches=1,
    properties={"batch_invariant": False},
    arithmetic=PRESCALED,
    findings=(
        *(
            finding(
                FindingKind.ULP_EXCEEDS_BOUND,
                f"odd_columns/{columns}/float16",
                "812.4 ULP where at most 0.601 is allowed: output 0x1.2p-5, exact 0.00044",
                count=columns,
            )
            for columns in (127, 129, 255)
        ),
        finding(
            FindingKind.NAN_MISMATCH, "inf_rows/plus_inf/float16", "output 1.0 where NaN was expected | pipe *star*"
        ),
        finding(
            FindingKind.RAISED,
            "one_column/one/float16",
            "CompilationError: at 7:12:\n    x = tl.load(p)\n\x1b[31m" + "a very long compiler message " * 30,
        ),
        finding(
            FindingKind.WRONG_LAYOUT,
            "strided/odd/float16",
            "ignores the row stride",
            known="assumes packed rows",
        ),
        finding(FindingKind.ROW_DEPENDENCE, "probe/neighbours/nan", "row 1 changes with its neighbour"),
    ),
)

KNOWN = msgspec.structs.replace(
    PASSING,
    name="notebook_basic",
    verdict="known",
    ulp_is="exact",
    max_bound_share=0.9996,
    findings=tuple(
        finding(
            FindingKind.NAN_MISMATCH, case, "NaN where 0.01 was expected", known="masked lanes hold undefined values"
        )
        for case in ("odd_columns/3/float16", "odd_columns/7/float16")
    ),
)

BROKEN = msgspec.structs.replace(
    UNSUPPORTED,
    name="hybrid",
    verdict="error",
    reason="declared defect not found: 'ignores row strides' (wrong_layout on strided/*); remove the declaration",
    cases_run=168,
)

CASES = tuple(
    CaseResult(id=f"{family}/{name}/float16", family=family, shape=shape, rows_run=min(8, shape[0]))
    for family, name, shape in (
        ("normal", "781-columns", (1823, 781)),
        ("odd_columns", "127", (4, 127)),
        ("odd_columns", "129", (4, 129)),
    )
)

GENERATED = CaseResult(
    id="generated/0/float16",
    family="generated",
    shape=(1, 1),
    rows_run=1,
    definition=Case(
        id="generated/0/float16",
        dtype="float16",
        shape=(1, 1),
        digest="0123456789abcdef",
        rows=("7c00",),
        provenance="hypothesis",
    ),
)

PROBED = VariantResult(
    name="hybrid",
    dtype="float16",
    verdict="fail",
    probes_run={"empties": 10},
    findings=(finding(FindingKind.ROW_DEPENDENCE, "probe/neighbours/nan", "row 1 changes with its neighbour"),),
)
"""A result of ``report --probe``: no case was run."""

INTERPRETED = Report(
    environment=ENVIRONMENT,
    variants=(PASSING, FAILING, KNOWN, UNSUPPORTED, BROKEN),
    cases=(*CASES, GENERATED),
    notes=("cases above 65536 elements were cut to their first rows: the interpreter takes 6 ms per program",),
    seconds=42.4,
)

MEASURED = Report(
    environment=msgspec.structs.replace(
        ENVIRONMENT, backend="cuda", device="NVIDIA H200", driver="570.1", git_commit=None, command="softcheck report"
    ),
    variants=tuple(
        msgspec.structs.replace(result, dtype=dtype, gb_per_s=gb_per_s, speed_vs_torch=ratio)
        for dtype in ("float16", "bfloat16")
        for result, gb_per_s, ratio in ((PASSING, 2545.3, 2.2213), (UNSUPPORTED, None, None))
    ),
    cases=CASES,
    exhaustive=(
        Exhaustive(
            name="one_block",
            dtype="float16",
            domain="every row of 2 float16 patterns",
            is_complete=True,
            max_ulp=0.50091,
            ulp_is="exact",
            rows=2**32,
            ordinary_rows=4030464001,
            nan_rows=264503294,
            fully_masked_rows=1,
            histogram=(Bin(below=2.0**-10, elements=4), Bin(below=0.5, elements=12)),
            rows_per_second=1.5e9,
            judged_in="float64",
        ),
    ),
    speed=(CopyBaseline(dtype="float16", rows=4096, columns=4096, gb_per_s=3221.0, torch_gb_per_s=1146.0),),
    seconds=130.2,
)
