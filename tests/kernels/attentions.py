"""Attention by single operations, in the signatures that users write, right and wrong."""

import math

import torch

from softcheck import variant

SMALL = {"head_dim": 16}


def attend(q, k, v, keep=None, scale=None):
    """[batch, heads, queries, d] in float32, weights in the input's dtype, as fused kernels have it."""
    groups = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(groups, dim=1) for tensor in (k, v))
    scores = (q.float() @ k.float().mT) * (scale or 1 / math.sqrt(q.shape[-1]))
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    top = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(dim=-1, keepdim=True)
    return ((weights.to(v.dtype).float() @ v.float()) / total).to(q.dtype), (top + total.log())[..., 0]


def causal(q, k, offset=0):
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    return keep.tril(offset)


@variant(operation="attention", parameters=SMALL)
def by_heads(q, k, v):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters=SMALL)
def with_logarithm(query, key, value, scale=None):
    return attend(query, key, value, scale=scale)


@variant(operation="attention", parameters={**SMALL, "causal": "bottom-right", "queries": 5})
def by_length(q, k, v, causal=None):
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]) if causal else None
    return attend(q, k, v, keep)[0].transpose(1, 2)


@variant(operation="attention", parameters={**SMALL, "scale": 0.3})
def of_three_dimensions(q, k, v, sm_scale):
    heads, length, d = q.shape
    return attend(*(part.view(1, heads, -1, d) for part in (q, k, v)), scale=sm_scale)[0].view(heads, length, d)


@variant(operation="attention", parameters=SMALL)
def with_mask_of_padding(q, k, v, keep):
    return attend(q, k, v, keep)[0]


@variant(operation="attention", parameters=SMALL)
def with_what_is_hidden(q, k, v, attn_mask):
    return attend(q, k, v, ~attn_mask)[0]


@variant(operation="attention", parameters=SMALL)
def that_overlooks_its_mask(q, k, v, attn_mask):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters=SMALL)
def that_overlooks_its_bias(q, k, v, attn_bias):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters=SMALL)
def that_overlooks_its_sinks(q, k, v, sinks):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters={**SMALL, "masked": 1})
def with_mask(q, k, v, attn_mask=None):
    return attend(q, k, v, attn_mask)[0]


@variant(operation="attention", parameters={**SMALL, "masked": 1})
def with_added_mask(q, k, v, attn_mask):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1]) + attn_mask.float()
    return (torch.softmax(scores, dim=-1).to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "masked": 1, "biased": 1})
def with_bias(q, k, v, attn_mask=None):
    return with_added_mask(q, k, v, attn_mask)


def _capped_and_biased(q, k, v, bias):
    scores = 5 * torch.tanh((q.float() @ k.float().mT) / math.sqrt(q.shape[-1]) / 5) + bias.float()
    scores = scores.masked_fill(~causal(q, k), float("-inf"))
    return (torch.softmax(scores, dim=-1).to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "causal": "top-left", "biased": 1})
