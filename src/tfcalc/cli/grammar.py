"""Questions in words as one table: which words ask for which command line. :mod:`tfcalc.cli.in_words` reads by it."""

from __future__ import annotations

import re

from tfcalc.cli.commands import COUNTED
from tfcalc.units import IN_WORDS

CLASSES = {
    name: frozenset(said.split())
    for name, said in {
        "TRAIN": "train training trained finetune fine-tune finetuning fine-tuning tune tuning pretrain pretraining "
        "sft",
        "FROM-SCRATCH": "train training pretrain pretraining",
        "SERVE": "serve serving served inference infer deploy host users requests vllm sglang",
        "TIME": "long hours days time fast faster slow slower speed cost costs expensive money throughput latency "
        "tokens/s second seconds price prices",
        "FIRST": "ttft tpot itl prefill decode decoding generation",
        "FLOPS": "flops flop macs",
        "MOST": "longest largest biggest highest maximum max most limit fits fit",
        "LARGEST": "largest biggest highest maximum max",
        "LIMITED": "batch sequence context concurrency prompt",
        "SHAPE": "layers layer heads shape width wide depth deep hidden d_model",
        "OPTIMAL": "chinchilla optimal compute-optimal",
        "RUNS": "run runs running",
        "FITS": "model models fit fits",
        "TOOK": "up takes took peak peaks got gets bytes",
        "BYTES": "memory vram ram gb mb bytes big large much size space",
        "VRAM": "memory vram ram",
        "SAVE": "save saves saved saving savings",
        "MONTH": "month months monthly",
        "NEED": "need needed needs require required requires",
        "HARDWARE": "gpu gpus card cards",
        "FFN": "ffn mlp mlps",
        "LENGTHS": "sequence sequences seq length lengths context contexts",
        "COMPUTED": "compute calculate estimate derive",
        "OR": "or vs versus than",
        "OUTWEIGHS": "than or dominate dominates outweigh outweighs exceed exceeds overtake overtakes",
        "TWICE": "double doubles doubling doubled twice",
        "STATES": "optimizer activations gradients logits",
        "FORWARD": "process processing forward inference infer read reading",
        "AFFECTS": "affect affects change changes grow grows scale scales depend depends influence influences",
        "ONE-MORE": "more another additional extra",
        "SHARE": "share fraction percentage percent proportion",
        "BIGGER": "bigger larger",
        "AT-ONCE": "user users request requests",
        "ADAPTER": "lora qlora",
        "PARAMETERS": "parameters params parameter trainable",
        "COUNT": "parameters params weights",
        "IN-FRONT": "batch batches bs batch_size context ctx seq sequence prompt rank tp pp cp ep",
        "UTILISATION": "mfu utilization utilisation",
        "GUESS": "draft drafter drafting speculative speculation speculating speculate eagle medusa mtp",
        "OF-ANY": "lora qlora dpo grpo ppo kv cache activations gradients logits parameters params",
    }.items()
}
"""Words that say what a question asks about."""

