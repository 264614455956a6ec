"""What transformers' code does in a family that the model's parts do not tell: where norms stand, what drops, formats.

A family that is not named here runs as Llama does, with norms where their number suggests.
"""

from __future__ import annotations

from typing import NamedTuple

Probability = tuple[str, float]
"""The field of a config with a probability of dropout, and what it is where a config has none."""

NEVER: Probability = ("", 0.0)

Cap = tuple[str, float | None]
"""The field of a config with a cap of scores or logits (c·tanh(x/c)), and what it is where a config has none."""


Flag = tuple[str, bool]
"""A field of a config that says yes or no, and what it is where a config has none."""


class Habits(NamedTuple):
    """How a family's modules are written.

    ``norms``: before each sub-layer (``pre``), after its sum with the stream (``post``), before the sub-layer and
    behind it (``sandwich``), or before sub-layers that stand side by side (``parallel``), or only ``behind`` a
    sub-layer, or by their names, as Gemma 4 has them (``gemma4``); where it is empty, their number tells.
    ``norms_in_line``: whether a norm behind a sum is called in the line of the sum, so that a variable has what was
    added until the norm has run. ``side_by_side``: the fields that say that sub-layers stand side by side, each with
    what it is where a config leaves it out. ``rmsnorm``: whose code (``llama``, ``gemma``, ``gemma4``, ``helium``,
    ``olmo``, ``t5``). ``softmax``: the format that attention's runs in, ``float32``, that of its scores (``own``, and
    ``less highest`` where each row's highest is taken off first) or of the ``stream``.
    ``masked``: whether its eager scores get a mask without padding.

    ``dropped``, ``dropped_scores``, ``dropped_embeddings`` and ``dropped_inside`` are the fields for dropout behind a
    sub-layer, of attention's probabilities, of the embedding, and behind the activation; ``dropped_output`` is that
    behind the last norm of a stack.

    ``loss``: the format of the logits that the loss reads (``float32``, or their ``own``), ``shifted`` whether labels
    are moved by one token, so that there is a copy of them. ``positions``: whether the numbers of the positions are
    made for each token (``tokens``), for each place (``places``), or are a buffer (``buffer``); ``sides`` is tokens
    in an encoder and places in its decoder.

    ``segments``: whether token types are made for each token (``tokens``), for each place (``places``), or are a buffer
    (``buffer``). ``drops_behind`` are the kinds of the sub-layers that ``dropped`` is at work behind (None: of all).
    ``activations``: ``by name``, or GELU is written in Python, by its ``tanh``, or by its ``erf`` whatever its name is.
    ``scores_in_float32``: whether queries and keys are put into fp32 first. ``limits_scores``: whether scores are the
    larger of themselves and the smallest number (``max``), or masked ones are ``filled``. ``disentangled``: whether
    they are DeBERTa's, and padding is taken out of them and of the embeddings. ``indexes``: whether heads of keys and
    values are found by an index, a number for each. ``masks_with_alibi``: whether the mask for sdpa has ALiBi's slopes
    in it, if ``alibi`` is given.

    ``given_ones``: whether a causal stack gets a mask of ones that only sdpa's reading of its numbers takes away.
    ``inside_as_weights``: whether what a network's last map reads is first put into the format of its weights.
    ``scaled_output``: the fields of which the first that is given says whether what a decoder made is scaled for the
    head; where none is, it is scaled (None: never). ``holds_outputs``: whether a layer's variables hold what its
    sub-layers made until it ends. ``two_families``: whether encoder and decoder are models of two families, which run
    as these do.

    ``capped_scores`` and ``capped_logits`` are the fields for caps. ``multiplied`` by a number are the ``embedding``,
    what is added to the stream (``sub-layers``), or ``logits``; ``keeps_multiplier`` whether that of the embedding is a
    tensor, made anew. ``copies_ids``: whether the table of words reads a copy of the token ids.
    ``sinks``: whether their softmax is that of all scores ``less highest``, or of scores ``beside`` the sink as they
    are; or a sink is a ``scale`` of the mixture. ``gates_in_float32``: whether the gates of heads are put into fp32
    for their activation.

    ``layernorm``: whose code (``kernel`` is PyTorch's alone, which runs in what makes logits in any case).
    ``norms_heads``: how norms of queries and keys run: over as much as they have weights for, or over ``each`` head;
    then ``split`` into heads, or written anew (``placed``); ``norms_turned_heads`` whether that is after their
    rotation. ``normed_embedding``: whether a stack's last norm runs before its first layer too. ``clips`` is the field
    for a limit of queries, keys and values, which are cut in place. ``places_heads``: whether queries, keys and values
    are written anew, head by head. ``norms_turned`` is the field (if any) and the default for norms without weights of
    queries and keys behind their rotation, ``tempers`` for a factor of queries that are not rotated, for each place;
    ``tempers_all`` whether all queries have one.

    ``turns_in_float32``: whether queries and keys are rotated in fp32. ``angles``: the format of cos and sin
    (``float32``, the weights' ``own``, or both as one ``complex`` number); ``angles_by_type`` whether layers with a
    window have others than those without,
    ``angles_by_layer`` whether each layer makes its own, or puts them in another order first,
    ``half_angles`` whether they are half as wide as what they turn, ``angles_by_turn`` whether they are made anew for
    queries and for keys, ``angles_by_token`` whether they are made
    for each token. ``joins_turned``: whether heads that are turned
    whole are joined with what is left (nothing) all the same. ``masks`` is how many are made: one, or one for layers
    with a window and one for those without.

    ``router``: a ``softmax`` of all logits, of the best of them (``best first``), or a ``sigmoid``; ``groups`` has a
    softmax, but may leave out groups of experts; in a ``gathered softmax`` something else says which are chosen; a
    ``sparse mixer`` draws two; with ``all``, all experts run for every token.
    ``router_logits``: whether logits stay as they are (``own``), are brought to ``float32``, or are a product of
    ``copies`` in fp32; ``router_weights`` are in ``float32`` or the format of all (``own``). ``normalizes`` is the
    field (if any) and the default for dividing the chosen experts' weights by their sum, ``normalizes_in_place``
    whether that needs a copy of them, ``routes_in_float32`` whether these stay so. ``clamps_gates``: those of GPT-OSS.

    ``fused``: whether a kernel runs gates, and one rotations (no family's own code: tfcalc.implementations.fused).
    """

    norms: str = ""
    fused: bool = False
    rmsnorm: str = "llama"
    softmax: str = "float32"
    masked: bool = True
    dropped: Probability = NEVER
    dropped_scores: Probability = ("attention_dropout", 0.0)
    dropped_embeddings: Probability = NEVER
    dropped_inside: Probability = NEVER
    dropped_output: Probability = NEVER
    loss: str = "float32"
    shifted: bool = True
    positions: str = "places"
    segments: str = "places"
    drops_behind: tuple[str, ...] | None = None
    activations: str = "by name"
    given_ones: bool = False
    inside_as_weights: bool = False
    scaled_output: tuple[str, ...] | None = None
    holds_outputs: bool = False
    norms_in_line: bool = False
    two_families: bool = False
    side_by_side: tuple[tuple[str, bool], ...] = ()
    scores_in_float32: bool = False
    limits_scores: str = ""
    indexes: bool = False
    masks_with_alibi: bool = False
    disentangled: bool = False
    capped_scores: Cap = ("", None)
    capped_logits: Cap = ("", None)
    multiplied: tuple[str, ...] = ()
    keeps_multiplier: bool = False
    copies_ids: bool = False
    layernorm: str = "kernel"
    norms_heads: str = ""
    norms_turned_heads: bool = False
    normed_embedding: bool = False
    clips: str | None = None
    norms_turned: Flag = ("", False)
    tempers: Flag = ("", False)
    tempers_all: bool = False
    places_heads: bool = False
    sinks: str = "less highest"
    gates_in_float32: bool = False
    turns_in_float32: bool = False
    angles: str = "own"
    angles_by_type: bool = False
    angles_by_layer: bool = False
    angles_by_turn: bool = False
    angles_by_token: bool = False
    joins_turned: bool = False
    half_angles: bool = False
    masks: int = 1
    router: str = "softmax"
    router_logits: str = "own"
    router_weights: str = "own"
    normalizes: Flag = ("norm_topk_prob", False)
    normalizes_in_place: bool = True
    routes_in_float32: bool = False
    clamps_gates: bool = False


