"""What transformers' code does that a model's parts do not tell: where norms stand, what is dropped, which formats."""

from __future__ import annotations

from typing import NamedTuple

Flag = tuple[str, bool]
"""A field of a config that says yes or no (none: ""), and what it is where a config has none."""

Probability = tuple[str, float]
"""The field of a config with a probability of dropout, and what it is where a config has none."""

NEVER: Probability = ("", 0.0)

Cap = tuple[str, float | None]
"""The field of a config with a cap of scores or logits (c·tanh(x/c)), and what it is where a config has none."""


class Habits(NamedTuple):
    """How a family's modules are written; the defaults are Llama's."""

    # -- the embedding

    positions: str = "places"
    """The numbers of the positions are made for each token (``tokens``), for each place (``places``), or are a
    ``buffer``; ``sides`` is tokens in an encoder and places in its decoder."""
    segments: str = "places"
    """So are token types."""
    keeps_multiplier: bool = False
    """What the embedding is multiplied by is a tensor, made anew."""
    normed_embedding: bool = False
    """A stack's last norm runs before its first layer, too."""

    # -- layers

    norms: str = ""
    """Before each sub-layer (``pre``), after its sum with the stream (``post``), before the sub-layer and behind it
    (``sandwich``), before sub-layers that stand side by side (``parallel``), or only ``behind`` a sub-layer; where it
    is empty, their number tells."""
    norms_in_line: bool = False
    """A norm behind a sum is called in the line of the sum: a variable has what was added until the norm has run."""
    side_by_side: tuple[Flag, ...] = ()
    """The fields that say that sub-layers stand side by side."""
    holds_outputs: bool = False
    """A layer's variables hold what its sub-layers made until it ends."""
    multiplied: tuple[str, ...] = ()
    """By a number: the ``embedding``, what is added to the stream (``sub-layers``), or ``logits``."""
    given_ones: bool = False
    """A causal stack gets a mask of ones that only sdpa's reading of its numbers takes away."""

    # -- dropout

    dropped: Probability = NEVER
    """Behind a sub-layer."""
    drops_behind: tuple[str, ...] | None = None
    """The kinds of the sub-layers that it is at work behind (None: all)."""
    dropped_scores: Probability = ("attention_dropout", 0.0)
    """Of attention's probabilities."""
    dropped_embeddings: Probability = NEVER
    dropped_inside: Probability = NEVER
    """Behind a network's activation."""
    dropped_output: Probability = NEVER
    """Behind the last norm of a stack."""

    # -- norms, activations, maps

    rmsnorm: str = "llama"
    """Whose code: ``llama``, ``gemma``, ``helium``, ``olmo``, ``t5``."""
    layernorm: str = "kernel"
    """Whose code: ``kernel`` is PyTorch's alone, which runs in what makes logits in any case."""
    activations: str = "by name"
    """Or GELU is written in Python, by its ``tanh``, in one node of its own (``megatron``), or by its ``erf`` whatever
    its name is."""
    turns_weights: bool = False
    """Maps read a view of their weights, of which autocast makes a copy each time."""
    inside_as_weights: bool = False
    """What a network's last map reads is first put into the format of its weights."""

    # -- queries, keys and values

    indexes: bool = False
    """Heads of keys and values are found by an index, a number for each."""
    clips: str | None = None
    """The field for a limit of queries, keys and values, which are cut in place."""
    norms_heads: str = ""
    """Norms of queries and keys run over as much as they have weights for, or over ``each`` head; then heads are
    ``split``, or written anew (``placed``)."""
    norms_turned_heads: bool = False
    """They run after the rotation."""
    tempers_all: bool = False
    """All queries have one."""

    # -- rotary positions

    angles: str = "own"
    """The format of cos and sin: ``float32``, the weights' ``own``, or both as one ``complex`` number."""
    angles_by_type: bool = False
    """Layers with a window have others than those without."""
    angles_by_layer: bool = False
    """Each layer makes its own, or puts them in another order first."""
    angles_by_turn: bool = False
    """They are made anew for queries and for keys."""
    angles_by_token: bool = False
    """They are made for each token, not for each place."""
    half_angles: bool = False
    """They are half as wide as what they turn."""
    turns_in_float32: bool = False
    """Queries and keys are rotated in fp32."""
    joins_turned: bool = False
    """Heads that are turned whole are joined with what is left (nothing) all the same."""

    # -- scores and what is made by them

    masked: bool = True
    """Eager scores get a mask even where nothing is padding."""
    masks: int = 1
    """How many are made: one, or one for layers with a window and one for those without."""
    masks_sdpa: bool = False
    """sdpa gets a mask whatever it says, with ALiBi's slopes in it if ``alibi`` is given."""
    scores_in_float32: bool = False
    """Queries and keys are put into fp32 first."""
    capped_scores: Cap = ("", None)
    limits_scores: str = ""
    """Masked scores are ``filled``."""
    softmax: str = "float32"
    """The format that it runs in: ``float32``, that of the scores (``own``; ``less highest`` where each row's highest
    is taken off first), or of the ``stream``."""
    sinks: str = "scores - row maximum"
    """The softmax of sinks and scores is that of all ``less highest``, or of scores ``beside`` the sink as they are; or
    a sink is a ``scale`` of the mixture."""

    # -- experts

    router: str = "softmax"
    """Of all logits, of the best of them (``best first``), or a ``sigmoid``; ``groups`` has a softmax, but may leave
    out groups of experts; in a ``gathered softmax`` something else says which are chosen; a ``sparse mixer`` draws
    two."""
    router_logits: str = "own"
    """Logits stay as they are, are brought to ``float32``, or are a product of ``copies`` in fp32."""
    router_weights: str = "own"
    """They are in the format of all weights, or in ``float32``."""
    normalizes: Flag = ("norm_topk_prob", False)
    """The chosen experts' weights are divided by their sum."""
    normalizes_in_place: bool = True
    """That needs a copy of them."""
    clamps_gates: bool = False
    """The experts' gates are cut, as GPT-OSS has them."""

    # -- logits and loss

    scaled_output: tuple[str, ...] | None = None
    """The fields of which the first that is given says whether what a decoder made is scaled for the head; where none
    is, it is scaled (None: never)."""
    loss: str = "float32"
    """The format of the logits that it reads, or their ``own``; ``by class``: this where they are of words."""
    shifted: bool = True
    """Labels are moved by one token, so that there is a copy of them."""

    # -- no family's own code

    fused: bool = False
    """A kernel runs gates, and one rotations (tfcalc.implementations.fused)."""


LLAMA = Habits()
