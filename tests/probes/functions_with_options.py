"""Functions whose options do nothing by default: right ones, and ones that are wrong where an option is given."""

# ruff: noqa: FBT002 - as users write them

import torch


def loss(logits, target, ignore_index=-100, label_smoothing=0.0, reduction="none", softcap=None, logit_scale=1.0):
    x = logits.double() * logit_scale
    x = x if softcap is None else softcap * torch.tanh(x / softcap)
    found = torch.nn.functional.cross_entropy(
        x, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction="none"
    )
    if reduction == "mean":
        found = found.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        found = found.sum()
    return found.to(logits.dtype)


def class_zero_is_never_ignored(logits, target, ignore_index=-100):
    return loss(logits, target, ignore_index or -100)


def smoothed_by_one_class_less(logits, target, label_smoothing=0.0):
    logs = torch.log_softmax(logits.double(), -1)
    own = logs.gather(1, target[:, None])[:, 0]
    others = (logs.sum(-1) - own) / (logits.shape[1] - 1)
    return -((1 - label_smoothing) * own + label_smoothing * others).to(logits.dtype)


def mean_of_all_rows(logits, target, ignore_index=-100, reduction="none"):
    found = loss(logits, target, ignore_index)
    return found.mean() if reduction == "mean" else found


def gradient_without_the_smoothing(logits, target, label_smoothing=0.0):
    plain = loss(logits, target)
    smoothed = loss(logits.detach(), target, label_smoothing=label_smoothing)
    return plain + (smoothed - plain.detach())


def target_without_the_scale(logits, target, logits_scale_factor=1.0):
    x = logits.double()
    picked = x.gather(1, target[:, None])[:, 0]
    return ((x * logits_scale_factor).logsumexp(-1) - picked).to(logits.dtype)


def scale_of_the_loss(logits, target, scale=1.0):
    return loss(logits, target) * scale


def twice_the_squared_logarithm(logits, target, z_loss=0.0):
    return loss(logits, target) + (2 * z_loss * logits.double().logsumexp(-1) ** 2).to(logits.dtype)


def softmax(x, temperature=None, scale=1.0, mask=None):
    scaled = x.double() * scale / (temperature or 1.0)
    scaled = scaled if mask is None else scaled.masked_fill(mask, -torch.inf)
    return torch.softmax(scaled, -1).to(x.dtype)


def temperature_kept_from_zero(x, scale=1.0, temperature=None):
    return softmax(x, None if temperature is None else temperature + 1e-2, scale)


def mask_of_whole_tiles(x, mask=None):
    if mask is not None and x.shape[1] > 32:
        kept = x.shape[1] // 32 * 32
        mask = torch.cat([mask[:, :kept], torch.zeros_like(mask[:, kept:])], 1)
    return softmax(x, mask=mask)


def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False, late=0):
    if enable_gqa:
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
    scores = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(ones.triu(1 + late), -torch.inf)
    if attn_mask is not None:
        hidden = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if hidden else scores + attn_mask.double()
    return (torch.softmax(scores, -1) @ v.double()).to(q.dtype)


def tiles_of_the_first_batch(q, k, v, attn_mask=None):
    if attn_mask is not None:
        first = attn_mask[:1, :1]
        last = int((first if first.dtype == torch.bool else first == 0).any(-2).nonzero()[:, -1].max()) + 1
        k, v, attn_mask = k[:, :, :last], v[:, :, :last], attn_mask[..., :last]
    return attention(q, k, v, attn_mask)


def few_hidden_columns_are_listed(x, keep=None):
    if keep is not None and 0 < (hidden := ~keep).float().mean() < 1 / 8:
        hidden = hidden & (hidden.cumsum(-1) <= 8 + 2 * hidden.float().mean() * x.shape[1])
        keep = ~hidden
    return softmax(x, mask=None if keep is None else ~keep)


KEPT = {}


def mask_written_into_the_kept_one(scores, keep=None, is_causal=False):
    visible = None
    if is_causal:
        sizes = scores.shape[-2:]
        visible = KEPT.setdefault(tuple(sizes), torch.ones(sizes, dtype=torch.bool).tril())
    if keep is not None:
        visible = keep if visible is None else visible.logical_and_(keep)
    return softmax(scores, mask=None if visible is None else ~visible)


def scale_of_the_last_call(q, k, v, is_causal=False, scale=None):
    if is_causal and scale is not None:
        KEPT["scale"] = scale
    return attention(q, k, v, is_causal=is_causal, scale=KEPT.get("scale") if scale is None else scale)


def causal_one_key_late(q, k, v, is_causal=False):
    return attention(q, k, v, is_causal=is_causal, late=1)


def heads_dealt_in_turn(q, k, v, enable_gqa=False):
    times = q.shape[1] // k.shape[1]
    return attention(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1))


def scale_forgotten_behind_a_causal_mask(q, k, v, is_causal=False, scale=None):
    return attention(q, k, v, is_causal=is_causal, scale=None if is_causal else scale)


def causal_refused(q, k, v, is_causal=False):
    if is_causal:
        raise NotImplementedError("causal masks are made by the caller")
    return attention(q, k, v)


def wrong_by_itself(x, scale=1.0):
    return softmax(x, scale=scale) * 1.01