LLAMA = Habits()
GPT2 = Habits(
    holds_outputs=True,
    softmax="own",
    dropped=("resid_pdrop", 0.1),
    dropped_scores=("attn_pdrop", 0.1),
    dropped_embeddings=("embd_pdrop", 0.1),
)
BERT = Habits(
    norms="post",
    norms_in_line=True,
    softmax="own",
    masked=False,
    dropped=("hidden_dropout_prob", 0.1),
    dropped_scores=("attention_probs_dropout_prob", 0.1),
    dropped_embeddings=("hidden_dropout_prob", 0.1),
    loss="own",
    shifted=False,
    positions="buffer",
)
BART = Habits(
    norms="post",
    softmax="own",
    dropped=("dropout", 0.1),
    dropped_embeddings=("dropout", 0.1),
    dropped_inside=("activation_dropout", 0.0),
    loss="own",
    shifted=False,
    positions="sides",
    given_ones=True,
    multiplied=("embedding",),
)
MBART = BART._replace(norms="pre")
PEGASUS = MBART._replace(positions="places")
T5 = Habits(
    rmsnorm="t5",
    softmax="own",
    dropped=("dropout_rate", 0.1),
    dropped_scores=("dropout_rate", 0.1),
    dropped_embeddings=("dropout_rate", 0.1),
    dropped_inside=("dropout_rate", 0.1),
    dropped_output=("dropout_rate", 0.1),
    loss="own",
    shifted=False,
    inside_as_weights=True,
    scaled_output=("scale_decoder_outputs", "tie_word_embeddings"),
)
COHERE = Habits(
    norms="parallel",
    layernorm="python",
    norms_heads="each",
    turns_in_float32=True,
    multiplied=("logits",),
)
GRANITE = Habits(multiplied=("embedding", "sub-layers", "logits"))
GLM = Habits(angles_by_layer=True, joins_turned=True)
GEMMA2 = Habits(
    rmsnorm="gemma",
    multiplied=("embedding",),
    masks=2,
    capped_scores=("attn_logit_softcapping", 50.0),
    capped_logits=("final_logit_softcapping", 30.0),
)
GEMMA4 = Habits(
    norms="gemma4",
    rmsnorm="gemma4",
    multiplied=("embedding",),
    masks=2,
    angles_by_type=True,
    normalizes=("", True),
    routes_in_float32=True,
    capped_logits=("final_logit_softcapping", None),
)
OLMO2 = Habits(norms="behind", rmsnorm="olmo", angles="float32")
HABITS: dict[str, Habits] = {
    "bart": BART,
    "bert": BERT,
    "bigbird_pegasus": PEGASUS,
    "blenderbot": PEGASUS,
    "blenderbot-small": BART._replace(positions="places"),
    "deepseek_v2": Habits(router="groups", router_logits="copies", angles="complex", turns_in_float32=True),
    "deepseek_v3": Habits(router="sigmoid", router_logits="copies", normalizes=("norm_topk_prob", True)),
    "cohere": COHERE,
    "cohere2": COHERE._replace(masks=2),
    "encoder-decoder": Habits(loss="own", shifted=False, two_families=True),
    "ernie4_5": Habits(angles="float32", angles_by_layer=True, turns_in_float32=True),
    "gemma": Habits(rmsnorm="gemma", multiplied=("embedding",)),
    "gemma2": GEMMA2,
    "gemma3_text": Habits(
        rmsnorm="gemma",
        multiplied=("embedding",),
        masks=2,
        angles_by_type=True,
        capped_scores=("attn_logit_softcapping", None),
        capped_logits=("final_logit_softcapping", None),
    ),
    "flint": Habits(sinks="beside", scores_in_float32=True, normalizes=("", True)),
    "gemma4": GEMMA4._replace(copies_ids=True),
    "gemma4_text": GEMMA4,
    "gemma4_unified_text": GEMMA4,
    "gpt_oss": Habits(
        rmsnorm="olmo",
        router="best first",
        clamps_gates=True,
        joins_turned=True,
        half_angles=True,
        masks=2,
    ),
    "glm": GLM,
    "glm4": GLM._replace(norms="sandwich"),
    "gpt2": GPT2,
    "granite": GRANITE,
    "granite_swa": GRANITE._replace(masks=2, sinks="scale"),
    "gpt_neox": Habits(
        dropped=("hidden_dropout", 0.0),
        dropped_embeddings=("hidden_dropout", 0.0),
        side_by_side=(("use_parallel_residual", True),),
    ),
    "helium": Habits(rmsnorm="helium", angles_by_layer=True),
    "laguna": Habits(masks=2, gates_in_float32=True, angles_by_type=True, joins_turned=True),
    "lfm3": Habits(masks=2, angles="float32", angles_by_type=True),
    "m2m_100": MBART._replace(dropped_scores=("attention_dropout", 0.1)),
    "marian": BART._replace(positions="places"),
    "mbart": MBART,
    "mt5": T5._replace(scaled_output=None),
    "mvp": BART._replace(positions="tokens"),
    "ministral3": Habits(tempers_all=True),
    "mixtral": Habits(normalizes=("", True), routes_in_float32=True),
    "nanochat": Habits(norms_turned_heads=True, normed_embedding=True, capped_logits=("final_logit_softcapping", 15.0)),
    "nemotron": Habits(joins_turned=True, layernorm="plus one"),
    "olmo": Habits(layernorm="float32", clips="clip_qkv", angles="float32"),
    "olmo2": OLMO2,
    "olmoe": Habits(clips="clip_qkv"),
    "olmo3": OLMO2._replace(masks=2),
    "opt": Habits(dropped=("dropout", 0.1), positions="tokens"),
    "pegasus": PEGASUS,
    "phi": Habits(
        joins_turned=True,
        norms="parallel",
        norms_heads="placed",
        dropped=("resid_pdrop", 0.0),
        dropped_embeddings=("embd_pdrop", 0.0),
    ),
    "phi3": Habits(joins_turned=True, dropped=("resid_pdrop", 0.0)),
    "seed_oss": Habits(dropped=("residual_dropout", 0.1), dropped_scores=("attention_dropout", 0.1)),
    "stablelm": Habits(joins_turned=True, norms_heads="split", dropped=("hidden_dropout", 0.0)),
    "seamless_m4t": MBART._replace(
        dropped_scores=("attention_dropout", 0.1), drops_behind=("attention",), given_ones=False
    ),
    "starcoder2": Habits(dropped=("residual_dropout", 0.0)),
    "plbart": BART._replace(dropped_scores=("attention_dropout", 0.1)),
    "t5": T5,
    "t5gemma": GEMMA2._replace(
        dropped=("dropout_rate", 0.0),
        dropped_embeddings=("dropout_rate", 0.0),
        dropped_output=("dropout_rate", 0.0),
        dropped_scores=("attention_dropout", 0.0),
        capped_scores=("decoder.attn_logit_softcapping", 50.0),
        capped_logits=("decoder.final_logit_softcapping", 30.0),
        keeps_multiplier=True,
        shifted=False,
    ),
    "umt5": T5._replace(scaled_output=()),
    "vaultgemma": GEMMA2,
}
"""By ``model_type``."""
