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
LAYER = "verify --kind encoder --layers 1 --final-norm never"
IN_FULL = "params --vocab-size 5000 --depth 9"

ANSWERS: dict[int, Answer] = {
    # the three W_i of a head: h × d; those of all a heads are one matrix of h × (ad)
    1: Ask(BY_MATRIX, MATRICES),
    2: Ask(BY_MATRIX, MATRICES),
    3: Ask(BY_MATRIX, MATRICES),
    4: Ask(BY_MATRIX, MATRICES),
    8: Read(r"a module that never multiplies by W_O.* still has the right number of parameters"),
    9: Ask("explain mha --heads 2", "3·2 + 1 = 7 matrices"),
    10: Ask("formula mha --general --no-attention-bias --by-matrix -q", "h(ad) + h(gd) + h(g·d_v) + (a·d_v)h"),
    11: Ask("explain mha", "3·8 + 1 = 25 matrices"),
    12: Read(r"stored as \*one\* h × h matrix"),
    14: Ask("shapes mha --batch 2 --seq 5", "heads of each token view b × l × a × d 2 × 5 × 8 × 64"),
    15: Read(r"To join the heads, \*transpose first\*"),
    18: Read(r"Some implementations merge the first two dimensions, \(b·a, l, d\) and \(b·a, l, l\)"),
    # queries n, keys m, heads h, width of a head d: 2nmd each for Q Kᵀ and P V, and h heads of b sequences
    20: Ask("formula sdpa --kind encoder --of flops --head-dim 64 --letters a=h,h=e,l=n -q", "4n²bhd"),
    21: Read(r"PyTorch stores W_Q, W_K and W_V as one matrix `in_proj_weight` of 3h × h"),
    27: Ask("shapes mha --batch 2 --seq 5", "weights softmax b × a × l × l 2 × 8 × 5 × 5"),
    28: Read(r"dropout, which sets random numbers to 0 in training, have no parameters"),
    32: Not("what an uninitialised tensor holds is chance; nothing is counted"),
    46: Ask("params --vocab-size 37000", "2,560,000 more numbers, stored but not parameters"),  # 5000 · 512
    47: Read(r"0 ≤ j < h/2, P\[i, 2j\] = sin\(i / 10000\^\(2j/h\)\)"),
    49: Ask("params --vocab-size 37000", "stored but not parameters"),
    54: Read(r"\*FLOP/s\*, often written FLOPS, is a speed"),
    55: Read(r"\(K \+ K\)·M·N = 2·M·N·K` FLOPs"),
    62: Read(r"its time is O\(MNK\)"),
    64: Ask("formula mha --of time --with-batch -q", "O(lbh² + l²bh)"),
    66: Ask("formula sdpa --of time -q", "O(l²h)"),
    67: Ask("formula sdpa --of time --pattern local:4 -q", "O(lhk)"),
    84: Compare("verify", "44,140,544 44,140,544 0"),
    # tables of V h and V_t h, a head of V_t h
    87: Ask("formula complete --vocab-size 10 --target-vocab-size 20 -q", "n(28h² + 32h) + (4 + V + 2V_t)h"),
    89: Ask("memory", "168 MiB of weights"),  # 44,140,544 · 4 / 2²⁰ = 168.4
    90: Read(r"Weights, gradients and moments do not grow with the data, activations do"),
    102: Read(r"a norm O\(lbh\), an embedding O\(lb\)"),
    103: Read(r"a norm O\(lbh\), an embedding O\(lb\)"),
    104: Ask("formula ln --norm layernorm-plain -q", "0"),
    132: Ask("formula", "encoder-layer 12h² + 13h 12h² 0.21 % 4lbh(6h + l) O(lh² + l²h)"),
    134: Read(r"8h² to 4h²; at h = 512 it is 2,099,712 to 1,050,624, 1\.9985 times as many"),
    135: Read(r"A decoder has a third more than an encoder, 16h² to 12h²"),  # 25,224,192 / 18,914,304 = 1.334
    139: Ask("flops --seq 128", "ffn 54.2%"),  # 32lbh² of 12lbh(2h + l) + 32lbh²: 8h/(14h + 3l)
    140: Ask("flops --seq 128", "ffn 54.2%"),
    141: Read(r"Equal at \*\*l = 2h/3\*\*. For l > 2h/3, or h < 3l/2, attention has more"),
    143: Read(r"That is a buffer of T·h numbers for T positions"),
    144: Ask(IN_FULL, "self_attention"),
    145: Ask("flops --count all --depth 9", "self_residual"),
    146: Ask(IN_FULL, "self_norm"),
    152: Read(r"The softmax after it is part of the loss in training and of sampling in generation"),
    154: Read(r"an average of the values of all tokens, weighted by how well its query fits their keys"),
    155: Read(r"softmax over the last dimension; each row sums to 1"),
    167: Ask("shapes mha --value-dim 32", "heads P V: 8 × (512 × 512)(512 × 32) b × a × l × d_v 1 × 8 × 512 × 32"),
    169: Read(r"It is W_O, and not the feed-forward network, that combines the heads' outputs"),
    171: Ask("check mha 3h²+3h -q", "no: 4h² + 4h is h² + h more; h² + h is W_O and b_O"),  # 787,968 at h = 512
    172: Read(r"An implementation without W_O has 3h² \+ 3h parameters"),  # 18 at h = 2; with W_O 24
    173: Ask("shapes mha --d-model 2 --heads 1 --seq 3", "output X W_O: (3 × 2)(2 × 2) b × l × h 1 × 3 × 2"),
    174: Not("the numbers of an output of random weights"),
    176: Ask(BY_MATRIX, MATRICES),
    175: Ask(BY_MATRIX, MATRICES),
    178: Read(r"softmax\(Q Kᵀ / √d\) V"),
    182: Read(r"computes keys and values from the wrong weight, still has the right number of parameters"),
    183: Ask("shapes mha --seq 3", "b × l × h 1 × 3 × 512"),
    184: Read(r"Adding −∞ to scores saves nothing: all l² pairs are multiplied first. This holds for padding"),
    185: Read(r"It hides padding and, in a decoder, all later tokens"),
    189: Ask("shapes mha --batch 2 --seq 5", "input b × l × h 2 × 5 × 512"),
    190: Read(r"stored as \*one\* h × h matrix"),
    191: Read(r"the product of two vectors of d independent numbers with mean 0 and variance 1 has variance d"),
    192: Read(r"Divided by √d, the scores have variance 1 whatever the width"),
    193: Not("arrays of a program are not told from its parameters; of torch.nn modules PyTorch knows them"),
    197: Ask("shapes mha --notation bsld", "bs × L × h × d_h"),
    200: Ask("shapes mha --notation bsld", "input bs × L × d"),
    202: Ask("explain ffn --notation bsld", "4d × d"),
    207: Ask(
        "formula encoder-layer --norm layernorm-plain --no-attention-bias --no-ffn-bias --notation bsld -q", "12d²"
    ),
    208: Ask("flops --count all --depth 9", "ffn_residual"),
    216: Ask("explain mha --notation bsld", "one matrix for all 8 heads"),
    221: Read(r"Multiply an M × K matrix by a K × N matrix"),
    224: Read(r"\(K \+ K\)·M·N = 2·M·N·K` FLOPs"),
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
    272: Read(r"Some texts round both factors to 10h².*it leaves out 2 of 12 parts"),
    273: Ask("formula", "decoder-layer 16h² + 19h 16h² 0.23 % 8lbh(4h + l) O(lh² + l²h)"),
    277: Ask("explain mha --of time", "X W_Q, X W_K, X W_V 3 × (2 × lb × h × h) 6lbh² O(lh²)"),
    278: Ask("explain mha --of time", "Q Kᵀ 2 × b × l × l × a × h/a 2l²bh O(l²h)"),
    279: Ask("explain mha --of time", "softmax 5 × l²·b·a 5l²·b·a O(l²a)"),
    280: Ask("explain mha --of time", "P V 2 × b × l × l × a × h/a 2l²bh O(l²h)"),
    281: Read(r"At l = 512 and h = 4,096 it is 8 times the second"),
    282: Ask("explain mha --of time", "softmax 5 × l²·b·a 5l²·b·a O(l²a)"),
    284: Ask("shapes mha", "Q of each head view b × a × l × d"),
    287: Ask("explain mha --of time", "mha: O(lh² + l²h)"),
    288: Read(r"A \*\*batched product\*\* of B pairs, \(B, M, K\) by \(B, K, N\).* 2·B·M·N·K"),
    293: Read(r"A sparse pattern reduces l² to its number of pairs only if the kernel stores no others"),
    294: Read(r"k keys to each side: 2k \+ 1"),
    297: Read(r"A sparse pattern reduces l² to its number of pairs only if the kernel stores no others"),
    299: Ask("formula sdpa --of time --pattern sparse:4 -q", "O(l²h/k + lhk)"),
    300: Read(r"The sum 2kl \+ l²/k is smallest where .* at k = √\(l/2\)"),
    301: Compare(
        "verify --pattern local:4 --of flops --seq 64", "PyTorch has no module with attention pattern local:4"
    ),
    303: Ask("flops gpt2 --seq 2048 --depth 0", "2,048 tokens exceed its 1,024 positions"),
    304: Not("named in the text, and not defined: no sizes that a count could use"),
    305: Ask("params --vocab-size 100", "2,560,000 more numbers, stored but not parameters"),
    307: Not(
        "f is any network that one likes, and so is its count; the one with a definition is --positions recurrent"
    ),
    308: Read(r"Whether a table is added to the embedding or multiplied by it, its size is the same"),
    310: Ask("formula position --positions xlnet --vocab-size 100 --kind encoder -q", "h² + 2h"),
    312: Ask("formula position --positions deberta --max-distance 512 -q", "2hD"),  # 2D vectors of width h
    313: Ask("params --positions rope -q", "44140544"),
    314: Compare("verify --positions t5 --of flops --seq 33 --kind encoder", "PyTorch has no module with positions t5"),
}