NO_QUESTION = "-"
ALONE = " ."
"""End of a line that takes no option but its own: whatever else is said is not understood."""
TABLE: tuple[tuple[str, str], ...] = (
    ("ENERGY", "! energy"),
    ("GUESS CARD|DRAFT-MODEL !SPECULATE|NO-MODEL", "! guesses"),
    ("GUESS CARD|DRAFT-MODEL !NO-MODEL", "serve"),
    ("EXPLAINS MEANT CARD", NO_QUESTION),
    ("MODELS EXPLAINS !CONCEPT|GLANCE", NO_QUESTION),
    (
        "MODELS EXPLAINS|GIVEN|FIGURES",
        "! the question names {number-of-models} models; ask about one of them; tfcalc {compare} puts them side by "
        "side",
    ),
    ("MODELS", "compare"),
    # Of no model: a number of parameters in its place, a card alone, a concept with amounts.
    ("NO-MODEL SIZE RUN ABOUT:6nd|FLOPS", "design {size} --tokens {--tokens} ."),
    ("NO-MODEL SIZE RUN compute !OPTIMAL", "design {size} --tokens {--tokens} ."),
    (
        "NO-MODEL SIZE ABOUT:6nd",
        "! 6ND is 6 x parameters x tokens, and the question says no tokens; "
        "type tfcalc design {size} --tokens {tokens-of-size}, {tokens-a-parameter} for each parameter",
    ),
    ("NO-MODEL OPTIMAL PRICE", "design --budget-usd {--price}"),
    ("NO-MODEL CARD DAYS TRAIN|OPTIMAL !SIZE", "design --days {--days}"),
    ("NO-MODEL SIZE RUN OPTIMAL", "design {size} --tokens {--tokens} ."),
    ("NO-MODEL RUN OPTIMAL", "design --compute {compute-of--tokens} ."),
    ("NO-MODEL SIZE MANY:tokens|OPTIMAL", "design --compute {compute-of-size} ."),
    ("NO-MODEL AMOUNT OPTIMAL", "design --compute {amount} ."),
    ("NO-MODEL AMOUNT model FLOPS TRAIN !SIZE", "design --compute {amount} ."),
    ("NO-MODEL SIZE SHAPE|MEANT:design", "design {size}"),
    ("NO-MODEL PART COUNT GIVEN !CONCEPT|GLANCE|CARD|SIZE", "explain {part}"),
    ("NO-MODEL PART FLOPS GIVEN !CONCEPT|GLANCE|CARD|SIZE", "explain {part} --of flops"),
    ("NO-MODEL BYTES-OF-CARD longest|largest LENGTHS|line BATCH", "solve 'memory <= {--gpu}' --for seq --train"),
    (
        "NO-MODEL check formula|formulas",
        "! a formula is checked by a command of its own; type tfcalc check mha '4h² + 4h', or yours in its place",
    ),
    ("NO-MODEL SIZE TRAIN|SERVE|RUNS|FITS|BYTES|TIME|FLOPS|HARDWARE|OF-ANY", "! size"),
    ("NO-MODEL ONE-CARD model|models LARGEST TRAIN|ADAPTER !LIMITED", "design --memory {memory-of--gpu} --train"),
    ("NO-MODEL ONE-CARD model|models LARGEST !LIMITED", "design --memory {memory-of--gpu} --serve"),
    ("NO-MODEL CARD model|models MOST|RUNS", "! a question is about one model; tfcalc fit MODEL --gpu {--gpu}"),
    ("NO-MODEL FAMILY", "! family"),
    ("NO-MODEL CARD !CONCEPT|TRAIN|SERVE|RUNS|FITS", "gpus {--gpu} ."),
    ("NO-MODEL SEVERAL-CARDS !RUNS|FITS", "gpus {--gpu} ."),
    ("NO-MODEL CARD ABOUT:peakflops !GIVEN", "gpus {--gpu} ."),
    (
        "NO-MODEL CARD CONCEPT|GLANCE !OPENS:card",
        "! '{--gpu}' in the question is a card, and no model is named; name one: tfcalc {usual-model} --gpu {--gpu}",
    ),
    ("NO-MODEL GLANCE does|do NEED VRAM !TRAIN|CARD", "! the question names no model; tfcalc models lists those known"),
    ("NO-MODEL ABOUT:peakflops !CARD", "explain ABOUT"),
    ("NO-MODEL heads FLOPS|PARAMETERS same|change|changes|more|fewer", "explain ABOUT:multiheadattention ."),
    ("NO-MODEL CONCEPT|GLANCE CARD|GIVEN", "explain ABOUT"),
    ("NO-MODEL COMPUTED CONCEPT", "explain ABOUT"),
    ("NO-MODEL", NO_QUESTION),
    # Of one model.
    (
        "ABOUT:kvcachepertoken KV !CARD|CONTEXT|LENGTH|TOKENS|INPUT-TOKENS|SERVE|TIME|TRAIN",
        "explain ABOUT:kvcache --context 1 --cache dynamic",
    ),
    (
        "ABOUT:kvcache one|single token !CARD|CONTEXT|LENGTH|TOKENS|INPUT-TOKENS|TRAIN",
        "explain ABOUT:kvcache --context 1 --cache dynamic",
    ),
    ("EXPLAINS CONCEPT|GLANCE", "explain ABOUT"),
    ("EXPLAINS ONE-WORD !GIVEN", "explain {word} ."),
    ("EXPLAINS", NO_QUESTION),
    ("gqa mha|SAVE !CARD|GIVEN", "compare '{model}' '{model} --attention mha'"),
    ("gqa mqa !CARD|GIVEN", "compare '{model}' '{model} --attention mqa'"),
    ("CHANGE", "compare '{model} {without}' '{model} {change}' {mode}"),
    ("ABOUT:6nd 6nd", "explain ABOUT"),
    ("FORMULA !CARD", "check {formula} {model} ."),
    ("attention FFN BIGGER !CARD|FLOPS", "params"),
    ("attention FFN FLOPS !CARD|TRAIN|TIME|CONCEPT", "flops"),
    ("token context|ctx VRAM cost|costs|take|takes|need|needs !CARD|TRAIN|GIVEN", "explain ABOUT:kvcachepertoken"),
    ("parameters|params gb|gib|gigabytes|bytes !CARD|TRAIN|SERVE|ADAPTER|many", "memory"),
    ("attention FFN TIME|OUTWEIGHS !CARD|COUNT|BYTES", "explain ABOUT:crossover"),
    ("SHARE PART FLOPS !CARD|TRAIN", "flops"),
    ("SHARE PART COUNT !CARD|FLOPS", "params"),
    ("ABOUT:crossover !CARD", "explain ABOUT"),
    ("ONE-MORE AT-ONCE VRAM !CARD|TRAIN|CONCURRENCY", "explain ABOUT:kvcache"),
    ("TWICE LENGTHS TRAIN !GIVEN|CARD|ADAPTER", "compare '{model} --seq 4k' '{model} --seq 8k' --train"),
    ("TWICE batch TRAIN !GIVEN|CARD|ADAPTER", "compare '{model} --batch 1' '{model} --batch 2' --train"),
    ("PART FLOPS ABOUT:backwardpass !CARD|TIME", "explain {part} --of flops --train"),
    ("batch ABOUT:arithmeticintensity CARD !CONCURRENCY|BATCH|TRAIN", "explain ABOUT:roofline"),
    ("ABOUT:arithmeticintensity CARD !TRAIN", "explain ABOUT"),
    ("CARD MANY:users|MANY:requests|MANY:people|MANY:concurrent|MANY:simultaneous !FIRST|PRICE|SLO", "memory --serve"),
    ("much|share|part|fraction STATES TRAIN VRAM !CARD|TYPED", "memory --train"),
    (
        "FLOPS RUN FORWARD !TRAIN",
        "! FLOPs outside of training are counted for each token; type tfcalc {model}, whose line forward has them",
    ),
    ("CARD MANY:tokens fit|fits|kv|cache|KV !TRAIN|ADAPTER", "memory --serve"),
    ("FROM-SCRATCH MANY-CARDS OF-A-CLUSTER !DAYS|ADAPTER|WAY-OF-TRAINING|RUN|SAMPLES|EPOCHS|MAX-STEPS", "plan"),
    (
        "TRAIN MANY-CARDS DAYS !RUN|SAMPLES|EPOCHS|MAX-STEPS",
        "! how long a run takes follows from its tokens, and the question says none; "
        "type tfcalc train {model} --gpu 8xh100 --tokens 1B, which has the hours of a billion",
    ),
    ("FLOPS ABOUT:qkt !CARD|TRAIN", "explain ABOUT"),
    ("MANY:experts !CARD", ""),
    ("MANY:layers CARD offload|offloaded|gpu|vram !TRAIN", "memory --serve --engine llama.cpp"),
    ("ABOUT:tensorparallelism CARD !TRAIN|GIVEN", "serve --for gpus"),
    ("AFFECTS LENGTHS TRAIN VRAM !GIVEN|CARD", "sweep --of memory --train --seq 1k,2k,4k,8k"),
    ("does|why ABOUT:vocabulary TRAIN !CARD|GIVEN|VRAM", "explain ABOUT"),
    ("TOKENS-PER-SECOND", "flops --train --mfu"),
    ("CARD UTILISATION !MFU", "flops --train --mfu"),
    ("tokens MANY:tokens TRAIN !TIME", "explain ABOUT:tokensperparameter"),
    ("tokens OPTIMAL", "explain ABOUT:tokensperparameter"),
    ("active|activated PARAMETERS", "explain ABOUT:activeparameters"),
    ("MANY-CARDS BYTES-OF-CARD !TRAIN|ADAPTER|WAY-OF-TRAINING", "memory --serve"),
    ("MANY-CARDS !TRAIN|ADAPTER|WAY-OF-TRAINING", "serve --for gpus"),
    ("SLO CARD !TRAIN|ADAPTER", "serve"),
    ("SLO !TRAIN|ADAPTER", "serve --for gpus"),
    (
        "SIZE-OF-CONFIG what|many|size|dim|dimension "
        "!GIVEN|CARD|VRAM|COUNT|FLOPS|COMPUTED|TRAIN|SERVE|TIME|ADAPTER|EXPLAINS|TYPED|much|big|large|bytes|why",
        "explain overview.facts.{size-of-config} .",
    ),
    ("PART FLOPS TRAIN !CONCEPT|GLANCE|CARD|token", "explain {part} --of flops --train"),
    ("PART FLOPS RUN !CONCEPT|GLANCE|CARD|token|decode|prefill", "explain {part} --of flops --train"),
    ("PART FLOPS !CONCEPT|GLANCE|CARD|token|decode|prefill", "explain {part} --of flops"),
    ("PART COUNT !CONCEPT|CARD|TRAIN|SERVE|TIME|FLOPS", "explain {part}"),
    ("TYPED MEANT:memory TRAIN", "memory --train"),
    ("TYPED MEANT:memory SERVE", "memory --serve"),
    ("TYPED !MEANT:flops|MEANT:gpus", "{meant}"),
    ("CARD MOST batch|sequence !SERVE", "memory --train"),
    ("CARD MOST LIMITED", "memory --serve"),
    ("CARD RUNS !TRAIN|SERVE|TIME", "fit --serve"),
    ("CARD FIRST RUN|SAMPLES|EPOCHS|MAX-STEPS !SERVE", "train"),
    ("CARD FIRST", "serve"),
    ("ADAPTER PARAMETERS !BYTES|HARDWARE|TIME|FLOPS", "params --lora"),
    ("lora adapter !VRAM|HARDWARE|TIME|FLOPS", "params --lora"),
    ("lora adapters BYTES !VRAM|HARDWARE|TIME|FLOPS", "params --lora"),
    ("compute TRAIN !TIME|HARDWARE", "flops --train"),
    ("qlora", "fit --qlora"),
    ("lora", "fit --lora"),
    ("dpo", "fit --method dpo"),
    ("grpo", "fit --method grpo"),
    ("ppo", "fit --method ppo"),
    ("FLOPS TRAIN", "flops --train"),
    ("FLOPS token TYPED", "flops"),
    ("FLOPS token", ""),
    ("FLOPS decode", "flops --phase decode"),
    ("FLOPS prefill", "flops --phase prefill"),
    ("FLOPS RUN", "flops --train"),
    ("FLOPS", "flops"),
    ("TRAIN TIME !MEANT|RUN|SAMPLES|EPOCHS|MAX-STEPS", "! tokens"),
    ("TRAIN TIME", "train"),
    ("TRAIN ABOUT:activations|ABOUT:gradients|ABOUT:logits !CARD", "explain ABOUT"),
    ("TRAIN ABOUT:activations|ABOUT:gradients|ABOUT:logits !MEANT", "memory --train"),
    ("TRAIN", "fit"),
    ("hours HARDWARE", "train"),
    ("MONTH SERVE|TIME|PRICE !CARD|TRAIN", "explain serve.usd_per_month --for gpus"),
    ("MONTH SERVE|TIME|PRICE !TRAIN", "explain serve.usd_per_month"),
    ("SERVE ABOUT:kvcache !TIME|CARD", "explain ABOUT"),
    ("SERVE ABOUT:kvcache !TIME|MEANT", "memory --serve"),
    ("SERVE VRAM !TIME|HARDWARE", "memory --serve"),
    ("TIME RUN|SAMPLES|EPOCHS|MAX-STEPS !SERVE", "train"),
    ("SERVE|million ONE-CARD cost|costs|price|expensive !PRICE|a|an|one|single|my", "serve --for gpus"),
    ("SERVE|TIME", "serve"),
    ("HARDWARE what|which|smallest|cheapest", "fit --serve"),
    ("weights BYTES", "memory"),
    ("LONG-RUN|SAMPLES|EPOCHS|MAX-STEPS !SERVE|COUNT", "train"),
    ("CONCEPT !CARD", "explain ABOUT"),
    ("CONCEPT !MEANT OPENS:train", "memory --train"),
    ("CONCEPT !MEANT OPENS:serve", "memory --serve"),
    ("CONCEPT !MEANT OPENS:timed", "serve"),
    ("CONCEPT !MEANT", ""),
    ("weights WEIGHTS", "memory"),
    ("GPUS !CARD|FLOPS|COUNT|TYPED", "fit --serve"),
    ("COUNT", "params"),
    ("CARD WEIGHTS", "memory --serve"),
    ("CARD WAY-OF-TRAINING", "fit"),
    ("MEANT:overview", ""),
    ("MEANT:gpus", "fit --serve"),
    ("", "{meant}"),
)
"""What a question has, and the line that answers it: the first row whose terms all hold.

A term in small letters is a word of the question, one in capitals a class of words, an amount that was read by the
option that it is (PRICE, WEIGHTS), or a fact about what was read (``_facts`` of in_words); ``a|b`` is one of several,
``!a|b`` none of them. MANY:x is what "how many" asks about, MEANT:x the command that the first word stands for, and
ABOUT:x a concept that is named, OPENS:x how its number is opened.

A line has the model, the options and the card behind it, and in braces an amount, or what follows from the question
(``VALUES`` of in_words); ``explain ABOUT`` is of the concept that is named. One that begins with "!" is a fact and the
remedy by which the question is refused, or the name of a longer refusal.
"""

