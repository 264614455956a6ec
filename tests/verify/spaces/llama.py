"""Llama and its kin."""

from random import Random
from typing import Any

from tests.verify.random_configs import coin, grouped, space

CLASSES = {
    "llama": ("Llama", "sqt"),
    "qwen2": ("Qwen2", "sqt"),
    "qwen3": ("Qwen3", "sqt"),
    "gemma": ("Gemma", "st"),
    "gemma2": ("Gemma2", "st"),
    "phi3": ("Phi3", "st"),
    "mistral": ("Mistral", "sqt"),
    "ministral3": ("Ministral3", "sqt"),
    "ministral": ("Ministral", "sqt"),
    "granite": ("Granite", ""),
    "glm": ("Glm", "st"),
    "glm4": ("Glm4", "st"),
    "olmo": ("Olmo", "s"),
    "olmo2": ("Olmo2", "s"),
    "olmo3": ("Olmo3", "s"),
    "exaone4": ("Exaone4", "sqt"),
    "ernie4_5": ("Ernie4_5", ""),
    "seed_oss": ("SeedOss", "sqt"),
    "smollm3": ("SmolLM3", "sqt"),
    "arcee": ("Arcee", "sqt"),
    "apertus": ("Apertus", "t"),
    "bitnet": ("BitNet", ""),
    "cohere": ("Cohere", ""),
    "cohere2": ("Cohere2", ""),
    "nemotron": ("Nemotron", "sqt"),
    "stablelm": ("StableLm", "st"),
    "helium": ("Helium", "st"),
    "hyperclovax": ("HyperCLOVAX", ""),
    "iquestcoder": ("Llama", ""),
    "internlm3": ("Llama", ""),
    "jais2": ("Jais2", ""),
    "cwm": ("Cwm", ""),
    "nanochat": ("NanoChat", ""),
    "vaultgemma": ("VaultGemma", ""),
    "granite_swa": ("GraniteSWA", ""),
    "diffllama": ("DiffLlama", "sqt"),
    "hunyuan_v1_dense": ("HunYuanDenseV1", "s"),
}
"""What the classes of a type begin with, and which of them there are: for sequences, questions, tokens."""

HEADS = {"s": "ForSequenceClassification", "q": "ForQuestionAnswering", "t": "ForTokenClassification"}
FLAGS = (
    "attention_bias",
    "mlp_bias",
    "use_bias",
    "attention_out_bias",
    "use_qk_norm",
    "use_qkv_bias",
    "qk_layernorm",
    "use_parallel_residual",
    "use_post_norm",
)
"""Every flag of the kin: a type that knows no such flag must not heed it."""


SLIDING = (
    "smollm3",
    "ministral",
    "ministral3",
    "mistral",
    "qwen2",
    "qwen3",
    "phi3",
    "cwm",
    "granite_swa",
    "gemma2",
    "vaultgemma",
    "cohere2",
    "olmo3",
    "exaone4",
)
"""Those whose layers may see a window."""
BY_ONE = ("mistral", "ministral3", "phi3")
"""Of these, those whose layers are all alike."""
WHOLE = ("stablelm", "helium", "bitnet")
"""Those whose heads must split the hidden size."""


def windowed(random: Random, layers: int, *, listed: bool = True) -> dict[str, Any]:
    """A window that some layers see: by the type's own rule, or as a list says."""
    types = random.choices(["sliding_attention", "full_attention"], k=layers)
    rule = {"use_sliding_window": coin(random), "max_window_layers": random.randint(0, layers)}
    by_list = {"layer_types": types, "use_sliding_window": True} if listed and coin(random) else rule
    return {"sliding_window": random.randint(3, 9), **by_list}


@space("gemma3_text")
def gemma3(random: Random) -> dict[str, Any]:
    """Its classes have two names."""
    classes = ["Gemma3TextModel", "Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"]
    return kin(random) | {
        "architectures": [random.choice(classes)],
        "hidden_activation": random.choice(["gelu", "silu"]),
        **windowed(random, 3),
        "num_hidden_layers": 3,
    }


@space("emu3_text_model")
def emu3(random: Random) -> dict[str, Any]:
    """Its bare class has two names."""
    return kin(random) | {"architectures": [random.choice(["Emu3TextModel", "Emu3ForCausalLM"])]}


@space("eurobert")
def eurobert(random: Random) -> dict[str, Any]:
    """An encoder, with heads of its own."""
    heads = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
    return kin(random) | {"architectures": [f"EuroBert{random.choice(heads)}"]}


@space("mellum")
def mellum(random: Random) -> dict[str, Any]:
    """Experts in some layers."""
    drawn = grouped(random, head_dim=True) | {
        "attention_bias": coin(random),
        "moe_intermediate_size": random.choice([8, 16]),
        random.choice(["num_experts", "num_local_experts"]): random.choice([4, 6]),
        "num_experts_per_tok": random.randint(1, 3),
        "architectures": [random.choice(["MellumModel", "MellumForCausalLM"])],
    }
    layers = drawn["num_hidden_layers"]
    drawn |= {"mlp_layer_types": random.choices(["sparse", "dense"], k=layers)} if coin(random) else {}
    return drawn | windowed(random, layers)


def kin(random: Random) -> dict[str, Any]:
    """Biases anywhere, heads of any width, any number of labels; each flag is given as often as not."""
    labels = {"num_labels": random.randint(2, 5)} if coin(random) else {}
    act = {"hidden_act": random.choice(["silu", "gelu_new", "relu", "prelu", "xielu"])} if coin(random) else {}
    flags = {flag: coin(random) for flag in FLAGS if coin(random)}
    return grouped(random, head_dim=True) | labels | act | flags


def of(model_type: str) -> None:
    """The space of one type, with its classes."""
    begin, further = CLASSES[model_type]
    heads = ["Model", "ForCausalLM", *(HEADS[head] for head in further)]

    @space(model_type)
    def draw(random: Random) -> dict[str, Any]:
        drawn = kin(random) | {"architectures": [begin + random.choice(heads)]}
        if model_type == "internlm3":  # transformers has one bias for both
            drawn["attention_bias"] = drawn["mlp_bias"] = coin(random)
        if model_type in ("ministral", "hunyuan_v1_dense"):  # transformers needs it
            drawn.setdefault("head_dim", random.choice([4, 8, 10]))
        if model_type == "diffllama":  # pairs of heads
            drawn["num_key_value_heads"] = random.choice([2, drawn["num_attention_heads"]])
        if model_type in WHOLE and "head_dim" in drawn:
            drawn["head_dim"] = drawn["hidden_size"] // drawn["num_attention_heads"]
        if model_type in SLIDING and coin(random):
            drawn |= windowed(random, drawn["num_hidden_layers"], listed=model_type not in BY_ONE)
        return drawn


for each in CLASSES:
    of(each)
