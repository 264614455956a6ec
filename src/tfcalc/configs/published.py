"""A model as its config.json describes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from tfcalc.configs.config import MOST_LAYERS, Config, ConfigRecord
from tfcalc.configs.family import find
from tfcalc.core.component import Component
from tfcalc.core.measure import params
from tfcalc.core.number import Num
from tfcalc.core.polynomial import Polynomial
from tfcalc.core.traced import Guarded
from tfcalc.dimensions import Dimension, check_sizes
from tfcalc.errors import InvalidModel, TfcalcError, UsageError
from tfcalc.files import check_plain, told_twice
from tfcalc.printable import bounded, printable, quoted
from tfcalc.workload import USUAL_LENGTH, Workload, check_phase

if TYPE_CHECKING:
    from tfcalc.nn.module import Module


SAME_AS = {
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "n_kv_heads": ("num_key_value_heads",),
    "n_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "encoder_layers": ("encoder_layers", "num_encoder_layers", "num_layers"),
    "decoder_layers": ("decoder_layers", "num_decoder_layers"),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim"),
    "head_dim": ("head_dim", "d_kv"),
    "value_dim": ("v_head_dim",),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_len": ("max_position_embeddings", "n_positions", "max_target_positions"),
    "n_experts": (
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "moe_num_experts",
        "ffn_config.moe_num_experts",
    ),
    "experts_per_token": (
        "num_experts_per_tok",
        "num_experts_per_token",
        "moe_topk",
        "moe_k",
        "top_k_experts",
        "ffn_config.moe_top_k",
    ),
}
"""The config's names for what the command line and the library call a size."""


SHOWN = (
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "d_model",
    "n_heads",
    "n_kv_heads",
    "d_ff",
    "n_experts",
    "experts_per_token",
    "vocab_size",
)
"""Sizes that are told of a model wherever it is shown."""

CONTEXT = (
    "model_max_length",
    *SAME_AS["max_len"],
    "max_encoder_position_embeddings",
    "seq_length",
    "max_seq_len",
    "max_sequence_length",
    "context_length",
)
"""Fields with the longest sequence of a model; the first that a config gives counts."""

MAIN_SIZES = ("d_model", "n_layers", "n_heads", "d_ff", "vocab_size")
"""Sizes that every config has of its own: whoever leaves one out may have forgotten it."""
STACKS = ("encoder_layers", "num_encoder_layers", "decoder_layers", "num_decoder_layers")
"""Fields with the layers of each stack, in models with two."""

WRITING = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")
"""Ends of the names of classes that generate."""

POSITIONS = "P"

PLAIN = (int, str, bool, float, type(None), Polynomial)
"""Types of what records nothing that is done with it, so that what comes out may be remembered."""
MOST_NAMES, MOST_COMPARED = 500, 5_000
"""Fields of an object, more being labels or the like, and of a config, that are looked through for slips."""
REMEMBERED = 16
"""Trees, and models with other sizes: as many as one question looks at."""

IN_PATHS = dict.fromkeys(map(ord, "[]."), "_")
"""What paths of modules are made of: in the name of a class, which any text can be, it would be read as part of one."""


Asked = TypeVar("Asked")
Made = TypeVar("Made")


def remembered(known: dict[Asked, Made], asked: Asked, make: Callable[[], Made]) -> Made:
    """Return what was made for this before, or make it; the oldest of a few is forgotten."""
    if asked not in known:
        made = make()
        if len(known) == REMEMBERED:
            del known[next(iter(known))]
        known[asked] = made
    return known[asked]


