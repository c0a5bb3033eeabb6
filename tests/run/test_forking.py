"""Workers that are forked from a process with torch and Triton imported."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from softcheck.run import forking
from softcheck.run.process import Worker, WorkerDiedError, waits
from softcheck.run.protocol import Declared, Load


def five_seconds(_variant):
    return waits(5.0)


@pytest.fixture
def worker():
    with closing(Worker("interpreter")) as started:
        yield started


def test_workers_share_one_server_and_have_groups_of_their_own(worker):
    with closing(Worker("interpreter")) as second:
        parents = {Path(f"/proc/{w._process.pid}/stat").read_text().split()[3] for w in (worker, second)}
        groups = {os.getpgid(w._process.pid) for w in (worker, second)}
    assert len(parents) == 1
    assert parents != {str(os.getpid())}
    assert len(groups) == 2


def test_death_of_a_forked_worker_is_told_with_its_signal(worker):
    os.kill(worker._process.pid, signal.SIGSEGV)
    with pytest.raises(WorkerDiedError, match="signal 11"):
        list(worker.ask(Load("torch", ("float16",)), five_seconds))


def test_last_words_of_a_forked_worker_are_told(tmp_path):
    (tmp_path / "dies.py").write_text("import os\n\ndef softmax(x):\n    os.write(2, b'the end\\n')\n    os._exit(7)\n")
    with (
        closing(Worker("interpreter")) as worker,
        pytest.raises(WorkerDiedError, match="exit status 7; its last words: the end"),
    ):
        list(worker.ask(Load(f"{tmp_path}/dies.py:softmax", ("float16",)), five_seconds))


def test_a_forked_worker_has_the_folder_and_environment_of_its_parent(tmp_path, monkeypatch):
    module = "import os\n\nimport helper_beside\n\n" + "def softmax(x):\n    raise SystemError\n"
    (tmp_path / "mine.py").write_text(module)
    (tmp_path / "helper_beside.py").write_text("import os\nassert os.environ['SOME_NAME'] == 'some value'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_NAME", "some value")
    with closing(Worker("interpreter")) as worker:
        assert Path(f"/proc/{worker._process.pid}/cwd").readlink() == tmp_path
        replies = list(worker.ask(Load("mine.py:softmax", ("float16",)), five_seconds))
    assert isinstance(replies[0], Declared), replies


def test_another_vector_unit_gets_another_server(worker, monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    with closing(Worker("interpreter")) as second:
        parents = [Path(f"/proc/{w._process.pid}/stat").read_text().split()[3] for w in (worker, second)]
    assert parents[0] != parents[1]


def test_a_worker_starts_from_nothing_where_no_server_answers(monkeypatch):
    def refused(_device):
        raise OSError

    monkeypatch.setattr(forking, "_server", refused)
    with closing(Worker("interpreter")) as worker:
        assert isinstance(worker._process, subprocess.Popen)
        assert worker.ready.backend == "interpreter"


def test_server_and_workers_end_with_their_parent(tmp_path):
    """One worker is idle, and one hangs in a call."""
    (tmp_path / "idle.py").write_text("def softmax(x):\n    return x\n")
    (tmp_path / "hangs.py").write_text("def softmax(x):\n    open('begun', 'w').close()\n    while True: pass\n")
    script = (
        "import os, pathlib, sys, threading, time\nfrom softcheck.run.process import Worker, waits\n"
        "from softcheck.run.protocol import Load\nidle, hanging = Worker('interpreter'), Worker('interpreter')\n"
        "ask = lambda worker, name: list(worker.ask(Load(name, ('float16',)), lambda _: waits(60.0)))\n"
        "ask(idle, 'idle.py:softmax')\n"
        "threading.Thread(target=ask, args=(hanging, 'hangs.py:softmax'), daemon=True).start()\n"
        "while not pathlib.Path('begun').exists(): time.sleep(0.02)\n"
        "print(idle._process.pid, hanging._process.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    processes = [Path(f"/proc/{pid}") for pid in ran.stdout.split()]
    until = time.monotonic() + 10.0
    while any(process.exists() for process in processes) and time.monotonic() < until:
        time.sleep(0.05)
    assert [process.exists() for process in processes] == [False, False]