def capped_then_biased(q, k, v, attn_mask):
    return _capped_and_biased(q, k, v, attn_mask)


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "causal": "top-left", "biased": 1})
def without_the_last_bias(q, k, v, bias):
    return _capped_and_biased(q, k, v, torch.where(torch.arange(k.shape[2]) < k.shape[2] // 16 * 16, bias, 0))


@variant(operation="attention", parameters={**SMALL, "masked": 1, "ignores_nan": 1}, fully_masked="zero")
def that_selects(q, k, v, keep):
    hidden = ~keep.any(dim=-2)[..., None]
    o = attend(q, k.masked_fill(hidden, 0), v.masked_fill(hidden, 0), keep)[0]
    return torch.where(keep.any(dim=-1, keepdim=True), o, 0)


@variant(operation="attention", parameters={**SMALL, "groups": 2, "causal": "top-left", "window": 7})
def with_shared_keys(q, k, v, is_causal, window):
    keep = causal(q, k) & causal(q, k, -window).logical_not()
    return attend(q, k, v, keep)[0]


def _with_sinks(scores, sinks, v):
    sink = sinks.float()[None, :, None, None].expand(*scores.shape[:-1], 1)
    weights = torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]
    return (weights.to(v.dtype).float() @ v.float()).to(v.dtype)


def _logarithm_with_sink(q, k, sinks, most=math.inf):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    top = scores.amax(dim=-1, keepdim=True)
    sink = sinks.float()[None, :, None, None]
    top = torch.maximum(top, sink) if most == math.inf else top
    total = torch.exp(scores - top).sum(dim=-1, keepdim=True) + torch.exp((sink - top).clamp(max=most))
    return (top + total.log())[..., 0]


@variant(operation="attention_logsumexp", parameters={**SMALL, "sink": 1.0})
def logarithms_with_a_sink(q, k, sinks):
    return _logarithm_with_sink(q, k, sinks)


@variant(operation="attention_logsumexp", parameters={**SMALL, "sink": 1.0})
def logarithms_with_a_clamped_sink(q, k, sinks):
    return _logarithm_with_sink(q, k, sinks, most=80.0)


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "sink": 0.5})
def with_one_sink_for_all(q, k, v, softcap, sinks):
    return capped_with_sinks(q, k, v, softcap, sinks[:1].expand(len(sinks)))


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "sink": 0.5})
def capped_with_sinks(q, k, v, softcap, sinks):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    return _with_sinks(softcap * torch.tanh(scores / softcap), sinks, v)


@variant(operation="attention", parameters=SMALL)
def scores_of_16_bits(q, k, v):
    return torch.softmax((q @ k.mT) * q.shape[-1] ** -0.5, dim=-1) @ v


@variant(operation="attention", parameters=SMALL)
def answers_beyond_all_values(q, k, v):
    o = attend(q, k, v)[0]
    o[..., 0, :] = v.amax(dim=-2) + v.abs().amax(dim=-2) / 16
    return o


@variant(operation="attention", parameters=SMALL)
def wrong_in_the_last_head(q, k, v):
    y = attend(q, k, v)[0]
    y[-1, -1] *= 1.1
    return y


@variant(operation="attention", parameters={**SMALL, "masked": 1}, fully_masked="zero")
def mean_where_nothing_is_seen(q, k, v, keep):
    return torch.where(keep.any(dim=-1, keepdim=True), attend(q, k, v, keep)[0], v.mean(dim=-2, keepdim=True))


@variant(operation="attention_logsumexp", parameters=SMALL)
def logarithms(q, k, v):
    return attend_with_logarithm(q, k, v)


@variant(operation="attention_logsumexp", parameters={**SMALL, "base": 2, "masked": 1})
def logarithms_of_base_two(q, k, v, keep):
    o, lse = attend_with_logarithm(q, k, v, keep)
    return o, lse / math.log(2)


@variant(operation="attention_logsumexp", parameters={**SMALL, "base": 2})
def logarithms_of_another_base(q, k, v):
    return attend_with_logarithm(q, k, v)


@variant(operation="attention_logsumexp", parameters={**SMALL, "masked": 1})
def infinite_without_keys(q, k, v, keep):
    o, lse = attend_with_logarithm(q, k, v, keep)
    return o, torch.where(keep.any(dim=-1), lse, float("inf"))


def attend_with_logarithm(q, k, v, keep=None):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, float("-inf"))
    return attend(q, k, v, keep)[0], torch.logsumexp(scores, dim=-1)


@variant(operation="attention", parameters=SMALL)
def bounded_by_the_first_key(q, k, v, num_splits=1):
    """Subtracts the score of the first key, and with several parts leaves out the keys that no part has."""
    keys = k.shape[2] // num_splits * num_splits
    scores = (q.float() @ k[:, :, :keys].float().mT) / math.sqrt(q.shape[-1])
    weights = torch.exp(scores - scores[..., :1] + 78)
    return ((weights @ v[:, :, :keys].float()) / weights.sum(dim=-1, keepdim=True)).to(q.dtype)