ONE_OF_MANY = "h100"
"""The card of a question about how many are needed, where it names none."""
AT_A_GLANCE = ("training memory", "parameter count")
"""Concepts that everything at a glance tells of a model."""
PARTS = {part: part for part in ("attention", "mha", "sdpa", "ffn", "router", "experts", "layer", "embedding")} | {
    "mlp": "ffn"
}
"""Parts of a model whose parameters and FLOPs are opened, by the words for them."""
SIZES_OF_CONFIG = {
    "kv heads": r"(kv|key[- ]value) heads?",
    "head dim": r"heads?[- ](dim|dimension|size|width)",
    "hidden size": r"(hidden|embedding|model) (size|dim|dimension)|d_model",
    "vocab size": r"vocab(ulary)?( size)?",
    "layers": "layers",
    "heads": "heads",
}
"""Sizes that everything at a glance has of a model, and what they are called, each word by the first that has it."""
OF_A_CLUSTER = re.compile(r"(\d+x)?(a100|[hb][1238]00|gb[23]00)(-.*)?", re.ASCII)
"""Cards that runs over many of are known, which ``plan`` estimates by."""
KINDS = ("encoder", "decoder", "encoder-only", "decoder-only")
"""Words for the classic Transformer's halves, beside its sizes."""
LENGTH, PROMPT, FORMAT, CACHE = "--length", "--input-tokens", "--weights", "--kv"
"""A length that nothing is said of, a prompt's, a format, and the cache's: the command decides on the option."""
RATE = "--tokens-per-second"
LIMITS, OF_FIRST_TOKEN = "--slo", ("first", "ttft")
"""How long users may wait: for a token, or for the first one where a word beside says so."""
GUESSES, ACCEPTED, SPECULATE = "--guesses", "--accepted", "--speculate"
"""Tokens that a draft guesses in a step, and the share of them that is accepted: both are --speculate."""
HALVES = {GUESSES: ("how many tokens are guessed", "3"), ACCEPTED: ("how many of them are accepted", "0.7")}
"""What that option is made of: what a question lacks without it, and its value in a line to type."""
AMOUNTS = {
    **dict.fromkeys(("context", "ctx"), "--context"),
    **dict.fromkeys(("sequence", "sequences", "seq", "seqlen", "seq_len"), "--seq"),
    **dict.fromkeys(("batch", "batches", "bs", "batch_size"), "--batch"),
    **dict.fromkeys(("prompt", "prompts", "input"), PROMPT),
    **dict.fromkeys(("output", "outputs", "answer", "answers", "generate", "generating"), "--output-tokens"),
    **dict.fromkeys(("samples", "examples"), "--samples"),
    **dict.fromkeys(("vocabulary", "vocab"), "--vocab-size"),
    **dict.fromkeys(("rank", "r"), "--lora"),
    **dict.fromkeys(("day", "days"), "--days"),
    **{degree: f"--{degree}" for degree in ("tp", "pp", "cp", "ep")},
    "tokens/s": RATE,
    **dict.fromkeys(
        ("guess", "guesses", "guessed", "draft", "drafts", "drafted", "speculate", "speculative", "speculated"), GUESSES
    ),
    **dict.fromkeys(("acceptance", "accepted"), ACCEPTED),
    **{word: option for word, option in COUNTED.items() if option not in ("--tokens",)},
}
"""Options by the word for what an amount is of."""

