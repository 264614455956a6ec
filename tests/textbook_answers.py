"""How tfcalc answers each of the statements of five textbook texts, where the recorded command is not the answer.

Keys are positions in tests/oracle/textbook_items.jsonl, from 0. What is expected is from the texts, or from arithmetic
that stands beside it; where a text is wrong, it is what is right.
"""

from __future__ import annotations

from typing import NamedTuple


class Ask(NamedTuple):
    """A command, and what stands in its answer; all of its answer where it ends in -q."""

    command: str
    expected: str


class Read(NamedTuple):
    """What README.md or formulas.md says: a regular expression."""

    pattern: str


class Compare(NamedTuple):
    """A comparison with PyTorch, and what it prints."""

    command: str
    expected: str


class Not(NamedTuple):
    """Why no calculator answers it."""

    reason: str


Answer = Ask | Read | Compare | Not

BY_MATRIX = "formula mha --general --by-matrix -q"
MATRICES = "h(ad) + ad + h(gd) + gd + h(g·d_v) + g·d_v + (a·d_v)h + h"
STEPS = "shapes mha --batch 2 --seq 5"
PRODUCT = "formula output --of flops --substitute l=30,b=1,h=20,V=50 -q"  # 30 × 20 by 20 × 50
ELEMENT = "formula output --of flops --substitute l=1,b=1,h=20,V=1 -q"  # one element of a product
LAYER = "verify --kind encoder --layers 1 --final-norm never"
IN_FULL = "params --vocab-size 5000 --depth 9"

