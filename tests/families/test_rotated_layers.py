"""Which layers turn queries and keys by their position."""

from tfcalc import Workload, from_config
from tfcalc.questions.common import run_tree


def test_command_a_rotates_only_in_layers_that_slide() -> None:
    """arXiv 2504.00698, section 2.2: three layers that slide have rotary positions, every fourth knows none."""
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 8, "intermediate_size": 24}
    model = from_config({"model_type": "cohere2", "vocab_size": 50, "sliding_window": 4} | sizes)
    tree = run_tree(model, Workload(seq_len=12))
    layers = [node.component for node in tree.walk() if node.component.kind == "layer"]
    rotated = {layer.places: "rotary" in {part.kind for part in layer.parts[0].parts} for layer in layers}
    assert rotated == {(0, 1, 2, 4, 5, 6): True, (3, 7): False}
