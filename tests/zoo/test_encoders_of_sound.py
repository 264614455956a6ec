"""What encoders of sound do beside Whisper's: rotation, kernels of their own, a table of distances."""

from typing import Any

import tfcalc
from tfcalc import Workload
from tfcalc.core.component import Node

CLIP = Workload(batch_size=2, seq_len=3, source_len=10)


def node(config: dict[str, Any], run: Workload, end: str) -> Node:
    """The one whose path ends so."""
    (found,) = (each for each in tfcalc.from_config(config).tree(run).walk() if each.path.endswith(end))
    return found


def test_encoders_of_nemotron_transcribe_rotate_half_of_each_head() -> None:
    """10 heads of 128, of which partial_rotary_factor 0.5 turns 64 numbers, of queries and of keys."""
    turned = node({"model_type": "nemo_speechlm"}, CLIP, "asr_encoder.layers.self_attn.rotary").component.own
    (work,) = turned.elementwise
    assert work.elements == 2 * (2 * 10) * 10 * 64


def test_granite_speech_makes_its_scores_whatever_kernel_is_asked_for() -> None:
    """Backward of two batched products, as GraniteSpeechConformerAttention asks for SDPBackend.MATH."""
    run = CLIP.replaced(phase="train", kernel="flash")
    attend = node({"model_type": "granite_speech_encoder"}, run, "layers.attn.attend").component.own
    assert [product.backward for product in attend.products] == [2, 2]


def test_phi4_multimodal_looks_up_a_row_for_each_pair_of_frames() -> None:
    """One table for all sequences: l² rows (Phi4MultimodalAudioRelativeAttentionBias)."""
    table = node({"model_type": "phi4_multimodal_audio"}, CLIP, "bias_values").component.own
    assert table.lookups == 10 * 10
