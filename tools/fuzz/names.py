"""Names as people write them: of models, repositories, accelerators, parts, modules, and of what is at a revision."""

from __future__ import annotations

import random

from tfcalc import catalog
from tfcalc.analysis.targets import find
from tfcalc.errors import is_one_of
from tfcalc.hardware import MOST_GPUS, accelerators, named, parse_gpu
from tfcalc.hub import is_id
from tfcalc.reader import is_place
from tfcalc.revisions import at_ref
from tfcalc.serving import weights
from tfcalc.training.adapters import Adapter, adapted, drops, frozen_where
from tools.fuzz.configs import PRESETS
from tools.fuzz.material import GPUS, TARGETS, TEXTS, WORDS
from tools.fuzz.mutations import edited
from tools.fuzz.parsed import holds, parsed

REPOSITORIES = [name for name in catalog.repositories().values() if name]
CARDS = [one.name for one in accelerators()]
PATTERNS = [
    *("lm_head", "mlp", "mlp.gate", "layers.0.mlp", "model.layers.*.mlp", r"re:.*mlp\.(gate|up)_proj$", "re:.*"),
    *(r"re:.*layers\.\d+\.self_attn\..*_proj", "re:(a|b|c)x", "re:^model$", "?", "*", "re:", "model.", "re:(?:a|b)"),
    *("*embed*", "model.layers", "q_proj,v_proj", "self_attn.q_proj", "[z-a]", "all-linear", "h.*.attn"),
]
REVISIONS = ["HEAD~1:configs/model.json", "origin/main:./chat", "v1.2^{commit}:a.json", "HEAD@{1}:a/b", "main:."]
MODULE = ("model", "layers", "0", "mlp", "gate_proj")


def names(draw: random.Random) -> None:
    """One name of one kind."""
    draw.choice((_model, _model, _gpu, _gpu, _patterns, _patterns, _part, _words, _targets, _revision, _revision))(draw)


def _model(draw: random.Random) -> None:
    """Every preset by its name in other spellings, and by its repository; edited names are known or refused."""
    if draw.random() < 0.3:
        name = draw.choice(PRESETS)
        asked = draw.choice((name, name.upper(), name.replace("-", "_"), name.replace("-", " "), f" {name} "))
        found = parsed("model name", asked, lambda: catalog.preset(asked), exits=(3,))
        holds("a preset in another spelling", found is not None and found.name == name, asked)
        return
    text = edited(draw, draw.choice((draw.choice(PRESETS), draw.choice(REPOSITORIES))), PRESETS)
    parsed("model name", text, lambda: is_place(text))
    holds("an id is owner/name", not is_id(text) or (text.count("/") == 1 and text.isprintable()), text)
    if "\x00" not in text:
        found = parsed("model name", text, lambda: catalog.preset(text), exits=(3,))
        holds("a name means a preset that is listed", found is None or found.name in PRESETS, text)


def _gpu(draw: random.Random) -> None:
    """Each card by its own name is the first of those that are meant; so many of it are so many."""
    count = draw.choice((1, 2, 8, 16, 72, 999_999, MOST_GPUS, 0, MOST_GPUS + 1))
    card = draw.choice(CARDS)
    if draw.random() < 0.3:
        text = f"{count}{draw.choice(('x', ' x ', 'X', '×', '*', ' × '))}{card}"
        found = parsed("gpu", text, lambda: parse_gpu(text))
        holds("so many GPUs", found == ((count, card) if 0 < count <= MOST_GPUS else None), text, found)
        meant = parsed("gpu name", card, lambda: named(card))
        holds("a card by its own name", bool(meant) and meant is not None and meant[0].name == card, card)
        return
    text = edited(draw, draw.choice((card, f"8x{card}", *GPUS, "24GB", "80 GiB", "2*80GB")), CARDS)
    found = parsed("gpu", text, lambda: parse_gpu(text))
    if found:
        holds("a number of GPUs", 0 < found[0] <= MOST_GPUS, text, found)
        cards = parsed("gpu name", found[1], lambda: named(found[1]))
        holds("some card is meant", cards is None or len(cards) > 0, text)


def _patterns(draw: random.Random) -> None:
    """A list of modules in a config: names, globs, and simple regular expressions, or a refusal."""
    text = edited(draw, draw.choice(PATTERNS), PATTERNS)
    listed: list[object] = [text] * draw.choice((1, 1, 1, 2)) if draw.random() < 0.9 else [text, draw.choice((7, None))]
    found = parsed("patterns", listed, lambda: weights.checked(listed, "ignore"), exits=(3,))
    if found is not None:
        fits = parsed("patterns", listed, lambda: MODULE in weights.ModulePatterns(found), exits=(3,))
        holds("a pattern fits or does not", type(fits) is bool, listed)


def _tree() -> object:
    from tfcalc.workload import Workload

    if not TREES:
        TREES.append(catalog.load("gpt2").tree(Workload()))
    return TREES[0]


TREES: list[object] = []


def _part(draw: random.Random) -> None:
    """A part of a model, by a name or by its path."""
    text = edited(draw, draw.choice((*TARGETS, "transformer.h[0-11].attn", "h.mlp.c_fc")), TARGETS)
    root = _tree().root()  # type: ignore[attr-defined]
    parsed("target", text, lambda: find(root, text))


def _targets(draw: random.Random) -> None:
    """Modules to adapt or to freeze, and a probability."""
    kind, tree = draw.random(), _tree()
    if kind < 0.3:
        text = edited(draw, draw.choice(("0.05", "0", "1", "", "1e-3")))
        parsed("dropout", text, lambda: drops(text), exits=(3,))
        return
    text = edited(draw, draw.choice((*TEXTS["lora_targets"], *TEXTS["freeze"], "c_attn", "h.attn", "wte")), PATTERNS)
    chosen = tuple(one.strip() for one in text.split(","))
    if kind < 0.65:
        parsed("lora targets", text, lambda: adapted(tree, Adapter(4, chosen)), exits=(3,))  # type: ignore[arg-type]
    else:
        parsed("freeze", text, lambda: frozen_where(tree, *chosen), exits=(3,))  # type: ignore[arg-type]


def _words(draw: random.Random) -> None:
    """A word that is known with a number: every:4."""
    text = edited(draw, draw.choice(("every:4", "every:N", "local:128", "none", *WORDS[:60])))
    known = ("none", "every:N", "local:N")
    found = parsed("word", text, lambda: is_one_of(text, known))
    name, _, number = text.partition(":")
    fits = text == "none" or (name in ("every", "local") and number.isdecimal() and number.isascii())
    holds("a word is known only as itself", not found or fits, text)


def _revision(draw: random.Random) -> None:
    """A file at a git revision: what is one has both parts, and no part that git would take for an option."""
    text = edited(draw, draw.choice(REVISIONS), REVISIONS) if draw.random() < 0.8 else draw.choice(REVISIONS)
    found = parsed("revision", text, lambda: at_ref(text))
    if text in REVISIONS:
        holds("a revision and a path", found == tuple(text.split(":")), text, found)
    if found is not None:
        ref, path = found
        safe = ref and path and not ref.startswith("-") and not any(mark in text for mark in "\0\n")
        holds("a revision has two safe parts", bool(safe) and f"{ref}:{path}" == text, text, found)
