"""What inputs are made of: sizes, numbers, words, and junk."""

from __future__ import annotations

import math
import random
from typing import Any

words = str.split

SIZES = [
    *words("1 2 3 4 5 6 8 12 16 32 63 64 100 128 256 512 768 1000 1024 4096 8k 1e3 4_096 128Ki 32000 50257 1M"),
    *words("7B 1e12 999983 999999999989"),
]

NUMBERS = [
    *words("0 -1 -0 +1 00 007 1e308 1e309 1e999 1e1000 nan NaN -nan inf -inf Infinity 999999999999"),
    *words("1000000000000 1000000000001 1e12 1e13 1000000000000000000000000000000 1_0_0 1__0 _1 1_ 1,000 1,00"),
    *words(",1 0x10 0b1 0o7 1e3 1e-3 1e+3 1e-999 1.5 1.0 1. 12.0 .5 0.0 1.5k 1k 1K 1Ki 1Mi 1Gi 1Ti 1M 1m 1T"),
    *words("1P 1E 1Z 5%"),
    *("9" * 63, "9" * 64, "9" * 65, "9" * 5000, "-" + "9" * 64, "\u0663", "\uff17", "\xb2", "\xbd", "\u2167"),
    *("1\u0663", "1 000", "1 k"),
]

WORDS = [
    *words("- -- -q --json --help -h --d-model=3 = a=b true false True null None [] {} {0} %s%n%d $(id) `id`"),
    *words("' * [ ] [a [! [z-a] (?: re:.* ../x .. . / /dev/zero /dev/null ~ ~nobody/x ~nosuchuser a/b a/b/c"),
    *words("https://x/y every: every:N every:0 every:1 every:2 every:999999 every:1000000 every:-1 local:1"),
    *words("local:999999 local:9999999 local:0 chunked:1 sparse:-1 atrous:1e3 sliding:3 sparse:7 <script>"),
    *words("gpt2 llama-3-8b transformer-base fp32 bf16 int4 nf4 q4_k_m h100 80GB 80 0GB -1GB 1e30GB nanGB"),
    *words("infGB 80GiB 1B layer attention ffn complete core 0 1"),
    *("", " ", "  7  ", "\t", "\n", "7\n", "\x1b[31m", "\x07", "\x7f", "\x9b31m", "\u202e", "\ufeff", "\udcff"),
    *("\xe9", "\U0001f600", "A" * 200, "A" * 10000, "; ls", "\\", '"', "every:\u0663", "=cmd|' /C calc'!A0"),
    "\\input{x}",
]

FORMATS_OF_WEIGHTS = [
    *words("fp32 bf16 fp16 int8 int4 nf4 nf4-dq fp4 gptq gptq-3bit-g64 awq awq-g-1 gptq-g1 gptq-g99999 fp8"),
    *words("fp8-block fp8-channel mxfp4 mxfp8 nvfp4 w8a8 q4_k_m q8_0 q2_k iq1_s tq1_0 q4_k-pure q8_0-pure"),
    *words("fp8-e4m3 int4-plain fp64 q3_k_l iq4_xs q6_k q5_k_s"),
]

TARGETS = [
    *words("mha attention cross-mha ffn ln moe router experts layer encoder-layer decoder-layer encoder"),
    *words("decoder core embedding output complete model model.layers activations optimizer weights temporary"),
    *words("cache gradients buffers"),
]

GPUS = [
    *words("h100 a100 4090 v100 mi300x l4 gb200 b200"),
    *("H100 NVL", "TPU v5p", "nvidia a100 40GB"),
]