ANSWERS: dict[int, Answer] = {
    # the three W_i of a head: h × d; those of all a heads are one matrix of h × (ad)
    1: Ask(BY_MATRIX, MATRICES),
    2: Ask(BY_MATRIX, MATRICES),
    3: Ask(BY_MATRIX, MATRICES),
    4: Ask(BY_MATRIX, MATRICES),
    8: Compare(
        "verify --module tests/verify/modules/attention.py:OutputForgotten --args 512,8 --against mha",
        "get no gradient: w_o",
    ),
    9: Ask("explain mha --heads 2", "3·2 + 1 = 7 matrices"),
    10: Ask("formula mha --general --no-attention-bias --by-matrix -q", "h(ad) + h(gd) + h(g·d_v) + (a·d_v)h"),
    11: Ask("explain mha", "3·8 + 1 = 25 matrices"),
    12: Ask("explain mha", "one matrix for all 8 heads (8 × 64 = 512)"),
    14: Ask("shapes mha --batch 2 --seq 5", "heads of each token view b × l × a × d 2 × 5 × 8 × 64"),
    15: Ask(STEPS, "heads of each token view b × l × a × d 2 × 5 × 8 × 64 heads merged view b × l × ad 2 × 5 × 512"),
    18: Ask(STEPS, "scores Q Kᵀ: 16 × (5 × 64)(64 × 5)"),  # 2 sequences of 8 heads: b·h products
    # queries n, keys m, heads h, width of a head d: 2nmd each for Q Kᵀ and P V, and h heads of b sequences
    20: Ask("formula sdpa --kind encoder --of flops --head-dim 64 --letters a=h,h=e,l=n -q", "4n²bhd"),
    21: Ask("explain weights --of memory --train", "W_QKV 4 × 3h × h 4 × 1536 × 512"),
    27: Ask("shapes mha --batch 2 --seq 5", "weights softmax b × a × l × l 2 × 8 × 5 × 5"),
    28: Ask("explain dropout", "it has no parameters"),
    32: Not("what an uninitialised tensor holds is chance; nothing is counted"),
    46: Ask("params --vocab-size 37000", "2,560,000 more numbers, stored but not parameters"),  # 5000 · 512
    47: Ask(
        "params --vocab-size 100", "Buffers: 2,560,000 more"
    ),  # 5000 positions, sin and cos of 256 frequencies each
    49: Ask("params --vocab-size 37000", "stored but not parameters"),
    54: Ask("flops llama-3-8b --mfu --tokens-per-second 9500 --gpu h100 --seq 8k", "rate FLOP/s of the peak"),
    55: Ask(PRODUCT, "60000"),  # 2·30·50·20
    62: Ask("explain output --vocab-size 100 --of time", "X W_vocab 2 × lb × h × V 2lbhV O(lhV)"),
    64: Ask("formula mha --of time --with-batch -q", "O(lbh² + l²bh)"),
    66: Ask("formula sdpa --of time -q", "O(l²h)"),
    67: Ask("formula sdpa --of time --pattern local:4 -q", "O(lhk)"),
    68: Ask("explain mha --pattern local:4 --of flops --seq 1024", "2 × 1 × 9196 × 8 × 64"),  # 9·1024 - 4·5
    84: Compare("verify", "44,140,544 44,140,544 0"),
    # tables of V h and V_t h, a head of V_t h
    87: Ask("formula complete --vocab-size 10 --target-vocab-size 20 -q", "n(28h² + 32h) + (4 + V + 2V_t)h"),
    89: Ask("memory", "168 MiB of weights"),  # 44,140,544 · 4 / 2²⁰ = 168.4
    # depends: what a network saves grows with l and b, its weights, 48h² + 60h bytes, do not
    90: Ask(
        "formula activations.encoder.layer.ffn --kind encoder --layers 1 --of memory --train --no-dropout -q", "20lbh"
    ),
    102: Ask("formula embedding --of time --with-batch -q", "O(lb)"),
    103: Ask("formula ln --of time --with-batch -q", "O(lbh)"),
    104: Ask("formula ln --norm layernorm-plain -q", "0"),
    132: Ask("formula", "encoder-layer 12h² + 13h 12h² 0.21 % 4lbh(6h + l) O(lh² + l²h)"),
    134: Ask(
        "check ffn 2,101,248 -q", "no: 2,099,712 (8h² + 5h with h = 512) is 1,536 less"
    ),  # twice 1,050,624: 1.9985
    135: Ask("params --depth 3", "25,224,192 57.1 %"),  # 25,224,192 / 18,914,304 = 1.334
    139: Ask("flops --seq 128", "ffn 54.2%"),  # 32lbh² of 12lbh(2h + l) + 32lbh²: 8h/(14h + 3l)
    140: Ask("flops --seq 128", "ffn 54.2%"),
    141: Ask("solve 'attention = ffn' --of flops --for seq -q", "342"),  # l = 2h/3 = 341.3
    143: Ask("params --vocab-size 100", "Buffers: 2,560,000 more numbers"),
    144: Ask(IN_FULL, "self_attention"),
    145: Ask("flops --count all --depth 9", "self_residual"),
    146: Ask(IN_FULL, "self_norm"),
    152: Ask("explain complete --vocab-size 100 --of flops --train --count all", "cross-entropy"),
    154: Ask("shapes sdpa --heads 1 --seq 3", "heads P V: (3 × 3)(3 × 512)"),
    155: Read(r"softmax over the last dimension; each row sums to 1"),
    167: Ask("shapes mha --value-dim 32", "heads P V: 8 × (512 × 512)(512 × 32) b × a × l × d_v 1 × 8 × 512 × 32"),
    169: Ask("shapes mha --value-dim 32", "output X W_O: (512 × 256)(256 × 512)"),  # 8 heads of 32 to 512
    171: Ask("check mha 3h²+3h -q", "no: 4h² + 4h is h² + h more; h² + h is W_O and b_O"),  # 787,968 at h = 512
    172: Ask(
        "check mha 18 --d-model 2 --heads 1 -q",
        "no: 24 (4h² + 4h with h = 2) is 6 more; 6 is b_Q, b_K, b_V (3h), or W_O and b_O (h² + h): as large by "
        "coincidence, at these sizes alone",
    ),
    173: Ask("shapes mha --d-model 2 --heads 1 --seq 3", "output X W_O: (3 × 2)(2 × 2) b × l × h 1 × 3 × 2"),
    174: Not("the numbers of an output of random weights"),
    176: Ask(BY_MATRIX, MATRICES),
    175: Ask(BY_MATRIX, MATRICES),
    178: Ask("shapes sdpa --heads 1 --seq 3", "weights softmax b × a × l × l 1 × 1 × 3 × 3"),
    182: Compare(
        "verify --module tests/verify/modules/attention.py:OneProjection --args 512,8 --against mha",
        "525,312 parameters get no gradient",
    ),
    183: Ask("shapes mha --seq 3", "b × l × h 1 × 3 × 512"),
    184: Ask("flops", "masked pairs counted"),
    185: Read(r"It hides padding and, in a decoder, all later tokens"),
    189: Ask("shapes mha --batch 2 --seq 5", "input b × l × h 2 × 5 × 512"),
    190: Ask("explain mha", "one matrix for all 8 heads (8 × 64 = 512)"),
    191: Read(r"`q·k` has the mean 0 and the variance `d`"),
    192: Read(r"Divided by `√d`, the scores have variance 1 whatever the width"),
    193: Not("arrays of a program are not told from its parameters; of torch.nn modules PyTorch knows them"),
    197: Ask("shapes mha --notation bsld", "bs × L × h × d_h"),
    200: Ask("shapes mha --notation bsld", "input bs × L × d"),
    202: Ask("explain ffn --notation bsld", "4d × d"),
    207: Ask(
        "formula encoder-layer --norm layernorm-plain --no-attention-bias --no-ffn-bias --notation bsld -q", "12d²"
    ),
    208: Ask("flops --count all --depth 9", "ffn_residual"),
    216: Ask("explain mha --notation bsld", "one matrix for all 8 heads"),
    221: Ask(STEPS, "Q X W_Q: (10 × 512)(512 × 512) b × l × ad 2 × 5 × 512 5,242,880"),  # 2·10·512·512
    222: Ask(ELEMENT, "40"),  # 20 multiplications and 20 additions
    223: Ask(ELEMENT, "40"),
    224: Ask(PRODUCT, "60000"),
    227: Ask("formula mha --notation bsld --substitute d=512 -q", f"{4 * 512**2 + 4 * 512}"),
    229: Ask(IN_FULL, "cross_norm"),
    231: Ask("params bert-base-uncased -q", "109482240"),  # transformers.BertModel
    237: Ask(BY_MATRIX, MATRICES),
    240: Ask("formula mha --value-dim 32 -q", "2h² + 2h·a·d_v + 3h + a·d_v"),
    243: Compare(LAYER, "1,050,624"),
    247: Compare(LAYER, "2,099,712"),
    252: Compare(LAYER, "1,024"),
    260: Compare(LAYER, "3,152,384 3,152,384 0"),
    267: Ask("formula decoder-layer --approx", "0.23 % less than the exact 4,204,032"),
    272: Ask("check encoder-layer 10h² --approx -q", "no: 12h² is 2h² more; 10h² is 12h² rounded"),
    273: Ask("formula", "decoder-layer 16h² + 19h 16h² 0.23 % 8lbh(4h + l) O(lh² + l²h)"),
    277: Ask("explain mha --of time", "X W_Q, X W_K, X W_V 3 × (2 × lb × h × h) 6lbh² O(lh²)"),
    278: Ask("explain mha --of time", "Q Kᵀ 2 × b × l × l × a × h/a 2l²bh O(l²h)"),
    279: Ask("explain mha --of time", "softmax 5 × l²·b·a 5l²·b·a O(l²a)"),
    280: Ask("explain mha --of time", "P V 2 × b × l × l × a × h/a 2l²bh O(l²h)"),
    281: Ask("formula mha --of time -q", "O(lh² + l²h)"),  # at l = 512 and h = 4,096 the first is 8 times the second
    282: Ask("explain mha --of time", "softmax 5 × l²·b·a 5l²·b·a O(l²a)"),
    284: Ask("shapes mha", "Q of each head view b × a × l × d"),
    287: Ask("explain mha --of time", "mha: O(lh² + l²h)"),
    288: Ask(
        "explain sdpa --kind encoder --of flops --batch 7 --seq 30 --heads 1 --d-model 20", "2 × 7 × 30 × 30 × 1 × 20"
    ),
    290: Ask("explain mha --pattern atrous:4 --of flops --seq 8", "2 × 1 × 16 × 8 × 64"),  # 8 and twice 8 - 4 pairs
    293: Ask("memory --train --pattern atrous:4", "memory of a run with pattern 'atrous:4' is not counted"),
    294: Ask("explain mha --pattern local:4 --of flops --seq 1024", "2 × 1 × 9196 × 8 × 64"),
    297: Ask("memory --train --pattern local:4", "memory of a run with pattern 'local:4' is not counted"),
    299: Ask("formula sdpa --of time --pattern sparse:4 -q", "O(l²h/k + lhk)"),
    300: Ask(
        "flops --kind encoder --seq 512 --pattern sparse:16 -q", "19714473984"
    ),  # least of all: see the test below
    301: Compare(
        "verify --pattern local:4 --of flops --seq 64", "PyTorch has no module with attention pattern local:4"
    ),
    303: Ask("flops gpt2 --seq 2048 --depth 0", "2,048 tokens exceed its 1,024 positions"),
    304: Not("named in the text, and not defined: no sizes that a count could use"),
    305: Ask("params --vocab-size 100", "2,560,000 more numbers, stored but not parameters"),
    307: Not(
        "f is any network that one likes, and so is its count; the one with a definition is --positions recurrent"
    ),
    308: Ask("formula position --positions learned --max-len 512 --vocab-size 100 -q", "Th"),
    310: Ask("formula position --positions xlnet --vocab-size 100 --kind encoder -q", "h² + 2h"),
    312: Ask("formula position --positions deberta --max-distance 512 -q", "2hD"),  # 2D vectors of width h
    313: Ask("params --positions rope -q", "44140544"),
    314: Compare("verify --positions t5 --of flops --seq 33 --kind encoder", "PyTorch has no module with positions t5"),
}
