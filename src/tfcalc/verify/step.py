"""A training step of a transformers model on tensors without data: the model and what it is given, with its labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tfcalc.errors import Unavailable
from tfcalc.named_tuple import NamedTuple
from tfcalc.number_formats import COMPUTED, NUMBERS
from tfcalc.verify.hugging_face import build
from tfcalc.verify.images import images
from tfcalc.verify.inputs import queries
from tfcalc.verify.sounds import sounds
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

RECIPES = {name: getattr(torch, NUMBERS[name].torch) for name in COMPUTED} | {"autocast": torch.float32}
"""The type of the weights; ``autocast`` is CUDA's, to bfloat16."""

LANGUAGE_MODELS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
)
"""Transformers' tables of the classes whose output is over the vocabulary."""


class CountedStep(NamedTuple):
    """The model in training mode, and its arguments."""

    model: torch.nn.Module
    inputs: dict[str, object]


def language_model(model_type: str) -> str:
    """The class of this type that makes a loss out of the ids of its labels."""
    from transformers.models.auto import modeling_auto

    for table in LANGUAGE_MODELS:
        found = getattr(modeling_auto, table).get(model_type)
        if found:
            return found if isinstance(found, str) else str(found[0])
    raise Unavailable(f"transformers has no language model of type {model_type!r}", "name another")


def step(
    config: Mapping[str, object],
    *,
    batch: int,
    seq: int,
    target: int | None = None,
    attention: str = "eager",
    recipe: str = "fp32",
    recompute: str | None = None,
    dropout: bool = True,
) -> CountedStep:
    """The model of this config, as a class that has a loss, and ids that are their own labels.

    ``target`` is the length of what a decoder reads where there are two stacks; ``recompute`` is None, ``reentrant`` or
    ``nonreentrant``. Within ``without_data()`` nothing is allocated.
    """
    fields = {"_experts_implementation": "batched_mm", **config, "_attn_implementation": attention}
    given = config.get("architectures")
    architecture = given[0] if isinstance(given, list | tuple) and given else language_model(str(config["model_type"]))
    usual = torch.get_default_dtype()
    torch.set_default_dtype(RECIPES[recipe])
    try:
        model = build(fields, architecture, device="cpu")
    finally:
        torch.set_default_dtype(usual)
    _regular(model, dropout)
    if recompute:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it is to have another name
            model.gradient_checkpointing_enable({"use_reentrant": recompute == "reentrant"})
    return CountedStep(model.train(), _inputs(model, batch, seq, target))


def _regular(model: PreTrainedModel, dropout: bool) -> None:
    """Turn off the cache, the dropping of whole layers, and dropout where it is not wanted."""
    configs = [model.config, *(value for value in vars(model.config).values() if hasattr(value, "use_cache"))]
    for one in configs:
        if hasattr(one, "use_cache"):
            one.use_cache = False
    for module in model.modules():
        if hasattr(module, "layerdrop"):
            module.layerdrop = 0.0
        if dropout:
            continue
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


OF_SEQUENCES = (
    "ForSequenceClassification",
    "ForNextSentencePrediction",
    "ForImageClassification",
    "ForAudioClassification",
)
"""Ends of the names of classes that want one label for each sequence, image or recording."""


BEFORE_WORDS = "num_image_with_embedding"
"""Field of configs whose texts come after images, and have no loss without them."""


def _inputs(model: PreTrainedModel, batch: int, seq: int, target: int | None) -> dict[str, object]:
    known = signature(model.forward).parameters
    ids = words = torch.zeros(batch, seq, dtype=torch.long)
    given: dict[str, object] = {"input_ids": ids} if "input_ids" in known else {}
    if not given or "return_loss" in known or hasattr(model.config, BEFORE_WORDS):  # else words alone
        run = Workload(batch_size=batch, seq_len=seq)
        given |= _heard(model, batch, seq) or queries(model, run) or images(model, run)
    if model.config.is_encoder_decoder and "decoder_input_ids" in known:
        words = torch.zeros(batch, target or seq, dtype=torch.long)
        given["decoder_input_ids"] = words
    classes = torch.zeros(batch, dtype=torch.long)
    given |= {name: classes for name in ("start_positions", "end_positions", "next_sentence_label") if name in known}
    if "labels" in known:
        given["labels"] = classes if type(model).__name__.endswith(OF_SEQUENCES) else words
    if "use_cache" in known:
        given["use_cache"] = False
    if hasattr(model.config, "patch_in_forward"):  # where patches end depends on the text
        size = model.config.patch_size
        ends = torch.tensor([*range(size, seq, size), seq])
        given["patch_lengths"] = torch.diff(ends, prepend=torch.tensor([0])).repeat(batch, 1)
    return given


def _heard(model: PreTrainedModel, batch: int, seq: int) -> dict[str, object]:
    """A clip for each sequence, in the format of the weights."""
    made = sounds(model, Workload(batch_size=batch, seq_len=seq))
    return {
        name: value.to(model.dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in made.items()
    }


def loss_of(model: torch.nn.Module) -> Callable[[ModelOutput], torch.Tensor] | None:
    """Replacement of the loss of a class that has none: the first of its outputs, the last layer's vectors."""
    known = signature(model.forward).parameters
    return None if known.keys() & {"labels", "start_positions"} else lambda out: out[0]


@contextmanager
def without_data() -> Iterator[FakeTensorMode]:
    """Tensors are CPU tensors that hold no data, and positions count up from 0 (transformers would look at them)."""
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, one_sequence_a_row(), _as_they_come():
        yield fake


def _as_they_come() -> AbstractContextManager[None]:
    """Weights have no first values: some ways to draw them look at what they have drawn (``trunc_normal_``)."""
    try:
        from transformers import initialization
    except ImportError:
        return nullcontext()
    undrawn: AbstractContextManager[None] = initialization.no_init_weights()
    return undrawn


@contextmanager
def one_sequence_a_row() -> Iterator[None]:
    """Transformers does not ask whether several sequences share a row: that makes a mask where there is no data."""
    try:
        from transformers import masking_utils
    except ImportError:
        yield
        return
    asked = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = asked
