"""Backwards of softmax and log-softmax, right and wrong."""

import torch


def widened(x):
    return x if x.dtype == torch.float64 else x.float()


def softmax_backward(dy, y):
    dy, wide = widened(dy), widened(y)
    return (wide * (dy - (wide * dy).sum(-1, keepdim=True))).to(y.dtype)


def with_rounded_products(dy, y):
    """As torch's CUDA kernel: the products are in the outputs' dtype, and all else in float32."""
    products = (dy * y).float()
    return (products - y.float() * products.sum(-1, keepdim=True)).to(y.dtype)


def in_another_order(grad_output, output):
    return softmax_backward(grad_output, output)


def into_memory(grad, probs, out):
    out.copy_(softmax_backward(grad, probs))


def without_the_last_column(dy, y):
    dy, wide = widened(dy), widened(y)
    return (wide * (dy - (wide * dy)[:, :-1].sum(-1, keepdim=True))).to(y.dtype)


def without_the_mean(dy, y):
    return y * (1 - y) * dy


def for_gradients_of_one(dy, y):
    return softmax_backward(torch.ones_like(dy), y)


def sum_of_the_first_row(dy, y):
    dy, wide = widened(dy), widened(y)
    return (wide * (dy - (wide * dy)[:1].sum(-1, keepdim=True))).to(y.dtype)


def log_softmax_backward(dy, y):
    dy = widened(dy)
    return (dy - widened(y).exp() * dy.sum(-1, keepdim=True)).to(y.dtype)


def of_the_mean(dy, y):
    dy = widened(dy)
    return (dy - widened(y).exp() * dy.mean(-1, keepdim=True)).to(y.dtype)


def takes_the_output_for_probabilities(dy, y):
    dy = widened(dy)
    return (dy - widened(y) * dy.sum(-1, keepdim=True)).to(y.dtype)


def _packed(tensor):
    columns = tensor.shape[1]
    return torch.as_strided(tensor, tensor.shape, (columns, 1))


def takes_grad_for_packed(dy, y):
    return softmax_backward(_packed(dy), y)


def takes_y_for_packed(dy, y):
    return softmax_backward(dy, _packed(y))
