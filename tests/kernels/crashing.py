"""Variants that end their process: in every call, and beyond some width."""

import ctypes
import os

import torch


def exits_always(x):
    os._exit(3)


def segfaults_beyond_64_columns(x):
    if x.shape[1] > 64:
        ctypes.string_at(0)
    return torch.softmax(x, dim=-1)
