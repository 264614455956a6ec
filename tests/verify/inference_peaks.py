"""The most memory that reading a prompt and writing one token need, by PyTorch's own tracker, without data."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from tests.verify.peaks import from_now, most, now
from tfcalc.verify.cuda_choices import cuda_choices


class InferencePeaks(NamedTuple):
    """Bytes: what is held before, the cache after the prompt, and peaks over what was held before (cache included)."""

    held_before: int
    cache: int
    prefill: int
    decode: int
    kernels: dict[str, int]


def inference_peaks(
    model: Any, batch: int, seq: int, *, all_logits: bool = False, kernel: str = "auto", as_recorded: bool = False
) -> InferencePeaks:
    """A prompt of ``seq`` tokens, then one token after a dynamic cache; ids and parameters are held before."""
    model.eval()
    ids, one = torch.zeros(batch, seq, dtype=torch.long), torch.zeros(batch, 1, dtype=torch.long)
    tracker = MemTracker()
    tracker.track_external(model, ids, one)
    keep: dict[str, Any] = {} if all_logits else {"logits_to_keep": 1}
    with warnings.catch_warnings(), torch.no_grad(), cuda_choices(kernel, as_recorded=as_recorded) as ran, tracker:
        warnings.simplefilter("ignore")
        before = now(tracker)["Total"]
        from_now(tracker)
        cache = model(input_ids=ids, use_cache=True, **keep).past_key_values
        prefill, held = most(tracker)["Total"] - before, now(tracker)["Total"] - before
        from_now(tracker)
        tracker.reset_mod_stats()
        if "position_ids" in signature(model.forward).parameters:
            keep["position_ids"] = torch.full((batch, 1), seq)
        model(input_ids=one, past_key_values=cache, use_cache=True, **keep)
        decode = most(tracker)["Total"] - before
    return InferencePeaks(before, held, prefill, decode, dict(ran))
