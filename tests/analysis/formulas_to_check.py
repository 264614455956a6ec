"""Formulas as students write them: right ones, and wrong ones with what is wrong about them.

The right ones follow from the shapes of the matrices (Vaswani et al. 2017, sections 3.1 to 3.5): W_Q, W_K, W_V and W_O
are h × h each, over all heads together; W_1 is h × 4h and W_2 4h × h; each has a bias; a norm has a scale and a shift.
A product of m × k by k × n is 2mkn FLOPs (Kaplan et al. 2020, table 1, counts 2 per multiply-add), so a layer is
24lbh² + 4l²bh (Korthikanti et al. 2022, appendix A). An encoder layer has 2 norms, a decoder layer 3 and a second
attention; torch.nn.Transformer adds a norm behind each stack.
"""

from __future__ import annotations

RIGHT = [
    ("mha", "4h² + 4h", {}),  # four h × h, four biases
    ("mha", "4*h**2 + 4*h", {}),
    ("mha", "4h(h + 1)", {}),
    ("mha", "3h^2 + 3h + h^2 + h", {}),
    ("mha", "3*d**2 + d**2 + 4*d", {"notation": "bsld"}),
    ("mha", "4·d_model² + 4·d_model", {"notation": "names"}),
    ("mha", "4d_model^2+4d_model", {}),  # names are known in every notation
    ("mha", "4d² + 4d", {"letters": {"h": "d"}}),
    ("mha", "4N(N+1)", {"letters": {"d_model": "N"}}),
    ("mha", "3*h*a*d + a*d*h + 4h", {}),  # d = h/a
    ("mha", "3h × h + h × h + 4h", {}),
    ("cross-mha", "4h² + 4h", {}),
    ("ffn", "8h² + 5h", {}),  # h·4h + 4h + 4h·h + h
    ("ffn", "2hf + f + h", {}),  # f = 4h
    ("ffn", "2hf + f + h", {"general": True}),
    ("ffn", "2*d_model*d_ff + d_ff + d_model", {"notation": "names", "general": True}),
    ("ln", "2h", {}),
    ("encoder-layer", "12h² + 13h", {}),  # 4h² + 4h + 8h² + 5h + 2·2h
    ("encoder-layer", "(4h² + 4h) + (8h² + 5h) + 2(2h)", {}),
    ("decoder-layer", "16h² + 19h", {}),  # 2(4h² + 4h) + 8h² + 5h + 3·2h
    ("decoder-layer", "2(4h^2 + 4h) + (8h^2 + 5h) + 3*2h", {}),
    ("core", "n(28h² + 32h) + 4h", {}),  # both layers n times, and a norm of 2h behind each stack
    ("core", "28nh² + 32nh + 4h", {}),
    ("core", "N_l(28d² + 32d) + 4d", {"notation": "bsld"}),
    ("complete", "28nh² + 32nh + 4h + 2Vh", {}),  # one embedding, one output head
    ("mha", "8lbh² + 4l²bh", {"of": "flops"}),  # 4 projections of 2·lb·h·h; Q Kᵀ and P V of 2·b·l·l·h
    ("mha", "4lbh(2h + l)", {"of": "flops"}),
    ("mha", "8·bs·L·d² + 4·bs·L²·d", {"of": "flops", "notation": "bsld"}),
    ("mha", "2*4*l*b*h^2 + 2*2*a*b*l^2*(h/a)", {"of": "flops"}),
    ("ffn", "16lbh²", {"of": "flops"}),  # 2·lb·h·4h twice
    ("encoder-layer", "24lbh² + 4l²bh", {"of": "flops"}),
    (
        "encoder-layer",
        "24·b·s·h²(1 + s/(6h))",
        {"of": "flops", "letters": {"l": "s"}},
    ),  # Korthikanti et al.
    ("mha", "16h² + 16h", {"of": "memory"}),  # 4 bytes each
    ("core", "O(n(lh² + l²h))", {"of": "time"}),
    ("core", "nlh² + 5nl²h + 7nlh", {"of": "time"}),  # factors and lower terms do not grow
]

