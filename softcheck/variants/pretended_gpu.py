"""A GPU that is pretended to host code in a forked process, where CUDA can't be used.

Tensors lie in host memory and say that they are on the GPU; what torch tells about the GPU is what it told before the
fork. Nothing here can be undone: use it in a process that ends soon.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def known() -> dict[str, Any]:
    """Answers of torch.cuda that host code asks for, by function name. Call it before the fork."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    return {
        "get_device_properties": torch.cuda.get_device_properties(),
        "get_device_capability": torch.cuda.get_device_capability(),
        "get_device_name": torch.cuda.get_device_name(),
        "current_stream": torch.cuda.current_stream(),
    }


def pretend(device: torch.device, answers: dict[str, Any]) -> None:
    """Makes every tensor say that it is on this device from now on, and every request for the device one for the host."""
    torch.Tensor.is_cuda = property(lambda _tensor: True)  # type: ignore[assignment]
    torch.Tensor.device = property(lambda _tensor: device)  # type: ignore[assignment]
    for name, answer in answers.items():
        setattr(torch.cuda, name, _constant(answer))
    for name, answer in {"current_device": 0, "device_count": 1, "is_available": True, "synchronize": None}.items():
        setattr(torch.cuda, name, _constant(answer))
    for name in ("device", "device_of", "stream"):
        setattr(torch.cuda, name, lambda *_arguments: nullcontext())
    _OnHost().__enter__()  # type: ignore[no-untyped-call]


def _constant(answer: Any) -> Callable[..., Any]:
    return lambda *_arguments, **_options: answer


class _OnHost(TorchFunctionMode):
    """Makes functions that name a device use the host."""

    def __torch_function__(
        self, function: Any, _types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.cuda:
            return arguments[0]
        arguments = tuple(_host(argument) for argument in arguments)
        return function(*arguments, **{name: _host(value) for name, value in (options or {}).items()})


def _host(value: Any) -> Any:
    is_device = isinstance(value, torch.device) or (isinstance(value, str) and value.startswith("cuda"))
    return torch.device("cpu") if is_device else value