class HFModel:
    """The fields of a config.json, and the family that knows what they mean.

    ``changed`` are fields other than the file's, by their path; what is ``published`` stays beside ``data``, so
    that a size that is changed twice is as if it were changed once. Those that were changed by a name of their ``own``
    no longer follow one that stands for several. ``instead`` puts other numbers (symbols, arrays) in the place of
    sizes; ``dtype_note`` says that its ``dtype`` is assumed. Raises UnknownModel for a ``model_type`` that no family
    has, InvalidModel for fields that fit no model.

    >>> from tfcalc.core.measure import params
    >>> HFModel({"model_type": "gpt2"}).tree(Workload()).total(params)
    124439808
    """

    __slots__ = (
        "_module",
        "_others",
        "_positions",
        "_read",
        "_trees",
        "changed",
        "data",
        "dtype_note",
        "family",
        "instead",
        "name",
        "own",
        "published",
        "treated_as",
    )

    def __init__(
        self,
        data: Mapping[str, object],
        *,
        name: str = "",
        treated_as: str = "",
        instead: Mapping[str, Num] | None = None,
        changed: Mapping[str, object] | None = None,
        own: frozenset[str] = frozenset(),
        dtype_note: str = "",
    ) -> None:
        if not isinstance(data, Mapping):
            raise InvalidModel(f"{quoted(data)} is not a config", "give the fields of a config.json as a dict")
        check_plain(data)
        self.published = data
        self.changed = dict(changed or {})
        self.own = own
        self.data = with_fields(data, self.changed) if changed else data
        self.dtype_note = dtype_note
        self.name = name
        self.treated_as = treated_as
        self.instead = dict(instead or {})
        self.family = find(treated_as or self.data.get("model_type"))
        self._read: ConfigRecord | None = None
        self._module: Module | None = None
        self._trees: dict[tuple[object, ...], Component] = {}
        self._others: dict[tuple[tuple[str, Num], ...], HFModel] = {}
        self._positions: tuple[int | None] | None = None

    @property
    def config(self) -> dict[str, object]:
        """The fields, with the model_type that they are read by."""
        return {**self.data, "model_type": self.family.model_type}

    @property
    def architecture(self) -> str:
        """The class it is built as: the first of ``architectures``, or the family's own."""
        given = self.data.get("architectures")
        if given is None or given == []:
            return self.family.architecture
        if not isinstance(given, list) or not isinstance(given[0], str):
            raise InvalidModel(f"architectures {quoted(given)} is not a list of names", 'write ["LlamaForCausalLM"]')
        if self.treated_as and not any(given[0].endswith(head) for head in self.family.heads):
            return self.family.architecture
        return given[0]

    def tree(self, workload: Workload) -> Component:
        """The component tree, named as the published checkpoint names its modules.

        Those of the last few workloads are remembered, where they are given by numbers and symbols.
        """
        sizes = tuple(workload.__dict__.values())
        if not all(type(size) in PLAIN for size in (*sizes, *self.instead.values())):
            return self._build(workload)
        return remembered(self._trees, sizes, lambda: self._build(workload))

    def _build(self, run: Workload) -> Component:
        from tfcalc.nn.module import counted

        return counted(self.module(), run)._replace(kind="model")

    def run_by(self, module: Module) -> HFModel:
        """Return the model with another module: the piece that one device has."""
        made = self._with(self.instead, self.changed, self.own)
        made._read, made._module = self.reading, module
        return made

    def _with(self, instead: Mapping[str, Num], changed: Mapping[str, object], own: frozenset[str]) -> HFModel:
        """Return the model with these changes of its config."""
        same = {"name": self.name, "treated_as": self.treated_as, "dtype_note": self.dtype_note}
        return HFModel(self.published, instead=instead, changed=changed, own=own, **same)

    def data_at(self, scope: str) -> Mapping[str, object]:
        """The fields of the config that is nested at this path, or of the whole; none where there is no such one."""
        inside = self.data.get(scope) if scope else self.data
        return inside if isinstance(inside, Mapping) else {}

    def edited(self, fields: Mapping[str, object]) -> HFModel:
        """Return the model with these fields in the place of its config's, each by its path."""
        return self._with(self.instead, {**self.changed, **fields}, self.own)

    def module(self) -> Module:
        """The model as a module that runs."""
        if self._module is None:
            family, reading = self.family, ConfigRecord(find, self.instead)
            head = family.head_of(self.architecture)
            config = Config(self.data, family.model_type, family.defaults, family.aliases, head, reading)
            self._module = family.module(config, head).replace(name=self.architecture.translate(IN_PATHS))
            check_layer_types(self.data, reading)
            self._read = reading
        return self._module

    @property
    def reading(self) -> ConfigRecord:
        """Record of what its family reads: the sizes with their letters, and the fields left to defaults."""
        self.module()
        assert self._read is not None
        return self._read

    def check(self, workload: Workload) -> None:
        """Raise InvalidModel where ``workload`` is impossible, or where no such model can run it."""
        check_sizes(workload)
        check_phase(workload)
        if workload.phase in ("prefill", "decode") and not self.generates:
            raise InvalidModel(
                f"{self.architecture} does not generate text, so it has no {workload.phase}", "use phase forward"
            )

    @property
    def generates(self) -> bool:
        """Return whether it generates tokens: by its class, or by that of its family where it has no head."""
        bare = self.architecture.endswith("Model") and not self.architecture.endswith(WRITING)
        return (self.family.architecture if bare else self.architecture).endswith(WRITING)

    def remarks(self, workload: Workload) -> tuple[str, ...]:
        """Warnings about this model on this workload: sizes that its config lacks, and more tokens than it reads."""
        return (*self.left_out, *self._of_length(workload))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Warning about main sizes that its config leaves out; none of a published checkpoint."""
        if self.name:
            return ()
        self.module()  # which reads them
        assumed = self.reading.assumed
        names = (name for size in MAIN_SIZES for name in SAME_AS[size] if isinstance(assumed.get(name), int))
        told = ", ".join(f"{name} ({assumed[name]:,} is taken)" for name in names)
        return (f"Not in the config: {told}",) if told else ()

    def _of_length(self, workload: Workload) -> Iterator[str]:
        positions, longest, length = self.positions, self.longest, workload.target.seen
        if not isinstance(longest, int) or not isinstance(length, int) or length <= longest:
            return
        if positions is None:
            yield f"{length:,} tokens exceed the {longest:,} that it was made for; counted as if it read them"
        else:
            yield f"{length:,} tokens exceed its {positions:,} positions; counted as if it supported them"

    @property
    def positions(self) -> int | None:
        """Rows of its trained table of positions; None where it has none: angles and sines go on."""
        if self._positions is None:
            self._positions = (self._found_positions(),)
        return self._positions[0]

    def _found_positions(self) -> int | None:
        weights = (weight for module in self.module().all_of() for weight in module.own_params().weights)
        if not any(weight.name == POSITIONS and not weight.frozen for weight in weights):
            return None
        read = self.reading.sizes
        return next((read[path] for name in SAME_AS["max_len"] for path in _places(name) if path in read), None)

    @property
    def longest(self) -> Num | None:
        """Longest sequence: the size of its table of positions, or the length that its config gives."""
        if self.positions is not None:
            return self.positions
        text = self.data.get("text_config")
        for scope in (self.data, text if isinstance(text, Mapping) else {}):
            for name in CONTEXT:
                value = scope.get(name)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return None

    @property
    def usual_length(self) -> int:
        """Tokens of a sequence where none are asked for: those of a chat, of a document, of many a training run."""
        return USUAL_LENGTH

    @property
    def called(self) -> str:
        """``llama-3-8b with num_hidden_layers 16``; ``""`` for a config without a name and without changes."""
        said = {path: value for path, value in self.changed.items() if path not in ("model_type", "architectures")}
        changes = ", ".join(f"{path} {_of_kinds(value)}" for path, value in said.items())
        return " with ".join(part for part in (self.name or (changes and "config"), changes) if part)

    @property
    def summary(self) -> str:
        """``llama-3-8b with num_hidden_layers 16: LlamaForCausalLM (llama)``."""
        called = f"{self.called}: " if self.called else ""
        treated = f", treated as {self.treated_as}" if self.treated_as else ""
        return f"{called}{self.architecture} ({self.data.get('model_type')}{treated})"

    def __repr__(self) -> str:
        """The summary, with its parameters and sizes; without those of a config that makes no model."""
        try:
            read = self.reading.sizes
            whole = "" if self.instead else f", {self.tree(Workload()).total(params):,} parameters"
        except TfcalcError:
            return f"<{self.summary}>"
        sizes = (next((path for same in SAME_AS[size] for path in _places(same) if path in read), "") for size in SHOWN)
        said = (f", {path.rpartition('.')[2]} {read[path]:,}" for path in dict.fromkeys(filter(None, sizes)))
        return f"<{self.summary}{whole}{''.join(said)}>"

    def dimensions(self) -> dict[str, Dimension]:
        """The sizes that were read, by the field's path."""
        return {path: Dimension(known.letter, known.meaning, ()) for path, known in self.reading.fields.items()}

    def values(self) -> dict[str, Num]:
        """Meanings of the letters."""
        read = self.reading
        return {read.fields[path].letter: self.instead.get(path, value) for path, value in read.sizes.items()}

    def replaced(self, **sizes: Num) -> HFModel:
        """Return the model with these sizes, by their path or by tfcalc's name. Raises UsageError for others.

        A name for the layers of both stacks does not change a stack whose own number is given.

        >>> model = HFModel({"model_type": "t5"}).replaced(encoder_layers=3).replaced(n_layers=17)
        >>> model.changed
        {'num_layers': 3, 'num_decoder_layers': 17}
        """
        if not sizes:
            return self
        if not all(type(size) in PLAIN for size in sizes.values()):
            return self._replaced(sizes)
        return remembered(self._others, tuple(sizes.items()), lambda: self._replaced(sizes))

    def _replaced(self, sizes: Mapping[str, Num]) -> HFModel:
        places = {name: self._paths_of(name) for name in sizes}
        alone = {paths[0]: sizes[name] for name, paths in places.items() if len(paths) == 1}
        paths = {
            path: size
            for name, size in sizes.items()
            for path in places[name]
            if len(places[name]) == 1 or not (path in alone or path in self.own)
        }
        here = {path: size.value if isinstance(size, Guarded) else size for path, size in paths.items()}
        changed = {**self.changed, **{path: size for path, size in here.items() if isinstance(size, int)}}
        instead = {
            path: size
            for path, size in {**self.instead, **paths}.items()
            if path not in paths or not isinstance(size, int)
        }
        return self._with(instead, changed, self.own | {path for path, size in alone.items() if isinstance(size, int)})

    def places(self, name: str, /) -> list[str]:
        """The fields that change with the size of this name: not those of a stack whose own layers were given."""
        found = self._paths_of(name)
        return found if len(found) == 1 else [path for path in found if path not in self.own]

    def unread(self, name: str, /) -> str:
        """The field that holds the size of this name where nothing reads it, so that it decides nothing; else ""."""
        paths = self._paths_of(name)
        if any(path in self.reading.seen or path.rpartition(".")[2] in CONTEXT for path in paths):
            return ""
        return "" if any(has_kinds(self.data, path) for path in paths) else paths[0]

    def lost(self, other: HFModel) -> str:
        """The field that was changed in the other model and is read there, but not in this one; else ""."""
        read, here = other.reading.sizes, self.reading.sizes
        return next((path for path in other.changed if path in read and path not in here), "")

    def _paths_of(self, name: str) -> list[str]:
        """The fields that hold the size of this name: of both stacks, where a model has two."""
        if name in self.reading.sizes:
            return [name]
        read = {**self.reading.sizes, **self.reading.assumed}
        known = SAME_AS.get(name, (name,))
        if name == "encoder_layers" and not any(path in read or path in self.data for path in STACKS):
            known = ()
        places = [path for one in known for path in _places(one) if path in read or path in self.data][:1]
        if name == "n_layers":
            places += [path for path in STACKS if path in read or self.data.get(path) is not None]
        if not places:
            raise UsageError(
                f"{name} is not a size of a {self.family.model_type} config", "edit the config, which --json shows"
            )
        return places

    def described(self) -> dict[str, object]:
        """JSON object of the model: the config with its changes, and the defaults that were used."""
        return {
            "name": self.name,
            "architecture": self.architecture,
            "changed": finite(self.changed),
            "config": finite(self.data),
            "defaults": finite(self.reading.assumed),
        }

    def also_called(self, name: str, /) -> tuple[str, ...]:
        """Name of the size at this path in tfcalc: ``d_model`` for ``hidden_size``."""
        return tuple(ours for ours, theirs in SAME_AS.items() if name.removeprefix("text_config.") in theirs)

    def with_vocabulary(self, vocabulary: Num) -> HFModel:
        """Return the model itself: a config has the vocabulary that it has."""
        return self

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The fields that the config leaves out and that have a value by default; the family it is treated as."""
        left = {path: value for path, value in self.reading.assumed.items() if value not in (None, False)}
        found = []
        if self.treated_as:
            found.append(f"model_type {self.data.get('model_type')!r} treated as {self.treated_as}, as asked")
        if left:
            fields = ", ".join(f"{path}={_brief(value)}" for path, value in left.items())
            like, whose = self.family.like, "transformers' defaults"
            if like:
                whose = f"defaults of {like}, which {self.family.model_type} is like,"
            found.append(f"{whose} used for fields missing from the config: {fields}")
        return tuple(found)

    @property
    def _unread(self) -> tuple[str, ...]:
        """Fields with a value that the family left unread, but for those that decide no size."""
        given = (name for name, value in self.data.items() if value not in (None, False))
        return tuple(sorted(name for name in given if name not in self.reading.seen and not _of_no_size(name)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Fields that are given twice, slips of a field that was left out, and what another type leaves unread."""
        from difflib import get_close_matches

        left, found = list(self.reading.assumed), told_twice(self.data)
        if self.treated_as and (unread := self._unread):
            more = f" and {len(unread) - MOST_UNREAD} more" if unread[MOST_UNREAD:] else ""
            names = ", ".join(bounded(printable(name), LONGEST_NAME) for name in unread[:MOST_UNREAD])
            found.append(f"not read as {self.treated_as}: {names}{more}; what they stand for is not counted")
        scopes = {scope: inner for scope, inner in self.data.items() if isinstance(inner, Mapping)}
        nested = {f"{scope}.{name}" for scope, inner in scopes.items() if len(inner) <= MOST_NAMES for name in inner}
        for name in [*self.data, *sorted(nested)][:MOST_COMPARED]:
            if name not in self.reading.seen and name not in self.family.defaults:
                close = [
                    path for path in get_close_matches(name, left, n=1, cutoff=0.85) if abs(len(path) - len(name)) < 3
                ]
                found += (
                    [f"{name} is not a field of a {self.family.model_type} config; did you mean {close[0]}?"]
                    if close
                    else []
                )
        return tuple(found)


