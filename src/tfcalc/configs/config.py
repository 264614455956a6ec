"""A config.json, read field by field, each checked as it is read.

A family asks for what it needs by the field's name. A field that the file leaves out has the default that the family
declares (transformers' own); a size that is asked for becomes a symbol where symbols are wanted.

Fields have letters and meanings, for formulas and their legends. One that is not listed is its own symbol
(``q_lora_rank``), so nothing needs to be added here for a formula to be right; a letter only makes it shorter to read.

families.jsonl has, for each model type, the module of zoo/ that builds it, and what transformers declares for it: the
class that its Auto classes make, the other names of fields (``attribute_map``), and the defaults.
``python -m tools.defaults --write`` writes it, one line a model type, and a test compares it with transformers. Lines
are found by their beginning, and only those that are asked for are parsed.

>>> module_of("granite")
'decoders'
>>> declared("llama")["intermediate_size"]
11008
>>> class_of("llama"), other_names("gpt2")["hidden_size"]
('LlamaForCausalLM', 'n_embd')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypedDict

from tfcalc.core.number import Num, divide
from tfcalc.core.traced import Guarded
from tfcalc.dimensions import check_size
from tfcalc.errors import InvalidModel, TooMany, nearest
from tfcalc.named_tuple import NamedTuple
from tfcalc.printable import quoted


class SizeLetter(NamedTuple):
    """A letter, and what it stands for."""

    letter: str
    meaning: str


_HIDDEN = SizeLetter("h", "hidden size")
_LAYERS = SizeLetter("n", "layers")
_HEADS = SizeLetter("a", "attention heads")
_FFN = SizeLetter("f", "feed-forward size")
_POSITIONS = SizeLetter("T", "positions")
_EXPERTS = SizeLetter("E", "experts")
_KERNEL = SizeLetter("k_c", "convolution kernel")
_PATCH = SizeLetter("P", "patch size")

FIELDS = {
    "hidden_size": _HIDDEN,
    "n_embd": _HIDDEN,
    "n_embed": _HIDDEN,
    "d_model": _HIDDEN,
    "dim": _HIDDEN,
    "embed_dim": _HIDDEN,
    "num_hidden_layers": _LAYERS,
    "n_layer": _LAYERS,
    "n_layers": _LAYERS,
    "num_layers": _LAYERS,
    "depth": _LAYERS,
    "encoder_layers": SizeLetter("n_e", "encoder layers"),
    "decoder_layers": SizeLetter("n_d", "decoder layers"),
    "num_decoder_layers": SizeLetter("n_d", "decoder layers"),
    "num_attention_heads": _HEADS,
    "n_head": _HEADS,
    "n_heads": _HEADS,
    "num_heads": _HEADS,
    "encoder_attention_heads": SizeLetter("a_e", "encoder attention heads"),
    "decoder_attention_heads": SizeLetter("a_d", "decoder attention heads"),
    "num_key_value_heads": SizeLetter("g", "key and value heads"),
    "num_kv_heads": SizeLetter("g", "key and value heads"),
    "multi_query_group_num": SizeLetter("g", "key and value heads"),
    "head_dim": SizeLetter("d", "head width"),
    "d_kv": SizeLetter("d", "head width"),
    "kv_channels": SizeLetter("d", "head width"),
    "intermediate_size": _FFN,
    "n_inner": _FFN,
    "d_inner": _FFN,
    "d_ff": _FFN,
    "ffn_dim": _FFN,
    "ffn_hidden_size": _FFN,
    "hidden_dim": _FFN,
    "dff": _FFN,
    "encoder_ffn_dim": SizeLetter("f_e", "encoder feed-forward size"),
    "decoder_ffn_dim": SizeLetter("f_d", "decoder feed-forward size"),
    "vocab_size": SizeLetter("V", "vocabulary"),
    "padded_vocab_size": SizeLetter("V", "vocabulary"),
    "max_position_embeddings": _POSITIONS,
    "n_positions": _POSITIONS,
    "type_vocab_size": SizeLetter("T_t", "token types"),
    "embedding_size": SizeLetter("e", "embedding size"),
    "word_embed_proj_dim": SizeLetter("e", "embedding size"),
    "num_experts": _EXPERTS,
    "num_local_experts": _EXPERTS,
    "n_routed_experts": _EXPERTS,
    "num_experts_per_tok": SizeLetter("k", "experts per token"),
    "n_shared_experts": SizeLetter("E_s", "shared experts"),
    "moe_intermediate_size": SizeLetter("f_x", "expert feed-forward size"),
    "shared_expert_intermediate_size": SizeLetter("f_s", "shared expert's feed-forward size"),
    "first_k_dense_replace": SizeLetter("n_0", "dense layers before the experts"),
    "q_lora_rank": SizeLetter("r_q", "query rank"),
    "kv_lora_rank": SizeLetter("r", "key-value rank"),
    "qk_nope_head_dim": SizeLetter("d_n", "non-rotary query-key head width"),
    "qk_rope_head_dim": SizeLetter("d_r", "rotary query-key head width"),
    "v_head_dim": SizeLetter("d_v", "value head width"),
    "index_n_heads": SizeLetter("a_i", "indexer heads"),
    "index_head_dim": SizeLetter("d_i", "indexer head width"),
    "compressed_sparse_attention": SizeLetter("m_c", "tokens of a compressed key"),
    "compress_rate_csa": SizeLetter("m_c", "tokens of a compressed key"),
    "heavily_compressed_attention": SizeLetter("m_h", "tokens of a heavily compressed key"),
    "compress_rate_hca": SizeLetter("m_h", "tokens of a heavily compressed key"),
    "state_size": SizeLetter("N_s", "state size"),
    "ssm_state_size": SizeLetter("N_s", "state size"),
    "mamba_d_state": SizeLetter("N_s", "state size"),
    "conv_kernel": _KERNEL,
    "mamba_d_conv": _KERNEL,
    "expand": SizeLetter("e_m", "expansion of the state-space width"),
    "mamba_expand": SizeLetter("e_m", "expansion of the state-space width"),
    "time_step_rank": SizeLetter("R", "time-step rank"),
    "mamba_dt_rank": SizeLetter("R", "time-step rank"),
    "relative_attention_num_buckets": SizeLetter("B", "relative position buckets"),
    "patch_size": _PATCH,
    "image_size": SizeLetter("I", "image size"),
    "projection_dim": SizeLetter("h_p", "projection size"),
    "attention_hidden_size": SizeLetter("h_a", "attention hidden size"),
    "conv1d_width": _KERNEL,
    "conv_L_cache": _KERNEL,
    "num_channels": SizeLetter("C", "image channels"),
    "in_channels": SizeLetter("C", "image channels"),
    "num_labels": SizeLetter("K", "labels"),
    "linear_num_key_heads": SizeLetter("a_k", "key heads of linear attention"),
    "linear_num_value_heads": SizeLetter("a_v", "value heads of linear attention"),
    "linear_key_head_dim": SizeLetter("d_k", "key head width of linear attention"),
    "linear_value_head_dim": SizeLetter("d_v", "value head width of linear attention"),
    "linear_conv_kernel_dim": _KERNEL,
    "spatial_merge_size": SizeLetter("m_s", "patches merged per side"),
    "temporal_patch_size": SizeLetter("p_t", "frames per patch"),
    "out_hidden_size": SizeLetter("h_o", "output size"),
    "num_position_embeddings": _POSITIONS,
    "num_mel_bins": SizeLetter("M", "mel bins"),
    "max_source_positions": SizeLetter("T_s", "source positions"),
    "max_target_positions": SizeLetter("T_t", "target positions"),
    "num_hidden_groups": SizeLetter("G", "groups of layers that share weights"),
    "inner_group_num": SizeLetter("G_i", "layers per group"),
    "mamba_num_heads": SizeLetter("a_m", "state-space heads"),
    "mamba_head_dim": SizeLetter("d_m", "width of a state-space head"),
    "mamba_n_heads": SizeLetter("a_m", "state-space heads"),
    "mamba_d_head": SizeLetter("d_m", "width of a state-space head"),
    "n_groups": SizeLetter("G", "state-space groups"),
    "mamba_n_groups": SizeLetter("G", "state-space groups"),
    "lru_width": SizeLetter("w", "recurrence width"),
}

SCOPES = {
    "text_config": "",
    "vision_config": "vis",
    "audio_config": "aud",
    "encoder": "enc",
    "decoder": "dec",
    "encoder_config": "enc",
    "decoder_config": "dec",
    "compress_rates": "",
}
"""Subscripts of the letters of nested configs: ``h_vis``."""


def field_of(path: str, taken: dict[str, str]) -> SizeLetter:
    """The letter and meaning of the field at ``path``; its own path where the letter is ``taken`` by another."""
    *scopes, name = path.split(".")
    suffix = "_".join(part for scope in scopes if (part := SCOPES.get(scope, scope.removesuffix("_config"))))
    known = FIELDS.get(name, SizeLetter(name, name.replace("_", " ")))
    letter = f"{known.letter}_{suffix}" if suffix else known.letter
    if taken.setdefault(letter, path) != path:
        letter = path.replace(".", "_")
        taken[letter] = path
    return SizeLetter(letter, f"{known.meaning} ({path})")


FILE = Path(__file__).with_name("families.jsonl")
BEGINNING = '{"model_type": '


class DeclaredFamily(TypedDict, total=False):
    """Declaration of a model type in the file; one that no family builds has no ``module``."""

    model_type: str
    module: str
    architecture: str
    aliases: Mapping[str, str]
    defaults: Mapping[str, object]


def model_types() -> list[str]:
    """Names of all model types that a family builds, in alphabetical order."""
    lines = (json.loads(line) for line in _text().splitlines())
    return [line["model_type"] for line in lines if "module" in line]


def module_of(model_type: str) -> str | None:
    """The module of families/ that builds this model type; None where no family does."""
    return _line(model_type).get("module")


def declared(model_type: str) -> Mapping[str, object]:
    """The fields that a config may leave out, with the values that transformers' config class declares for them.

    Those alone that are read; none where transformers has no such model type.
    """
    return _line(model_type).get("defaults", {})


def class_of(model_type: str) -> str:
    """The class that transformers' Auto classes make of this model type; empty where they know none."""
    return _line(model_type).get("architecture", "")


