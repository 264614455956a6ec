"""Inputs of transformers' models, without data: ids, masks and positions, pixels, frames, all on meta."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING

import torch

from tfcalc.core.number import Num
from tfcalc.verify.images import images
from tfcalc.verify.sounds import sounds
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig, PreTrainedModel

MASKS = ("attention_mask", "decoder_attention_mask")
ANSWER = ("start_positions", "end_positions", "cls_index")


def inputs(built: PreTrainedModel, run: Workload, masks: str = "pairs") -> dict[str, object]:
    """Arguments for ``built.forward`` on this workload, as far as its signature names them.

    ``masks`` are of pairs, of tokens, or none, where a model takes no others; a choice has no place for one of pairs.
    """
    found, choices = _all_inputs(built, run), type(built).__name__.endswith("ForMultipleChoice")
    if masks == "none":
        found = {name: value for name, value in found.items() if name not in MASKS}
    elif choices or masks == "tokens":
        found = {name: _of_tokens(value) if name.endswith("attention_mask") else value for name, value in found.items()}
    return _as_choices(found) if choices else found


def _of_tokens(mask: Tensor) -> Tensor:
    """Mask that shows all tokens, in the place of a mask of pairs."""
    return torch.ones(mask.shape[0], mask.shape[-1], dtype=torch.long) if mask.ndim == 4 else mask


def _as_choices(found: dict[str, object]) -> dict[str, object]:
    """Return the ids as the only choice of each question, all in one language."""
    return {
        name: value if not isinstance(value, torch.Tensor) else value[:1] if name == "lang_ids" else value.unsqueeze(1)
        for name, value in found.items()
    }


def _all_inputs(built: PreTrainedModel, run: Workload) -> dict[str, object]:
    known = signature(built.forward).parameters
    found: dict[str, object] = {}
    two_stacks = "decoder_input_ids" in known
    first = run.source if two_stacks else run.target
    words = _ids(first.batch, first.length)
    if "input_ids" in known and not (two_stacks and run.decoding):  # then the source has been read
        found["input_ids"] = words
        if not two_stacks:  # it would be the mask of cross-attention, too
            found |= _mask("attention_mask", first.batch, first.length, first.seen, known)
        if "position_ids" in known and not two_stacks:
            found["position_ids"] = torch.zeros(first.batch, first.length, dtype=torch.long)
        if not two_stacks:
            found |= _beside_words(built, first.batch, first.length, known)
        if "cls_index" in known and run.training:  # otherwise it guesses where answers start
            found |= {name: torch.zeros(first.batch, dtype=torch.long) for name in ANSWER}
            found["is_impossible"] = torch.zeros(first.batch)
    if two_stacks and not run.decoding and type(built).__name__.endswith("ForSequenceClassification"):
        words[:, -1] = built.config.eos_token_id or 0  # where a sentence ends
    if two_stacks:
        written = run.target
        found["decoder_input_ids"] = _ids(written.batch, written.length)
        found |= _mask("decoder_attention_mask", written.batch, written.length, written.seen, known)
    if "encoder_hidden_states" in known and _reads_encoder(built.config):
        width = getattr(built.config, "cross_attention_hidden_size", None) or built.config.hidden_size
        found["encoder_hidden_states"] = torch.zeros(run.batch_size, run.source.length, width, requires_grad=True)
    found |= queries(built, run)
    if run.training and "use_cache" in known:  # some make a cache for as many layers as the other stack has
        found["use_cache"] = False
    found |= images(built, run)
    found |= _sounds(built, run, known) or sounds(built, run)
    if hasattr(built.config, "patch_in_forward"):  # where patches end depends on the text; it makes no cache
        patches = run.seq_len // built.config.patch_size
        found |= {"patch_lengths": torch.ones(run.batch_size, patches, dtype=torch.long), "use_cache": False}
    return found


def queries(built: PreTrainedModel, run: Workload) -> dict[str, Tensor]:
    """Vectors in the place of words, and those of an encoder that they read, for a model that takes no words."""
    if "query_embeds" not in signature(built.forward).parameters:
        return {}
    asked, read, config = run.target, run.source, built.config
    memory = torch.zeros(read.batch, read.length, config.encoder_hidden_size, dtype=built.dtype, requires_grad=True)
    query = torch.zeros(asked.batch, asked.length, config.hidden_size, dtype=built.dtype)
    return {"query_embeds": query, "encoder_hidden_states": memory}


def _reads_encoder(config: PreTrainedConfig) -> bool:
    """Return whether its layers attend to an encoder: by the config, or always (TrOCR's)."""
    return getattr(config, "add_cross_attention", False) or hasattr(config, "cross_attention_hidden_size")


def _sounds(built: PreTrainedModel, run: Workload, known: Mapping[str, Parameter]) -> dict[str, Tensor]:
    """Frames beside words, and which of them are there (Gemma 4)."""
    heard = getattr(built.config, "audio_config", None)
    if heard is None or run.decoding or "input_features_mask" not in known:
        return {}
    channels = getattr(heard, "subsampling_conv_channels", None)
    if channels is None and not hasattr(heard, "audio_embed_dim"):
        return {}
    bands = heard.audio_embed_dim if channels is None else channels[0] // 4 * 4
    batch, length = run.source.batch, run.source.length
    return {
        "input_features": torch.ones(batch, length, bands),
        "input_features_mask": torch.ones(batch, length, dtype=torch.bool),
    }


def _beside_words(built: PreTrainedModel, batch: Num, length: Num, known: Mapping[str, Parameter]) -> dict[str, Tensor]:
    """Further inputs of some encoders: positions on a page, a language, entities (LUKE).

    Longformer looks for its question in the words, and shows it to all of them: one token here.
    """
    found: dict[str, Tensor] = {}
    if "bbox" in known:
        found["bbox"] = torch.zeros(batch, length, 4, dtype=torch.long)
    if "lang_ids" in known:
        found["lang_ids"] = torch.zeros(batch, dtype=torch.long)
    if "global_attention_mask" in known and type(built).__name__.endswith(
        ("ForQuestionAnswering", "ForMultipleChoice")
    ):
        found["global_attention_mask"] = _ids(batch, length)
        found["global_attention_mask"][:, :1] = 1
    if "entity_ids" in known and "ForEntity" in type(built).__name__:
        entities = 2 if "Pair" in type(built).__name__ else 1
        found["entity_ids"] = _ids(batch, entities)
        found["entity_position_ids"] = torch.zeros(batch, entities, 1, dtype=torch.long)
        for end in ("start", "end") if "entity_start_positions" in known else ():
            found[f"entity_{end}_positions"] = _ids(batch, entities)
    return found


def _ids(batch: Num, length: Num) -> Tensor:
    return torch.zeros(batch, length, dtype=torch.long)


def _mask(name: str, batch: Num, length: Num, keys: Num, known: Mapping[str, Parameter]) -> dict[str, Tensor]:
    return {name: torch.zeros(batch, 1, length, keys)} if name in known else {}