OF_NO_SIZE = (
    *("token_id", "_eps", "dropout", "dtype", "loss_coef", "initializer", "label", "rope_"),
    *("output_attentions", "output_hidden_states", "output_past", "output_router_logits", "output_scores"),
    *("architectures", "auto_map", "max_position_embeddings", "model_type", "pretraining_tp", "version", "use_cache"),
)
"""Parts of the names of fields that decide no size: tokens' numbers, constants, what a trainer or a generator does."""
MOST_UNREAD, LONGEST_NAME = 8, 40


def _of_no_size(name: str) -> bool:
    return name.startswith("_") or any(part in name for part in OF_NO_SIZE)


def _places(name: str) -> tuple[str, str]:
    """Nested configs that may have the fields of the text model."""
    return name, f"text_config.{name}"


def _brief(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else "…"


def _of_kinds(value: object) -> str:
    """A value in a few words: of a list how often it has each.

    >>> _of_kinds(["sliding_attention"] * 5 + ["full_attention"]), _of_kinds(None)
    ('(5 sliding_attention, 1 full_attention)', 'null')
    """
    if isinstance(value, list):
        return f"({', '.join(f'{count} {kind}' for kind, count in Counter(value).items())})"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def finite(value: object) -> object:
    """Return the value without infinities, which JSON lacks: an infinite time step is written as text."""
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


LAYERS, LAYER_TYPES, ATTENTION_TYPES = "num_hidden_layers", "layer_types", "attention_types"
COUNTS = (LAYERS, "num_layers")
"""Fields that say of how many layers there are kinds."""
KINDS = ("layers_block_type", "hybrid_override_pattern")
"""Fields that have a kind for each layer, beside those that end as the two above: lists, or a text of letters."""


def with_fields(data: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """The config with these fields written into it; types of layers are cut, or begun again, to be as many as these."""
    changed = dict(data)
    for path, size in sorted(fields.items(), key=lambda field: field[0].endswith(COUNTS)):
        *scopes, name = path.split(".")
        inside = changed
        for scope in scopes:
            nested = inside.get(scope)
            inside[scope] = inside = dict(nested) if isinstance(nested, Mapping) else {}
        inside[name] = size
        if name in COUNTS and isinstance(size, int):
            for field in _kinds(inside):
                inside[field] = _for_layers(inside[field], min(size, MOST_LAYERS))
    return changed


def has_kinds(data: Mapping[str, object], path: str) -> bool:
    """Return whether the size at this path is the number of layers whose kinds the config lists."""
    *scopes, name = path.split(".")
    inside: object = data
    for scope in scopes:
        inside = inside.get(scope) if isinstance(inside, Mapping) else None
    return name in COUNTS and isinstance(inside, Mapping) and bool(_kinds(inside))


def _kinds(inside: Mapping[str, object]) -> list[str]:
    """The fields that have a kind for each layer."""
    return [
        field
        for field, kinds in inside.items()
        if (field.endswith((LAYER_TYPES, ATTENTION_TYPES)) or field in KINDS)
        and isinstance(kinds, list | str)
        and kinds
    ]


def _for_layers(types: Any, count: int) -> Any:
    """Type of each of ``count`` layers; GPT-Neo lists groups that are repeated, Nemotron-H writes letters.

    >>> _for_layers(["full", "sliding"], 3), _for_layers([[["global", "local"], 2]], 3), _for_layers("ME*-", 6)
    (['full', 'sliding', 'full'], [[['global', 'local', 'global'], 1]], 'ME*-ME')
    """
    if isinstance(types, str):
        return "".join(_for_layers(list(types), count))
    if not all(isinstance(each, list) and list(map(type, each)) == [list, int] for each in types):
        return [types[place % len(types)] for place in range(count)]
    return [[_for_layers([kind for kinds, times in types for kind in kinds * min(times, count)], count), 1]]


def check_layer_types(data: Mapping[str, object], reading: ConfigRecord) -> None:
    """One for each layer, whether the family looks at them or not: transformers takes no other list either."""
    for scope in ("", "text_config."):
        inside = data.get(scope.removesuffix(".")) if scope else data
        types = inside.get(LAYER_TYPES) if isinstance(inside, Mapping) else None
        count = reading.sizes.get(f"{scope}{LAYERS}")
        if isinstance(types, list) and count is not None and len(types) != reading.guarded(f"{scope}{LAYERS}", count):
            raise InvalidModel(f"{scope}{LAYER_TYPES} has {len(types)} entries, not {count}", "give one for each layer")
