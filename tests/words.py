"""Sentences, options and words that users must not meet any more, each as a pattern with what is written instead.

Patterns are matched without regard to case, any white space standing for any other, against all text that a user can
read (tests/test_words.py). A word of plain English that is also a name or a term elsewhere is matched with its company.
"""

from __future__ import annotations

SENTENCES = {
    r"left out by the config": "transformers' defaults used for fields missing from the config: …",
    r"as transformers has (it|them)": "transformers' defaults",
    r"alive together": "peak = the largest amount of memory live at once",
    r"at its own highest moment": "peak = the largest amount of memory live at once",
    r"as PyTorch keeps it": "saved tensors as in PyTorch 2.13 on CUDA",
    r"which the model has of it": "one of 32 identical layers",
    r"(people|everybody|everyone) forgets?": "output projection",
    r"mixes the heads": "output projection",
    r"(say|says|said) nothing": "has no effect",
    r"with implementation": "needs --backend megatron (it is auto)",
    r"keeps? is not known": "training memory is not supported for mamba",
    r"off PyTorch's": "training memory is not supported for mamba",
    r"families are known": "`tfcalc models --trainable` lists the 187 families that are",
    r"what the exact count has beyond it": "indented rows: how the exact count differs from 6ND",
    r"beside which adapters": "modules to adapt, as comma-separated name suffixes",
    r"by the ends of their names": "modules to adapt, as comma-separated name suffixes",
    r"to the last one, FLOPs": "Checked against PyTorch: parameters equal for 272 model types; …",
    r"so many (for each|of them|at once|at most|tokens|norms|memory|rows|sequences)": "one per token; the number",
    r"in so much memory": "does it fit in this much memory",
    r"over so many": "over this many tokens",
    r"so manieth|so-manieth": "every k-th",
    r"biases move no product": "A bias adds lbh additions and no matrix product.",
    r"the mixture of the values": "P V, l × l by l × d, costs the same 2bl²h.",
    r"GiB are 2(³⁰|\^30)|stand by default": "Bytes are shown in GiB (2³⁰) unless `--units si`",
}
"""The sentences that stood, and the turns of phrase that they were made of."""

OPTIONS = {
    r"--recipe\b": "--precision",
    r"--accumulate\b": "--grad-accum",
    r"--implementation\b": "--backend",
    r"--devices\b": "--gpus",
    r"--interleave\b": "--vpp",
    r"--batched\b": "--max-num-batched-tokens",
    r"--frozen-weights\b": "--base-weights",
    r"--(recipe|precision) mixed-fp32-grads": "bf16-master-fp32-grads",
    r"\brecipes? (fp32|fp16|bf16|amp|mixed)\b": "precision bf16-master",
    r"\btfcalc\.Definitions\b|\bDefinitions\(": "tfcalc.Conventions",
    r"\bimplementation (own|transformers|torch|fused|megatron|')": "backend transformers",
    r"\brun=": "workload=",
}
"""Options, their values and arguments of the library under the names that they had."""

WORDS = {
    r"\balive\b": "live",
    r"(?<![./])\bheld\b(?!\.\w)": "stored; compared with (held against)",
    r"\bkept\b": "saved (for backward); stored",
    r"\b(autograd|PyTorch|backward|training|attention|transformers|a layer|a model|a \w+ step) keeps\b": "saves",
    r"\bnot there\b|\bthere then\b|\bthere for a moment\b|\bthere all the time\b": "already freed; temporary buffers",
    r"\b(stand|stands|standing|stood) (?!for\b)": "is, are; follows; printed under",
    r"\b(told|tell|tells) apart\b": "distinguished",
    r"\bkin\b|\bkinship\b": "variants",
    r"\bleaf\b(?! (without|tensor)|:)": "operation",
    r"\blump\b": "remainder",
    r"(?-i:\bhabits?\b)(?!/)": "backend",
    r"\brecipes?\b(?!\.py|/)": "precision",
    r"\bso many\b|\bso often\b|\bso much memory\b": "the number itself; this many; up to N",
    r"\bthat a token goes through\b": "active parameters (per token)",
    r"\bcomputes? again\b|\bcomputed (again|twice)\b": "recomputed",
    r"\bwant of room\b": "hidden at this width",
    r"\bthe most that is (alive|live together)": "peak",
    r"(?-i:\bPublished\b(?=[`(.:]))": "HFModel",
    r"(?-i:\b(Ledger|Witness)\b)": "MemoryTracker, PeakRecorder",
}
"""Our own words, where the field has a term."""