def other_names(model_type: str) -> Mapping[str, str]:
    """Alternative names of the fields that are read: ``n_embd`` for ``hidden_size``."""
    return _line(model_type).get("aliases", {})


@cache
def _line(model_type: str) -> DeclaredFamily:
    text = _text()
    start = text.find(f"{BEGINNING}{json.dumps(model_type)},")
    if start < 0:
        return {}
    found: DeclaredFamily = json.loads(text[start : text.index("\n", start)])
    return found


@cache
def _text() -> str:
    return FILE.read_text(encoding="utf-8")


SLIDING, FULL = "sliding_attention", "full_attention"
"""Kinds of layers in ``layer_types``: with a window, and without."""
MISSING = object()
MOST_LAYERS = 10_000
COUNT_LAYERS = ("layer", "layers", "depth", "num_hidden_groups", "inner_group_num")
"""Endings of fields that give a number of layers: some families look at layers one by one."""


class Known(Protocol):
    """Facts about a family that a nested config needs: the names of its fields, and their defaults."""

    @property
    def model_type(self) -> str:
        """Its name."""
        ...

    @property
    def defaults(self) -> Mapping[str, object]:
        """The fields that may be left out."""
        ...

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of fields."""
        ...


class ConfigRecord:
    """Record of what was read of a config: sizes by their path, with letters, and fields left to their default.

    ``find`` knows the families of nested configs.
    """

    __slots__ = ("assumed", "fields", "find", "instead", "seen", "sizes", "taken")

    def __init__(self, find: Callable[[object], Known], instead: Mapping[str, Num] | None = None) -> None:
        self.find = find
        self.sizes: dict[str, int] = {}
        self.fields: dict[str, SizeLetter] = {}
        self.assumed: dict[str, object] = {}
        self.seen: set[str] = set()
        self.taken: dict[str, str] = {}
        self.instead = instead or {}

    def size(self, path: str, value: int) -> Num:
        """Return the size itself, or its substitute in ``instead`` (a symbol, an array)."""
        if path not in self.sizes:
            self.sizes[path] = value
            self.fields[path] = field_of(path, self.taken)
        return self.instead.get(path, value)

    def guarded(self, path: str, value: int) -> Guarded | int:
        """Return ``value``, or the Guarded number that replaces it in a sweep, which records comparisons with it."""
        instead = self.instead.get(path)
        return instead if isinstance(instead, Guarded) else value

    def note_exact(self, path: str) -> None:
        """Record in a sweep that the config was read with this very value, so that the answer holds for no other."""
        instead = self.instead.get(path)
        if isinstance(instead, Guarded):
            instead.note_exact()


class Config:
    """The fields of one config, or of one that is nested in it.

    ``head`` is what the model is built for: the end of its class name (``ForCausalLM``, ``Model``).
    """

    __slots__ = ("aliases", "data", "defaults", "head", "model_type", "prefix", "reading")

    def __init__(
        self,
        data: Mapping[str, object],
        model_type: str,
        defaults: Mapping[str, object],
        aliases: Mapping[str, str],
        head: str,
        reading: ConfigRecord,
        prefix: str = "",
    ) -> None:
        self.data = data
        self.model_type = model_type
        self.defaults: Mapping[str, Any] = defaults
        self.aliases = aliases
        self.head = head
        self.reading = reading
        self.prefix = prefix

    # -- sizes: they become symbols

    def size(self, name: str, *, least: int = 1) -> Num:
        """A whole number of at least ``least``. Raises InvalidModel where it is none, or missing without a default."""
        return self.reading.size(self.path(name), self._number(name, least))

    def optional(self, name: str, *, least: int = 1) -> Num | None:
        """A size that may be missing or null."""
        return None if self._look_up(name) in (MISSING, None) else self.size(name, least=least)

    def quotient(self, whole: str, parts: str) -> Num:
        """``hidden_size / num_attention_heads`` where it comes out even; InvalidModel where it does not."""
        number, among = self._number(whole, 1), self._number(parts, 1)
        if number % among:
            below = number // among * among
            fits = ", ".join(str(size) for size in (below, below + among) if size)
            raise InvalidModel(
                f"{self.path(whole)} {number} is not divisible by {self.path(parts)} {among}", f"nearest: {fits}"
            )
        result: Num = divide(self.size(whole), self.size(parts))
        return result

    def sharing(self, parts: str, whole: str) -> Num:
        """Key and value heads: a size that ``whole``, the query heads, are evenly many times.

        Raises InvalidModel where they are not.
        """
        heads, groups = self._number(whole, 1), self._number(parts, 1)
        if heads % groups:
            fact = f"{self.path(whole)} {heads} is not divisible by {parts} {groups}"
            raise InvalidModel(fact, f"give a divisor of {heads}")
        return self.size(parts)

    # -- structure: it stays what it is

    def number(self, name: str, *, least: int = 1) -> int:
        """A whole number that decides the structure (how many layers of which kind), and so is never a symbol."""
        return int(self._number(name, least))

    def _number(self, name: str, least: int) -> Any:
        """Read a number that decides structure; in a sweep the branches that it takes are recorded."""
        number = self.reading.guarded(self.path(name), check_size(self.path(name), self._required(name), least))
        if number < least:
            raise InvalidModel(f"{self.path(name)} {number} is too small", f"it must be at least {least}")
        if name.endswith(COUNT_LAYERS) and number > MOST_LAYERS:
            raise TooMany(f"{self.path(name)} {number} is too large", f"at most {MOST_LAYERS} layers")
        return number

    def factor(self, name: str) -> float:
        """A number, not necessarily whole, that sizes are multiplied by."""
        return check_factor(self.path(name), self._required(name))

    def flag(self, name: str) -> bool:
        """True or false; a flag that nobody gives is false, as is null."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is neither true nor false", "write true or false")
        return bool(value)

    def word(self, name: str, known: Sequence[str] = ()) -> str:
        """A word; one of the ``known`` ones, where these are given."""
        value = self._required(name)
        if not isinstance(value, str):
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is not a word", "put it in quotes")
        if known and value not in known:
            raise InvalidModel(f"{self.path(name)} {quoted(value)} is not known", nearest(value, known))
        return value

    def words(self, name: str, length: int | None, known: Sequence[str] = (), *, some: bool = False) -> list[str]:
        """One word per layer, such as ``layer_types``; any number, or ``some``, where no ``length`` is given."""
        words = []
        for value in self._list(name, length, some=some):
            if not isinstance(value, str) or (known and value not in known):
                hint = nearest(str(value), known) if known else "put it in quotes"
                raise InvalidModel(f"{self.path(name)}: {quoted(value)} is not known", hint)
            words.append(value)
        return words

    def numbers(self, name: str, length: int | None = None, *, least: int = 0, some: bool = False) -> list[int]:
        """A list of whole numbers; of this ``length``, where that is given, or of ``some``, which is at least one."""
        return [check_size(f"{self.path(name)}: ", value, least) for value in self._list(name, length, some=some)]

    def get(self, name: str) -> Any:
        """Return the value in the file, else its default, else None. For a structure that has no other method."""
        value = self._look_up(name)
        self.reading.note_exact(self.path(name))
        return None if value is MISSING else value

    def has(self, name: str) -> bool:
        """Return whether the file gives a value that is not null."""
        return any(self.data.get(key) is not None for key in self._keys(name))

    # -- nested configs

    def sub(
        self,
        name: str,
        model_type: str = "",
        defaults: Mapping[str, object] | None = None,
        *,
        over: Mapping[str, object] | None = None,
        head: str = "",
    ) -> Config:
        """The config that is nested under ``name``; empty where it is left out.

        Its defaults are those given here, or else those of its family: of its own ``model_type``, or of the one given
        here where it names none. ``over`` are those of the family's that the whole has its own for; ``head`` is
        what it is built for, if not what the whole is.
        """
        data = self.data.get(name)
        if data is None:
            data = {}
        if not isinstance(data, Mapping):
            raise InvalidModel(f"{self.path(name)} {quoted(data)} is not an object", "write { … }")
        path, kind = self.path(name) + ".", data.get("model_type") or model_type
        if defaults is not None:
            return Config(data, str(kind), defaults, {}, head or self.head, self.reading, path)
        family = self.reading.find(kind)
        known = {**family.defaults, **(over or {})}
        return Config(data, family.model_type, known, family.aliases, head or self.head, self.reading, path)

    def within(self, name: str, model_type: str, **own: object) -> Config:
        """The config nested under ``name``, of a ``model_type`` that no family builds by itself.

        Its defaults are those that transformers declares, and its ``own``.
        """
        return self.sub(name, model_type, {**declared(model_type), **own})

    def read_as(self, model_type: str, *, head: str = "") -> Config:
        """Read the same fields as another model type, for a part whose fields are among the whole's own."""
        family = self.reading.find(model_type)
        return Config(
            self.data,
            family.model_type,
            family.defaults,
            family.aliases,
            head or self.head,
            self.reading,
            self.prefix,
        )

    def path(self, name: str) -> str:
        """Path of the field in the file, with the nested config that contains it."""
        keys = self._keys(name)
        return self.prefix + next((key for given in (self.data, self.defaults) for key in keys if key in given), name)

    def _keys(self, name: str) -> list[str]:
        """The names that the field goes by: its own first."""
        others = [other for pair in self.aliases.items() for other, own in (pair, pair[::-1]) if own == name]
        return [name, *others]

    def _look_up(self, name: str) -> object:
        keys = self._keys(name)
        for key in keys:
            self.reading.seen.add(self.prefix + key)
            if key in self.data:
                return self.data[key]
        for key in keys:
            if key in self.defaults:
                self.reading.assumed[self.prefix + key] = self.defaults[key]
                return self.defaults[key]
        return MISSING

    def _required(self, name: str) -> object:
        value = self._look_up(name)
        if value is MISSING:
            raise InvalidModel(f"{self.prefix}{name} is missing", f"a {self.model_type} config needs it")
        if value is None:
            raise InvalidModel(f"{self.path(name)} is null", f"a {self.model_type} config needs a value")
        return value

    def _list(self, name: str, length: int | None, *, some: bool) -> list[object]:
        values = self._required(name)
        if not isinstance(values, list | tuple):
            raise InvalidModel(f"{self.path(name)} {quoted(values)} is not a list", "write [ … ]")
        if length is not None and len(values) != length:
            raise InvalidModel(f"{self.path(name)} has {len(values)} entries, not {length}", "give one for each layer")
        if some and not values:
            raise InvalidModel(f"{self.path(name)} is an empty list", "give at least one")
        return list(values)


def layer_named(key: object) -> int | None:
    """The place of the layer that a key such as ``"12"`` names; None for one that names no layer.

    >>> layer_named("12"), layer_named("²"), layer_named("9" * 5000)
    (12, None, None)
    """
    name = str(key)
    return int(name) if name.isascii() and name.isdigit() and len(name) <= len(str(MOST_LAYERS)) else None


def check_factor(path: str, value: object) -> float:
    """A number above 0, not necessarily whole. Raises InvalidModel for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
        raise InvalidModel(f"{path} {quoted(value)} is not a factor", "write a number above 0")
    return value