OF_A_SHARE = {**dict.fromkeys(CLASSES["UTILISATION"], "--mfu"), **dict.fromkeys(("acceptance", "accepted"), ACCEPTED)}
"""Options of a share, by the word beside it."""
SPELLED = tuple(
    (re.compile(pattern, re.ASCII | re.IGNORECASE), text)
    for pattern, text in (
        *((rf"(?<![\w.])(\d[\d.]*)[ -]{word}\b", rf"\g<1>{prefix}") for word, prefix in IN_WORDS.items()),
        (r"(?<![\w.])(\d[\d.]*) (gi?b)\b", r"\1\2"),
        (r"(?<![\w.])(\d[\d.]*) ?(?:ms|msec|milliseconds?)\b", r"\1ms"),
        (r"(?<=\dms) (?:for|to|until) (?:the )?first\b", " first"),
        (r"(?<![\w.])(\d+)[ -]bits?\b", r"\1bit"),
        (r"\b([a-z_]+)=(\d)", r"\1 \2"),
        (r"(?<![\w.])(\d+)([x×]) (?=[a-z])", r"\1 \2 "),
        (r"\b8bit[ -](?:adamw?|optimi[sz]er)\b", "adamw-8bit"),
        (r"\b(?:adamw?|optimi[sz]er) (?:in )?8bit\b", "adamw-8bit"),
        (r"\bper (?:(?:a|one|1) ?)?(?:m|million) tokens?\b", "per million tokens"),
        (
            r"\b(?:generat(?:e|ing)|writ(?:e|ing)|for) (?:1|a|one) ?(?:m|million) (?:output )?tokens\b",
            "per million tokens",
        ),
        (r"(?<![\w.])(\d[\w.,]*) ?tok(?:en)?s? ?(?:/|per) ?s(?:ec(?:ond)?)?\b", r"\1 tokens/s"),
        (r"(?<![\w.])(\d[\d.]*[km]?)-(tokens?|context|gpus?|users?)\b", r"\1 \2"),
        (r"(?<![\w.])(\d[\d.]*) (?:usd|dollars?)\b", r"$\1"),
        (r"(?<![\w.$])(\d[\d.]*)/ ?(?:gpu[ -]?)?(?:h|hr|hour)\b", r"$\1"),
        (r"\bnumber of\b", "how many"),
        (r"(?<![\w.])(\d[\d,.]*)/(\d[\d,.]*)(?![\w.])", r"\1 of \2"),
        (r"\b(bf16|fp16)[- ]mixed(?:[- ]precision)?\b", r"\1-mixed"),
        (r"\bmixed[- ](bf16|fp16)(?:[- ]precision)?\b", r"\1-mixed"),
        (r"\bmixed precision\b", "mixed-precision"),
        (r"\bfeed[- ]?forward(?:[- ](?:networks?|layers?|blocks?))?\b", "ffn"),
        (r"\b(?:in|within) (?:a|one) week\b", "in 7 days"),
        (r"\bzero[- ]stage[- ]([123])\b", r"zero \1"),
        *(
            (rf"\b{kind}[- ]parallel(?:ism)?(?: (?:of|size|degree|=))* (\d+)\b", rf"{short} \1")
            for kind, short in (("tensor", "tp"), ("pipeline", "pp"), ("context", "cp"), ("expert", "ep"))
        ),
        (r"\b(?:samples|sequences|steps) ?(?:/|per) ?s(?:ec(?:ond)?)?\b", "throughput"),
        (r"\btokens? ?(?:/|per|an?) ?(?:day|hour|minute)\b", "throughput"),
        (r"\bcosts? more than\b", "outweigh"),
        (r"\bhow (?:long|large|big|much|high) (?:of )?(?:an? )?(context|prompt|sequence|batch)\b", r"largest \1"),
        (r"(\$\d[\d.]*) ?(?:(?:/|per|an?) ?(?:gpu[ -]?)?(?:h|hr|hour)s?)+\b", r"\1"),
    )
)
"""Spellings of one thing in several words, each with the one that is read."""
LIKE = {"q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0", "gguf": "q4_k_m"}
LIKE |= {"16bit": "bf16", "32bit": "fp32", "w4a16": "int4", "w8a16": "int8"}
"""Formats by what people call them for short: the usual one of that many bits."""
WAYS = {
    "qlora": "--qlora",
    "lora": "--lora",
    "dora": "--lora --dora",
    "dpo": "--method dpo",
    "grpo": "--method grpo",
    "ppo": "--method ppo",
    "fsdp": "--fsdp",
    "fsdp2": "--fsdp",
    "fsdp1": "--zero 3 --layout fsdp1",
    "ddp": "--zero 0",
    **{f"zero {stage}": f"--zero {stage}" for stage in (1, 2, 3)},
    **{f"{name}{stage}": f"--zero {stage}" for name in ("zero", "zero-") for stage in (1, 2, 3)},
    **{
        f"{no} {kind}checkpointing": "--checkpointing none"
        for no in ("no", "without")
        for kind in ("gradient ", "activation ", "")
    },
    **{f"{kind}checkpointing": "--checkpointing full" for kind in ("gradient ", "activation ", "")},
    **{f"{no} flash attention": "--attention-kernel eager" for no in ("no", "without")},
    "flash attention": "--attention-kernel flash",
    **{f"{short}-mixed": f"--precision {short}-mixed" for short in ("bf16", "fp16")},
    "mixed-precision": "--precision bf16-mixed",
    "cpu offload": "--offload all",
    "optimizer offload": "--offload optimizer",
    "liger": "--backend fused",
    "megatron": "--backend megatron",
    **{name: f"--optimizer {name}" for name in ("adamw-8bit", "adafactor", "sgd", "lion", "muon")},
}
"""Options of training by the words that ask for them, the longer ones first."""
ENGINES = {**dict.fromkeys(("llama.cpp", "llamacpp", "ollama"), "llama.cpp"), "sglang": "sglang"}
ENGINES |= dict.fromkeys(("tensorrt-llm", "trt-llm", "trtllm"), "tensorrt-llm")
"""Engines other than the usual one, by the words for them."""
WITHOUT = {"--checkpointing": "--checkpointing none", "--attention-kernel": "--attention-kernel eager"}
"""What a way of training is compared with, by its option, where that is not tfcalc's default."""
OF_SEVERAL, SEVERAL = ("--zero", "--fsdp"), "8"
"""How options begin that share a model over GPUs, and over how many where a question says none: a server's."""
OF_TRAINING = ("--method", "--optimizer", "--zero", "--fsdp", "--offload", "--checkpointing", "--precision")
"""How options begin that only training has."""
OF_A_RUN = ("--tokens", "--samples", "--epochs", "--max-steps")