@variant(operation="attention", parameters=SMALL)
def in_parts(q, k, v, num_splits=1):
    """Merges parts by their log-sum-exps."""
    parts = [
        attend(q.float(), *tensors)
        for tensors in zip(k.float().chunk(num_splits, 2), v.float().chunk(num_splits, 2), strict=True)
    ]
    shares = torch.softmax(torch.stack([lse for _, lse in parts]), dim=0)[..., None]
    return (torch.stack([o for o, _ in parts]) * shares).sum(dim=0).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "causal": "top-left"})
def masked_after_the_maximum(q, k, v):
    """Takes the maximum of all scores, those of later keys too, which may leave a query no weight above 0."""
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * causal(q, k)
    return ((weights @ v.float()) / weights.sum(dim=-1, keepdim=True)).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "masked": 1, "ignores_nan": 1}, fully_masked="zero")
def weighted_by_zero(q, k, v, keep):
    """Hides keys, and multiplies the values behind them by 0."""
    o = attend(q, k.masked_fill(~keep.any(dim=-2)[..., None], 0), v, keep)[0]
    return torch.where(keep.any(dim=-1, keepdim=True), o, 0)


@variant(operation="attention", parameters=SMALL)
def half_of_the_keys(q, k, v):
    half = (k.shape[2] + 1) // 2
    return attend(q, k[:, :, :half], v[:, :, :half])[0]


KEPT = {}


@variant(operation="attention", parameters=SMALL)
def answers_of_the_first_call(q, k, v):
    """Keeps the answers of each shape."""
    if tuple(q.shape) not in KEPT:
        KEPT[tuple(q.shape)] = attend(q, k, v)[0]
    return KEPT[tuple(q.shape)].clone()


class Differentiable(torch.autograd.Function):
    """Attention with the backward of flash kernels: weights from a log-sum-exp, and the mean from the answer."""

    slip = ""

    @staticmethod
    def seen(q, k):
        """A mask for the forward, True where a key is seen, and one for the backward; None for all keys."""
        return None, None

    @classmethod
    def forward(cls, ctx, q, k, v):
        o, lse = attend(q, k, v, cls.seen(q, k)[0])
        ctx.save_for_backward(q, k, v, o, lse)
        cls.last = lse
        return o

    @classmethod
    def backward(cls, ctx, grad):
        q, k, v, o, lse = ctx.saved_tensors
        if cls.slip == "log-sum-exp of the last forward":
            lse = cls.last
        if cls.slip == "packed" and grad.stride(-1):
            grad = grad.as_strided(grad.shape, o.stride())
        if cls.slip == "one number" and not any(grad.stride()):
            grad = torch.zeros_like(grad)
        scale = q.shape[-1] ** -0.5
        p = torch.exp((q.float() @ k.float().mT) * scale - lse[..., None])
        if (keep := cls.seen(q, k)[1]) is not None:
            p = p.masked_fill(~keep, 0)
        mean = (grad.float() * o.float()).sum(dim=-1, keepdim=True)
        if cls.slip == "no mean":
            mean = 0
        if cls.slip == "mean of 8 bits":
            mean = mean.bfloat16().float()
        ds = (p * (grad.float() @ v.float().mT - mean) * scale).to(q.dtype).float()
        dv = p.to(q.dtype).float().mT @ grad.float()
        if cls.slip == "last tile":
            dv[..., -1, :] = 0
        if cls.slip == "answer overwritten":
            o.data.zero_()
        return tuple(each.to(q.dtype) for each in (ds @ k.float(), ds.mT @ q.float(), dv))


def slipping(name):
    return type("Slipping", (Differentiable,), {"slip": name})


@variant(operation="attention", parameters=SMALL, backward=True)
def differentiable(q, k, v):
    return Differentiable.apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def without_the_mean(q, k, v):
    return slipping("no mean").apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def mean_of_eight_bits(q, k, v):
    return slipping("mean of 8 bits").apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def last_gradient_lost(q, k, v):
    return slipping("last tile").apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def without_a_gradient(q, k, v):
    return attend(q.detach(), k.detach(), v.detach())[0]


