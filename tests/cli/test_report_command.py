"""``softcheck report`` as a user types it: exit codes, messages, nothing lost."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import softcheck

KERNELS = Path(__file__).parents[1] / "kernels"
HOSTILE = str(KERNELS / "hostile.py")
FAST = ["--device", "interpreter", "--case", "ties/*/float16", "--dtype", "float16"]


def report_json(*arguments, **more):
    done = softcheck("report", *FAST, "--format", "json", *arguments, **more)
    return done, json.loads(done.stdout) if done.stdout else None


def test_correct_variant_passes_with_exit_0():
    done, report = report_json("--variant", "one_block")
    assert done.returncode == 0, done.stderr
    (row,) = report["variants"]
    assert row["verdict"] == "pass"
    assert row["cases_run"] > 0
    assert 0 < row["max_ulp"] <= 0.51
    assert row["gb_per_s"] is None, "no speed is measured under the interpreter"
    assert report["environment"]["backend"] == "interpreter"


def test_a_dry_run_prints_every_planned_call_and_makes_none():
    done = softcheck("report", *FAST, "--variant", "one_block", "--probe", "meetings", "--probe", "sizes", "--dry-run")
    assert done.returncode == 3, done.stderr
    first, *calls = done.stdout.splitlines()
    assert first.startswith("one_block, float16: 5 cases"), first
    assert "    columns-127-129" in calls
    ways = [line for line in calls if "columns=" in line and "layout=" in line]
    assert len(ways) > 100, "the ways of meetings stand there as --axis takes them"
    assert any(line.strip().startswith("of ") and "triples of values are left out" in line for line in calls)


def test_all_zero_output_fails_with_exit_1_and_a_command_that_reproduces_it():
    done, report = report_json("--variant", f"{HOSTILE}:all_zero")
    assert done.returncode == 1
    (row,) = report["variants"]
    assert row["verdict"] == "fail"
    kinds = {f["kind"] for f in row["findings"]}
    assert {"ulp_exceeds_bound", "sum_violation"} <= kinds
    import shlex

    again = shlex.split(row["findings"][0]["reproduce"])
    assert again[0] == "softcheck"
    assert softcheck(*again[1:]).returncode == 1


def test_the_first_finding_of_each_kind_has_a_line_on_standard_error_with_its_command():
    variant = f"{HOSTILE}:all_zero"
    done, report = report_json("--variant", variant, "--generate", "3", "--probe", "sizes")
    findings = report["variants"][0]["findings"]
    lines = [line.removeprefix("softcheck: ").split("; ") for line in done.stderr.splitlines() if " at " in line]
    told = [said.removeprefix(f"{variant} float16: ").split(" at ") for said, _ in lines]
    assert sorted(kind for kind, _ in told) == sorted({f["kind"] for f in findings})
    again = {(f["kind"], f["case"]): f["reproduce"] for f in findings}
    assert [command for _, command in lines] == [again[kind, case] for kind, case in told]


def test_one_refused_variant_does_not_lose_the_others():
    done, report = report_json("--variant", "torch", "--variant", f"{HOSTILE}:nothing")
    assert done.returncode == 2
    verdicts = {row["name"]: row["verdict"] for row in report["variants"]}
    assert verdicts == {"torch": "pass", f"{HOSTILE}:nothing": "error"}
    assert "returned NoneType, expected a torch.Tensor" in done.stderr


def test_raising_variant_is_a_finding_and_the_others_go_on():
    done, report = report_json("--variant", f"{HOSTILE}:exits", "--variant", "torch", "--case", "widths/*/float16")
    assert done.returncode == 1
    by_name = {row["name"]: row for row in report["variants"]}
    assert by_name["torch"]["verdict"] == "pass"
    assert {f["kind"] for f in by_name[f"{HOSTILE}:exits"]["findings"]} == {"crash"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dtype", "float61"], "or 'float16'"),
        (["--dtype", "float16", "--variant", "one_blok"], "did you mean 'one_block'"),
        (["--dtype", "float16", "--corpus", "egde"], "did you mean 'edge'"),
        (["--dtype", "float16", "--family", "tie"], "did you mean 'ties'"),
        (["--dtype", "float16", "--case", "ties/none/float16"], "unknown case id"),
        (["--variant", "missing.py:softmax"], "missing.py"),
        (["--variant", f"{HOSTILE}:helthy"], "did you mean 'healthy'"),
        ([f"{HOSTILE}::healthy"], f"has two colons; write one: {HOSTILE}:healthy"),
        ([f"{HOSTILE}"], f"names no function; write {HOSTILE}:FUNCTION; it has healthy, exits, "),
        (
            ["torch", "--declare", "max_columns=-3"],
            "max_columns is '-3'; expected a whole number above 0, or none; write",
        ),
        (["torch", "--declare", "empty=perhaps"], "empty is 'perhaps'; expected True or False; write empty=False"),
        (["torch", "--declare", "layouts=contiguous,odd"], "layouts is 'odd'; expected contiguous or strided; write"),
        (["--format", "tabel"], "did you mean 'table'"),
        (["--probe", "emptys"], "did you mean 'empties'"),
        (["--probe", "empties", "--no-probes"], "contradict"),
        (["--output", "/nonexistent/report.json"], "/nonexistent"),
    ],
)
def test_wrong_usage_exits_2_with_a_hint(arguments, said):
    done = softcheck("report", "--device", "interpreter", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_module_that_raises_on_import_exits_2():
    done = softcheck("report", *FAST, "--variant", f"{KERNELS / 'broken_import.py'}:softmax")
    assert done.returncode == 2
    assert "RuntimeError: no such driver" in done.stderr


@pytest.mark.parametrize("content", [None, "", "{not json}\n"])
def test_missing_empty_or_malformed_corpus_exits_2(tmp_path, content):
    folder = tmp_path / "mine"
    if content is not None:
        folder.mkdir()
        (folder / "cases.jsonl").write_text(content)
    done = softcheck("report", "--device", "interpreter", "--corpus", str(folder))
    assert done.returncode == 2
    assert str(folder) in done.stderr


def test_gpu_that_is_not_there_exits_3_with_what_to_do():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = softcheck("report", "--device", "cuda", "--dtype", "float16")
    assert done.returncode == 3
    assert "--device interpreter" in done.stderr


def test_variant_that_covers_no_selected_case_exits_3(tmp_path):
    kernel = tmp_path / "narrow.py"
    kernel.write_text(
        "import torch\nfrom softcheck import variant\n\n"
        "@variant(dtypes=('float32',))\ndef f(x):\n    return torch.softmax(x, -1)\n"
    )
    done = softcheck("report", *FAST, "--variant", f"{kernel}:f")
    assert done.returncode == 3
    assert "nothing was run" in done.stderr


def test_report_is_written_to_a_file_and_not_printed(tmp_path):
    target = tmp_path / "report.json"
    done = softcheck("report", *FAST, "--variant", "torch", "--format", "json", "--output", str(target))
    assert done.returncode == 0
    assert done.stdout == ""
    assert json.loads(target.read_text())["schema_version"] == 1


def test_settings_come_from_command_line_then_environment_then_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\nformat = "json"\nseed = 5\nvariant = ["torch"]\n')
    narrow = ["report", "--device", "interpreter", "--dtype", "float16", "--case", "ties/*/float16"]
    seeds = []
    for more, environment in (([], {}), ([], {"SOFTCHECK_SEED": "6"}), (["--seed", "7"], {"SOFTCHECK_SEED": "6"})):
        done = softcheck(*narrow, *more, cwd=tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        seeds.append(json.loads(done.stdout)["environment"]["seed"])
    assert seeds == [5, 6, 7]


def test_random_seed_is_printed_and_repeats_the_run(tmp_path):
    narrow = ["report", "--device", "interpreter", "--dtype", "float16", "--variant", "torch", "--probe", "shifts"]
    drawn = softcheck(*narrow, "--format", "json", cwd=tmp_path, SOFTCHECK_SEED="random")
    seed = json.loads(drawn.stdout)["environment"]["seed"]
    assert f"--seed {seed} repeats this run" in drawn.stderr
    again = softcheck(*narrow, "--format", "json", "--seed", str(seed), cwd=tmp_path)
    assert json.loads(again.stdout)["environment"]["seed"] == seed
    wrong = softcheck(*narrow, "--seed", "randm", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "'randm' is no seed; expected a whole number from 0 to 4294967295, or random" in wrong.stderr


def test_unknown_setting_in_pyproject_is_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.softcheck]\nsede = 5\n")
    done = softcheck("report", *FAST, "--variant", "torch", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'seed'" in done.stderr


def test_generated_cases_find_a_planted_fault_and_print_a_command_that_saves_it(tmp_path):
    done, report = report_json(
        "--variant", f"{HOSTILE}:all_zero", "--case", "empty/*/float16", "--generate", "20", cwd=tmp_path
    )
    assert done.returncode == 1
    generated = [f for f in report["variants"][0]["findings"] if f["case"].startswith("generated/")]
    assert generated
    assert generated[0]["reproduce"].startswith("softcheck corpus add --variant ")


def test_help_answers_without_torch():
    probe = "import sys, softcheck.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report" in done.stdout
    assert time.perf_counter() - begun < 3.0, "far above its 0.3 s, so that a busy machine does not fail it"


def test_recipe_that_needs_more_memory_than_there_is_exits_2_and_loses_nothing(tmp_path):
    lines = (Path(__file__).parents[2] / "corpora" / "edge" / "ties.jsonl").read_text().splitlines()
    right = next(line for line in lines if '"float16"' in line)
    huge = {
        "id": "huge/too-large/float16",
        "dtype": "float16",
        "shape": [1000000, 1000000000000],
        "digest": "0" * 16,
        "recipe": {"start": {"make": "constant", "value": 1.0}},
        "provenance": "test",
    }
    (tmp_path / "mine.jsonl").write_text(f"{right}\n{json.dumps(huge)}\n")
    done = softcheck(
        *("report", "--device", "interpreter", "--variant", "torch", "--corpus", str(tmp_path / "mine.jsonl")),
        *("--dtype", "float16", "--format", "json"),
    )
    assert done.returncode == 2
    assert "Ask for fewer rows or columns" in done.stderr
    report = json.loads(done.stdout)
    assert report["variants"][0]["cases_run"] == 1
    assert "huge/too-large/float16" in report["errors"][0]


def test_ctrl_c_prints_the_report_so_far_and_exits_130(tmp_path):
    import signal

    waiting = tmp_path / "waiting.py"
    waiting.write_text(
        "import time, pathlib, torch\n\ndef f(x):\n    if x.shape[1] == 7:\n"
        f"        pathlib.Path({str(tmp_path / 'started')!r}).touch()\n        time.sleep(60)\n"
        "    return torch.softmax(x, -1)\n"
    )
    arguments = [
        "--device",
        "interpreter",
        "--dtype",
        "float16",
        "--family",
        "widths",
        "--format",
        "json",
        "--jobs",
        "2",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "softcheck.cli.main", "report", "--variant", f"{waiting}:f", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        # A suite that a shell started in the background inherits SIGINT ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
    ) as running:
        try:
            for _ in range(300):
                if (tmp_path / "started").exists():
                    break
                time.sleep(0.1)
            time.sleep(2)
            running.send_signal(signal.SIGINT)
            output, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 130
    report = json.loads(output)
    assert report["variants"][0]["cases_run"] > 0
    assert any("interrupted" in note for note in report["notes"])


def test_saved_failure_is_run_by_corpus_run_and_saving_it_twice_changes_no_exit_code(tmp_path):
    wrong = ["--variant", f"{HOSTILE}:all_zero", "--device", "interpreter", "--dtype", "float16"]
    search = ["report", *wrong, "--case", "empty/*/float16", "--generate", "15", "--save", "--format", "summary"]
    first = softcheck(*search, cwd=tmp_path)
    assert first.returncode == 1, first.stderr
    assert "saved regression/" in first.stderr
    again = softcheck(*search, cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert "not saved" in again.stderr
    run = softcheck("corpus", "run", *wrong, "--format", "json", cwd=tmp_path)
    assert run.returncode == 1, run.stderr
    row = json.loads(run.stdout)["variants"][0]
    assert any(f["kind"] == "sum_violation" and f["reproduce"].startswith("softcheck report") for f in row["findings"])


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('seed = "many"', "seed = 'many'"),
        ("seed = -1", "seed = -1"),
        ("seed = 1e400", "seed = inf"),
        ("seed = 1.5", "seed = 1.5"),
        ("time-limit = nan", "no number"),
        ("save = 3", "save = 3: '3' is not a valid boolean"),
        ("variant = 3", "unknown variant '3'"),
        ('dtype = "float61"', "dtype = 'float61': unknown dtype"),
    ],
)
def test_setting_of_the_wrong_type_names_file_and_key(tmp_path, setting, said):
    (tmp_path / "pyproject.toml").write_text(f"[tool.softcheck]\n{setting}\n")
    done = softcheck("report", "--device", "interpreter", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("value", ["nan", "inf", "1e30", "0"])
def test_time_limit_that_no_clock_can_wait_for_is_refused(value):
    done = softcheck("report", "--variant", "torch", "--time-limit", value)
    assert done.returncode == 2
    assert "--time-limit" in done.stderr
    assert "Traceback" not in done.stderr


def test_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "softcheck", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == softcheck("--version").stdout
    assert done.stdout.startswith("softcheck, version ")
    assert done.returncode == 0


def test_one_word_stands_for_a_list_of_one_in_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\nvariant = "torch"\n')
    done = softcheck("report", *FAST, "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["name"] for row in json.loads(done.stdout)["variants"]] == ["torch"]


def test_reader_that_has_enough_is_no_error():
    shell = f"{sys.executable} -m softcheck.cli.main corpus list edge | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


BOTH = ["--device", "interpreter", "--dtype", "float16", "--variant", "torch", "--format", "json"]


@pytest.mark.parametrize(
    ("arguments", "cases", "probes"),
    [
        (["--probe", "empties"], False, True),
        (["--family", "ties"], True, False),
        (["--case", "ties/*", "--probe", "empties"], True, True),
        (["--family", "ties", "--no-probes"], True, False),
    ],
)
def test_choice_of_cases_or_probes_leaves_the_other_out(arguments, cases, probes):
    done = softcheck("report", *BOTH, *arguments)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert (row["cases_run"] > 0, row["probes_run"]) == (cases, {"empties": 10} if probes else {})


def test_setting_in_pyproject_chooses_cases_without_leaving_the_probes_out(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\nfamily = ["ties"]\nprobe = ["empties"]\n')
    done = softcheck("report", *BOTH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert row["cases_run"] > 0
    assert row["probes_run"] == {"empties": 10}


def test_probe_finding_exits_1_and_its_command_shows_it_again():
    found = softcheck(
        "report", *BOTH, "--variant", f"{HOSTILE}:exits_on_five_empty_rows", "--probe", "empties", "--timings"
    )
    assert found.returncode == 1
    assert "of these, probe empties on torch, float16" in found.stderr
    rows = {row["name"]: row for row in json.loads(found.stdout)["variants"]}
    assert rows["torch"]["verdict"] == "pass"
    (finding,) = rows[f"{HOSTILE}:exits_on_five_empty_rows"]["findings"]
    assert (finding["kind"], finding["case"]) == ("crash", "probe/empties/5x0")
    import shlex

    again = softcheck(*shlex.split(finding["reproduce"])[1:], "--format", "json")
    assert again.returncode == 1
    assert json.loads(again.stdout)["variants"][0]["findings"][0]["id"] == finding["id"]


def test_finding_of_a_probe_is_no_case_to_save(tmp_path):
    target = tmp_path / "report.json"
    arguments = ["--variant", f"{HOSTILE}:raises_on_no_columns", "--probe", "empties", "--output", str(target)]
    arguments.append("--require-all-sizes")
    softcheck("report", "--device", "interpreter", "--dtype", "float16", "--format", "json", *arguments)
    finding = json.loads(target.read_text())["variants"][0]["findings"][0]
    done = softcheck("corpus", "add", "--finding", finding["id"], "--report", str(target))
    assert done.returncode == 2
    assert finding["reproduce"] in done.stderr


def test_probes_are_listed():
    done = softcheck("list", "probes")
    assert done.returncode == 0
    assert "  empties " in done.stdout


CRASHING = KERNELS / "crashing.py"
ON_FLOAT16 = ("--dtype", "float16", "--device", "interpreter", "--jobs", "1", "--format", "json")


def test_variant_that_never_answers_is_given_up_with_a_finding_that_counts_what_was_not_run():
    chosen = ("--family", "widths", "--family", "ties", "--probe", "empties", "--probe", "determinism")
    done = softcheck("report", "--variant", f"{CRASHING}:exits_always", *chosen, *ON_FLOAT16)
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert (row["verdict"], row["cases_run"], row["probes_run"]) == ("fail", 5, {})
    (not_run,) = [f for f in row["findings"] if "given up" in f["message"]]
    assert (
        "each of the first 5 calls in float16 ended its process; 22 cases and 2 probes were not run"
        in (not_run["message"])
    )
    assert (not_run["kind"], not_run["count"], not_run["known"]) == ("crash", 24, None)
    assert not_run["case"] in not_run["reproduce"]
    assert len(row["findings"]) == 6


def test_probes_alone_are_given_up_too():
    probes = ("--probe", "shifts", "--probe", "permutations", "--probe", "appended_masks")
    done = softcheck("report", "--variant", f"{CRASHING}:exits_always", *probes, *ON_FLOAT16)
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert row["probes_run"] == {"shifts": 3, "permutations": 2}
    (not_run,) = [f for f in row["findings"] if "given up" in f["message"]]
    assert "0 cases and 1 probes were not run" in not_run["message"]
    assert not_run["case"] == "probe/appended_masks"


def test_variant_that_ends_its_process_in_some_cases_is_judged_on_all_others():
    widths = (2, 3, 127, 128, 129, 255, 256, 257, 385)
    globs = [word for columns in widths for word in ("--case", f"widths/{columns}/*")]
    done = softcheck("report", "--variant", f"{CRASHING}:segfaults_beyond_64_columns", *globs, *ON_FLOAT16)
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert row["cases_run"] == len(widths)
    assert sorted(f["case"] for f in row["findings"]) == sorted(f"widths/{n}/float16" for n in widths[2:])
    assert {f["kind"] for f in row["findings"]} == {"crash"}
    assert row["elements"] == 3 * (2 + 3)
