"""Encoder-decoders: two stacks, the second of which reads what the first has made in all its layers."""

from __future__ import annotations

from contextlib import nullcontext

from tfcalc.core.component import Component
from tfcalc.implementations.transformers.running import NOTHING, Running, has, of_memory, reading_text
from tfcalc.tape.ledger import Place
from tfcalc.tape.value import Value

BESIDE = ("pooler", "contact_head")
"""What runs on a bare model's result beside it, and no loss reads."""
INTO_DECODER = "enc_to_dec_proj"
"""The map of what an encoder made to a decoder's width, which is stored behind both."""


def encoder_decoder(m: Running, part: Component, x: Value) -> Value:
    """The parts one after another; an encoder beside a decoder reads the source, and the decoder what it made of it."""
    both = has(part, "encoder") and has(part, "decoder")
    for each in reading_text(part):
        if each.name == INTO_DECODER:
            continue
        if both and each.kind == "encoder":
            _encoded(m, part, each)
        elif each.name.startswith(BESIDE) and not has(part, "loss"):
            with m.t.without_gradients():
                m(each, x)
        else:
            x = m(each, x)
            if each.kind in ("decoder", "encoder"):
                m.outputs.append(x)
            x = _behind(m, part, each, x)
    if has(part, "loss"):
        m.outputs.clear()
    return x


def _encoded(m: Running, whole: Component, encoder: Component) -> None:
    """Run the encoder on the source; what it makes is shared by all layers of the decoder.

    If the decoder is wider, a map is between them.
    """
    target, ids = m.stream, m.ids
    m.stream = m.run.source
    m.ids = m.t.given(m.stream.tokens, "int64", "source ids")
    is_read = any(of_memory(node.component) for part in whole.parts if part.kind == "decoder" for node in part.walk())
    with nullcontext() if is_read else m.t.without_gradients():
        memory, memory_of = m(encoder, m.ids), m.stream
        for each in whole.parts:
            if each.name == INTO_DECODER:
                memory = m(each, memory)
    m.outputs.append(memory)
    memory.storage.home = (*m.t.module, Place(encoder.name))
    m.stream, m.ids = target, ids
    m.shared = NOTHING._replace(memory=memory, memory_of=memory_of)


def _behind(m: Running, whole: Component, part: Component, x: Value) -> Value:
    """What the model's own forward does with what a part has made: T5 scales it for a tied head, BART adds a bias."""
    if part.kind == "decoder" and _is_scaled(m):
        x = m.t.scaled(x)
        m.outputs.append(x)
    if part.kind == "output" and has(whole, "buffer"):
        return m.t.add(x, m.t.given(part.own.weights[0].shape[1], m.t.numerics.weights, "bias of logits"))
    return x


def _is_scaled(m: Running) -> bool:
    fields = m.habits.scaled_output
    if fields is None:
        return False
    return bool(next((given for name in fields if (given := m.field(name)) is not None), True))