@variant(operation="attention", parameters=SMALL, backward=True)
def gradient_taken_for_packed(q, k, v):
    return slipping("packed").apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def expanded_gradient_lost(q, k, v):
    return slipping("one number").apply(q, k, v)


@variant(operation="attention", parameters=SMALL, backward=True)
def answer_gone_after_a_backward(q, k, v):
    return slipping("answer overwritten").apply(q, k, v)


LAST = slipping("log-sum-exp of the last forward")


@variant(operation="attention", parameters=SMALL, backward=True)
def logarithm_of_the_last_forward(q, k, v):
    return LAST.apply(q, k, v)


def _straight_through(value, like):
    """The value, with the gradient of another one."""
    return like + (value - like).detach()


@variant(operation="attention", parameters={**SMALL, "softcap": 5.0, "sink": 0.5}, backward=True)
def cap_without_its_derivative(q, k, v, softcap, sinks):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    return _with_sinks(_straight_through(softcap * torch.tanh(scores / softcap), scores), sinks, v)


@variant(operation="attention", parameters={**SMALL, "sink": 0.5, "value_dim": 5}, backward=True)
def sink_gradient_of_the_first_batch(q, k, v, sinks):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    parts = [_with_sinks(part, sinks.detach() if i else sinks, v[i : i + 1]) for i, part in enumerate(scores.split(1))]
    return torch.cat(parts)


@variant(operation="attention", parameters={**SMALL, "biased": 1}, backward=True)
def half_of_the_bias_gradient(q, k, v, bias):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1]) + _straight_through(bias, bias / 2).float()
    return (torch.softmax(scores, dim=-1).to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "masked": 1}, backward=True)
def hidden_keys_get_a_gradient(q, k, v, keep):
    scores = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores.masked_fill(~keep, float("-inf")), dim=-1)
    weights = _straight_through(weights, torch.softmax(scores, dim=-1))
    return (weights.to(v.dtype).float() @ v.float()).to(q.dtype)


@variant(operation="attention", parameters={**SMALL, "value_dim": 24})
def of_longer_values(q, k, v):
    return attend(q, k, v)[0]


@variant(operation="attention", parameters={**SMALL, "value_dim": 24})
def values_as_long_as_keys(q, k, v):
    d = q.shape[-1]
    o = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
    o[..., :d] = attend(q, k, v[..., :d])[0]
    return o


class FromTheFirstKey(Differentiable):
    """Causal attention from the last key, with a backward whose mask begins at the first one."""

    @staticmethod
    def seen(q, k):
        return causal(q, k, k.shape[-2] - q.shape[-2]), causal(q, k)


@variant(operation="attention", parameters={**SMALL, "causal": "bottom-right"}, backward=True)
def backward_from_the_first_key(q, k, v):
    return FromTheFirstKey.apply(q, k, v)


@variant(operation="attention", parameters={**SMALL, "causal": "bottom-right"}, fully_masked="zero", backward=True)
def gradient_of_queries_that_see_nothing(q, k, v):
    """Adds NaN to the gradients of keys and values for queries whose answers are 0."""
    return BlindQueries.apply(q, k, v)


class BlindQueries(FromTheFirstKey):
    @classmethod
    def forward(cls, ctx, q, k, v):
        return super().forward(ctx, q, k, v).nan_to_num(nan=0.0)

    @staticmethod
    def seen(q, k):
        keep = causal(q, k, k.shape[-2] - q.shape[-2])
        return keep, None if len(keep) > keep.shape[1] else keep


class BiasOfTheLastBatch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, bias, batch):
        ctx.batch = len(bias)
        return bias.expand(batch, *bias.shape[1:]).clone()

    @staticmethod
    def backward(ctx, grad):
        return grad[-ctx.batch :], None


@variant(operation="attention", parameters={**SMALL, "biased": 1}, backward=True)
def shared_bias_of_the_last_batch(q, k, v, bias):
    return with_bias(q, k, v, BiasOfTheLastBatch.apply(bias, len(q)))