TEXTS: dict[str, list[str]] = {
    "lora_targets": [
        *words("all-linear q_proj q_proj,v_proj c_attn query zzz , self_attn.q_proj *"),
        "",
    ],
    "base_weights": [
        *words("fp32 bf16 fp16 int8 int4 nf4 nf4-dq fp4 gptq gptq-3bit-g64 zzz"),
        "",
    ],
    "freeze": [
        *words("* *embed* model model.layers zzz [ [!] [z-a] ?*?*?*?*x ,"),
        "************************************************************b",
    ],
    "weights": FORMATS_OF_WEIGHTS,
    "budget": [
        *words("80GB 24GiB 1B 1TB 100MB 80 80G 0GB -1GB 1e3GB 1e30GB 1e27GB nanGB 1e999GB 1PiB 999999PiB"),
        "8 GB",
    ],
    "gpu": GPUS,
    "tokens": [
        *words("1 300B 1e12 1e18 1e19 7 2048 513"),
    ],
    "substitute": [
        *words("h=1 h=512,n=6 h=0 h=-1 h=1e12 h=1e13 h = h= , h=1,h=2 l=3,b=2 zzz=1 h==1 n=1, d_model=5 f=1k"),
        *words("h=1.5"),
        *("h=\u0663", "h= 7 "),
    ],
    "target": TARGETS,
    "treat_as": [
        *words("llama gpt2 bert t5 zzz mixtral deepseek_v3 whisper mamba"),
        *("", "\x1b[31m"),
    ],
}
"""Options that take a text, and what may be meant by it."""

JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 5, 7, 64, 10**12, 10**12 + 1, -(10**12), 10**30, 10**400, 2**63, 1.0),
    *(12.0, 1.5, 0.5, -0.0, 1e308, 5e-324, math.nan, math.inf, -math.inf, "", "12", "7", "0", "-1", "gelu"),
    *("none", "\x00", "\x1b[31mX", "\ud800", "\n\nX", "A" * 1000, "=1+1", "<b>", [], [1], [0], [-1], [1.5], [None]),
    *(["a"], [[1]], [True], [1] * 5, [0] * 12, ["full_attention"] * 4, ["sliding_attention", "full_attention"]),
    *(["mamba", "mamba", "mamba"], [[]] * 12, [{}], {}, {"a": 1}, {"0": 1}, {"rope_type": "x"}, {"factor": 8.0}),
    *({"": None}, {"hidden_size": 0}, {"model_type": "gpt2"}, {"model_type": "\x1b"}, {"model_type": ["gpt2"]}),
    {"hidden_size": "64"},
]

QUANTIZED: list[Any] = [
    *({}, [], "gptq", None, {"quant_method": None}, {"quant_method": "zzz"}, {"quant_method": "gptq", "bits": 4}),
    *({"quant_method": "gptq", "bits": 0}, {"quant_method": "gptq", "bits": True}),
    *({"quant_method": "gptq", "group_size": 0}, {"quant_method": "gptq", "group_size": -1}),
    *({"quant_method": "gptq", "group_size": 10**30}, {"quant_method": "awq"}),
    *({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, {"quant_method": "fp8"}),
    {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "fp8", "weight_block_size": [0, 1]},
    {"quant_method": "fp8", "weight_block_size": [10**30, 10**30]},
    *({"quant_method": "fp8", "weight_block_size": 7}, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    *({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, {"load_in_8bit": True}, {"load_in_8bit": 1}),
    *({"quant_method": "mxfp4"}, {"quant_method": "MXFP8"}, {"quant_method": "compressed-tensors"}),
    {"quant_method": "compressed-tensors", "config_groups": {"g": {}}},
    {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 128}}}},
    {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float"}}},
        "ignore": ["lm_head", "re:.*(a|b|c)x.*"],
    },
    {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {}}}, "ignore": ["re:" + "(a|b)" * 40]},
    {"quant_method": "compressed-tensors", "config_groups": [1]},
    *({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, {"quant_method": "hqq"}),
    *({"quant_method": "quanto", "weights": "int2"}, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    *({"quant_method": "modelopt"}, {"quant_method": "eetq"}, {"quant_method": "fbgemm_fp8"}),
    {"quant_method": "gptq", "modules_to_not_convert": ["*" * 300]},
    {"quant_method": "awq", "modules_to_not_convert": ["[", "]", "[!", "a" * 301]},
    {"quant_method": "auto-round", "bits": 3},
    {"quant_method": "awq", "modules_to_not_convert": ["mlp", "layers.0", "re:.*\\.1\\..*"]},
]


def number_near(draw: random.Random) -> int:
    """A size as people have them."""
    return draw.choice(
        [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
            12,
            16,
            31,
            32,
            33,
            48,
            64,
            96,
            128,
            255,
            256,
            512,
            768,
            1000,
            1024,
            draw.randrange(1, 5000),
            10**6,
            10**9,
            10**12,
            999_999_999_989,  # a prime: no other number divides it
        ]
    )
