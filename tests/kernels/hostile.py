"""Variants that harm their process, and healthy ones beside them."""

import os
import sys
import time

import torch


def healthy(x):
    return torch.softmax(x, dim=-1)


def exits(x):
    if x.shape[1] == 3:
        os._exit(7)
    return torch.softmax(x, dim=-1)


def calls_sys_exit(x):
    if x.shape[1] == 3:
        sys.exit(0)
    return torch.softmax(x, dim=-1)


def aborts(x):
    if x.shape[1] == 3:
        os.abort()
    return torch.softmax(x, dim=-1)


def is_killed(x):
    """Ends as where the system has no more memory."""
    if x.shape[1] == 3:
        os.kill(os.getpid(), 9)
    return torch.softmax(x, dim=-1)


def hangs(x):
    if x.shape[1] == 3:
        time.sleep(600)
    return torch.softmax(x, dim=-1)


def raises(x):
    if x.shape[1] == 3:
        raise ValueError("three columns are not for me")
    return torch.softmax(x, dim=-1)


def shouts(x):
    for stream in (sys.stdout, sys.stderr):
        stream.write("x" * 4_000_000 + "\n")
        stream.flush()
    return torch.softmax(x, dim=-1)


def writes_input(x):
    result = torch.softmax(x, dim=-1)
    x.zero_()
    return result


def writes_gap(x):
    x.as_strided((1,), (1,), 0).fill_(1.0)
    return torch.softmax(x, dim=-1)


def leaves_tail(x):
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    result[:, :2] = torch.softmax(x, dim=-1)[:, :2]
    return result


def ignores_strides(x):
    rows, columns = x.shape
    return torch.softmax(x.as_strided((rows, columns), (columns, 1)), dim=-1)


def float32_out(x):
    return torch.softmax(x.float(), dim=-1)


def transposed(x):
    return torch.softmax(x, dim=-1).t()


def nothing(x):
    torch.softmax(x, dim=-1)


def on_meta(x):
    return torch.empty_like(x, device="meta")


def two_arguments(x, weights):
    return torch.softmax(x * weights, dim=-1)


def all_zero(x):
    return torch.zeros_like(x)


def uniform(x):
    return torch.full_like(x, 1.0 / max(1, x.shape[1]))


def ends_the_process_later(x):
    import threading

    threading.Timer(0.3, os.abort).start()
    return torch.softmax(x, dim=-1)


def ends_the_process_a_second_later(x):
    import subprocess

    subprocess.Popen(["sh", "-c", f"sleep 1.5; kill -9 {os.getpid()}"])
    return torch.softmax(x, dim=-1)


def slow(x):
    time.sleep(0.4)
    return torch.softmax(x, dim=-1)


def leaves_a_child(x):
    import subprocess

    if x.shape[1] == 3:
        subprocess.Popen(["sleep", "7777"])
        time.sleep(600)
    return torch.softmax(x, dim=-1)


def aborts_at_once(x):
    os.abort()


def exits_on_five_empty_rows(x):
    if x.shape == (5, 0):
        os._exit(7)
    return torch.softmax(x, dim=-1)


def hangs_on_five_empty_rows(x):
    if x.shape == (5, 0):
        time.sleep(600)
    return torch.softmax(x, dim=-1)


def exits_on_empty(x):
    if x.numel() == 0:
        os._exit(7)
    return torch.softmax(x, dim=-1)


def raises_on_no_columns(x):
    return torch.softmax(x - x.max(dim=-1, keepdim=True).values, dim=-1)