WRONG = [
    ("mha", "3h² + 4h", {}, "h² is W_O"),
    ("mha", "3*d**2 + 4*d", {"notation": "bsld"}, "d² is W_O"),
    ("mha", "3N² + 4N", {"letters": {"h": "N"}}, "N² is W_O"),
    ("mha", "3h² + 3h", {}, "h² + h is W_O and b_O"),
    ("mha", "4h²", {}, "4h is the biases"),
    ("mha", "4h² + 3h", {}, "h is b_O"),
    ("mha", "4h² + h", {}, "3h is b_Q, b_K, b_V"),
    ("mha", "3ah² + 3ah + h² + h", {}, "W_Q, W_K, W_V with biases: counted a times, but one matrix is for all a heads"),
    (
        "mha",
        "3h*d² + d² + 4d",
        {"notation": "bsld"},
        "counted h times, but one matrix is for all h heads",
    ),
    ("mha", "a(4h² + 4h)", {}, "all of it: counted a times"),
    ("mha", "12h² + 12h", {}, "it is three times the right one"),
    ("mha", "2h² + 4h", {}, "2h² is two of W_Q, W_K, W_V"),
    ("mha", "5h² + 4h", {}, "h² is W_O, counted twice"),
    ("ffn", "8h²", {}, "5h is the biases"),
    ("ffn", "8h² + 4h", {}, "h is b_2"),
    ("ffn", "4h² + 4h", {}, "4h² + h is W_2 and b_2"),
    ("ffn", "2hf", {"general": True}, "h + f is the biases"),
    ("encoder-layer", "12h²", {}, "13h is the biases and norms"),
    ("encoder-layer", "12h² + 9h", {}, "4h is the norms"),
    ("encoder-layer", "12h² + 11h", {}, "2h is ffn_norm, or self_norm"),
    ("encoder-layer", "12h² + 4h", {}, "9h is the biases"),
    ("encoder-layer", "8h² + 9h", {}, "4h² + 4h is self_attention"),
    ("encoder-layer", "11h² + 13h", {}, "h² is W_O"),
    ("decoder-layer", "12h² + 13h", {}, "4h² + 6h more; it is the formula of layer"),
    ("decoder-layer", "12h² + 15h", {}, "4h² + 4h is cross_attention, or self_attention"),
    ("decoder-layer", "16h² + 17h", {}, "2h is cross_norm, or ffn_norm, or self_norm"),
    ("decoder-layer", "14h² + 19h", {}, "2h² is every W_O"),
    ("core", "n(28h² + 32h)", {}, "is 4h more"),
    ("core", "n(12h² + 13h) + 2h", {}, "is n(16h² + 19h) + 2h more"),
    ("core", "28h² + 32h + 4h", {}, "n(28h² + 32h) is missing, 28h² + 32h is too much"),
    ("complete", "n(28h² + 32h) + (4 + V)h", {}, "Vh is E, or W_vocab"),
    ("complete", "n(28h² + 32h) + (4 + 3V)h", {}, "Vh is E, or W_vocab, counted twice"),
    ("mha", "4lbh² + 2l²bh", {"of": "flops"}, "it is half of the right one: a multiply-add is 2 FLOPs"),
    ("encoder-layer", "12lbh² + 2l²bh", {"of": "flops"}, "it is half of the right one: a multiply-add is 2 FLOPs"),
    ("encoder-layer", "48lbh² + 8l²bh", {"of": "flops"}, "it is twice the right one"),
    (
        "encoder-layer",
        "72lbh² + 12l²bh",
        {"of": "flops"},
        "three times the right one: that is forward and backward",
    ),
    ("encoder-layer", "24lbh² + 4lbh", {"of": "flops"}, "the factor l is missing from the attention scores"),
    ("encoder-layer", "24lbh²", {"of": "flops"}, "4l²bh is the attention scores"),
    ("encoder-layer", "24lbh² + 2l²bh", {"of": "flops"}, "half was counted, as for a causal mask"),
    ("encoder-layer", "24lh² + 4l²h", {"of": "flops"}, "the factor b is missing"),
    ("encoder-layer", "24h² + 4lh", {"of": "flops"}, "it is the right one times 1/(lb)"),
    ("mha", "6lbh² + 4l²bh", {"of": "flops"}, "2lbh² is X W_O"),
    ("mha", "8lbh² + 4al²bh", {"of": "flops"}, "counted a times, but that is the cost of all a heads"),
    ("mha", "4h² + 4h", {"of": "flops"}, "it is the formula of the parameters"),
    ("mha", "4h² + 4h", {"of": "memory"}, "it is a quarter of the right one: a number has 4 bytes"),
    ("ffn", "8lbh²", {"of": "flops"}, "it is half of the right one: a multiply-add is 2 FLOPs"),
    ("encoder-layer", "O(lh²)", {"of": "time"}, "O(lh² + l²h) is l²h more; l²h is how Q Kᵀ, P V"),
]

UNSEEN_RIGHT = [
    ("mha", "4h^2+4h", {"notation": "lbhn"}),
    ("mha", "h*(4*h+4)", {}),
    ("mha", "2*(h*h + h) + 2*h*(h+1)", {}),
    ("mha", "3(h*ad + ad) + ad*h + h", {}),
    ("mha", "a*(3*h*(h/a) + 3*(h/a)) + h^2 + h", {}),
    ("ffn", "h*4h + 4h + 4h*h + h", {}),
    ("ffn", "4h(2h + 1) + h", {}),
    ("ffn", "(2h+1)*f + h", {"general": True}),
    ("encoder-layer", "h(12h + 13)", {}),
    ("encoder-layer", "12h²(1 + 13/(12h))", {}),
    ("decoder-layer", "12h^2 + 13h + (4h^2 + 6h)", {}),
    ("core", "n*(12h² + 13h) + n*(16h² + 19h) + 2*2h", {}),
    ("complete", "2Vh + n(12h^2+13h+16h^2+19h) + 4h", {}),
    ("mha", "2*b*l*h*(3*h) + 2*b*l*l*h*2 + 2*b*l*h*h", {"of": "flops"}),
    ("mha", "bl(8h² + 4lh)", {"of": "flops"}),
    ("encoder-layer", "4lbh(6h + l)", {"of": "flops"}),
    ("encoder-layer", "3*(24lbh² + 4l²bh)", {"of": "flops", "train": 1}),
    ("ffn", "2*b*l*(h*4h + 4h*h)", {"of": "flops"}),
    ("layer", "2·h·a·d + 2·h·g·d + 3·h·f + 2·h", {"model": "llama-3-8b"}),
    ("layer", "(2*a + 2*g)*d*h + 3*f*h + 2*h", {"model": "llama-3-8b"}),
]
"""Odd but right, written down before check was asked about any."""

UNSEEN_WRONG = [
    ("mha", "a(3h² + 3h) + h² + h", {}, "counted a times"),  # a
    ("mha", "3h(h + 1)", {}, "W_O"),  # W_O forgotten
    ("mha", "3h² + h² ", {}, "biases"),  # biases dropped
    ("ffn", "12h² + 5h", {}, "4h² less"),  # three matrices, as if gated: 4h² too much
    ("encoder-layer", "12h² + 17h", {}, "the norms, counted twice"),  # each norm counted as 4h: the norms twice
    ("ffn", "8h²+5h-4h", {}, "b_1"),  # b_1 forgotten
    ("ffn", "2hf", {"general": True}, "biases"),  # the biases
    ("encoder-layer", "12h² + 11h", {}, "β"),  # γ only: β of both norms forgotten
    ("layer", "2had + 2hgd + 2hf + 2h", {"model": "llama-3-8b"}, "W_g"),  # the gate, third matrix
    ("decoder-layer", "12h² + 15h", {}, "cross"),  # cross-attention forgotten
    ("complete", "n(28h² + 32h) + 4h + Vh", {}, "W_vocab"),  # output head tied
    ("complete", "n(28h² + 32h) + 4h + 3Vh", {}, "counted twice"),  # a table too much
    (
        "layer",
        "4had + 3hf + 2h",
        {"model": "llama-3-8b"},
        "W_K, W_V: counted with a in the place of g",
    ),  # k and v as if of all heads
    ("encoder-layer", "24lbh² + 4lbh", {"of": "flops"}, "l is missing"),  # quadratic factor forgotten
    ("encoder-layer", "24lbh² + 2l²bh", {"of": "flops"}, "half"),  # scores half
    ("encoder-layer", "2(24lbh² + 4l²bh)", {"of": "flops", "train": 1}, "two thirds"),  # backward only once
    ("encoder-layer", "24lbh² + 4l²bh", {"of": "flops", "train": 1}, "a third"),  # forward only
    ("mha", "4lbh² + 2l²bh", {"of": "flops"}, "multiply-add is 2"),  # MACs
    ("encoder-layer", "16lbh² + 4l²bh", {"of": "flops"}, "8lbh² is the projections of attention"),
    ("core", "n(24h² + 26h) + 4h", {}, "is n(4h² + 6h) more"),  # cross-attention and its norm forgotten in the decoder
]
"""Wrong in ways that students are, with a word of the cause, written down before check was asked about any."""
