"""The options: most are the fields of the model, the workload and the definitions, so they are declared there."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from tfcalc.cli.commands import QUESTION
from tfcalc.dimensions import LARGEST, NO_SPELLINGS, Choice, Described, Text, facet
from tfcalc.named_tuple import NamedTuple
from tfcalc.workload import DEFAULT_LENGTH, USUAL_LENGTH, Conventions, Workload
from tfcalc.zoo.transformer import Transformer

VERSUS = " vs "
"""What stands between the two texts of an option of a pair."""


class Option(NamedTuple):
    """One option: ``known`` words; a whole ``number``, from ``least`` to ``most``; an ``amount`` above 0; or free text.

    A ``switch`` takes no value, an ``argument`` has no flag, and one of ``several`` takes as many words as there are.
    An option may be ``short_for`` others with their values (None: its own). ``alone`` is its value where none follows
    it. Of a ``length`` in tokens k is 1,024. ``spellings`` are others' words.

    An amount is ``hourly`` if it is one of dollars for an hour, and ``timed`` if it is one of seconds.

    One of a ``pair`` takes two texts, which are one value with VERSUS between them.

    What decides on what is written, replaced or run is not taken from a settings file: that is found, and anyone may
    have written it. Of such an option ``typed`` says how it is typed, ``-o FILE``, and ``changes`` what it decides on.
    One that runs the user's code is not taken from a ``variable`` either. One whose flag is another's key
    ``answers_to`` its name alone.

    The help lists it in its ``group``, and on the first screen if it is in ``front``. A shell completes its value
    from its ``known`` words, or from what it ``offers``, a name of :data:`tfcalc.cli.completion.OFFERED`.
    """

    name: str
    flags: tuple[str, ...]
    help: str
    known: tuple[str, ...] = ()
    number: bool = False
    amount: bool = False
    switch: bool = False
    argument: bool = False
    several: bool = False
    short_for: tuple[tuple[str, int | str | None], ...] = ()
    alone: str = ""
    length: bool = False
    spellings: Mapping[str, str] = NO_SPELLINGS
    least: int = 1
    most: int = LARGEST
    spreads: bool = False
    typed: str = ""
    changes: str = "what is written or run"
    variable: bool = True
    replaces_file: bool = False
    pair: bool = False
    answers_to: str = ""
    group: str = QUESTION
    front: bool = False
    offers: str = ""
    hourly: bool = False
    timed: bool = False

    @property
    def keys(self) -> list[str]:
        """Its names without dashes: what a settings file calls it, and in capitals after TFCALC_ a variable."""
        if self.answers_to:
            return [self.answers_to]
        flags = (flag.split("/")[0].removeprefix("--") for flag in self.flags if flag.startswith("--"))
        return list(dict.fromkeys([*(flag.replace("-", "_") for flag in flags), self.name]))


RANK = "16"
"""LoRA's rank where none is given: that of peft's own examples."""
ALONE = {"recompute": "full", "lora": RANK}
"""Values of options that may stand alone."""


def of_fields(described: type[Described], *names: str) -> Iterator[Option]:
    """The options that a dataclass declares by its fields: all of them, or those named."""
    for item in fields(described):
        known = facet(item)
        if known is None or not known.flags or (names and item.name not in names):
            continue
        group, front = known.shown.group or described.help_group, known.shown.front
        if isinstance(known, Text):
            default = f" [default: {item.default}]" if item.default else ""
            yield Option(item.name, known.flags, known.meaning + default, group=group, front=front, offers=known.offers)
        elif isinstance(known, Choice):
            default = "" if isinstance(item.default, bool) else f" [default: {item.default}]"
            yield Option(
                item.name,
                known.flags,
                known.meaning + default,
                known.known,
                switch=not known.known,
                spellings=known.spellings,
                alone=ALONE.get(item.name, ""),
                group=group,
                front=front,
            )
        else:
            value = item.default if known.follows == "" else known.follows
            default = "" if value is None else f" [default: {value}]"
            if item.default == DEFAULT_LENGTH and known.length:
                default = f" [default: {USUAL_LENGTH:,} of a named model, or all it can read; else {value}]"
            yield Option(
                item.name,
                known.flags,
                f"{known.symbol}: {known.meaning}{default}",
                number=True,
                alone=ALONE.get(item.name, ""),
                length=known.length,
                group=group,
                front=front,
            )


def keyed(options: Iterable[Option]) -> dict[str, Option]:
    """The options by each of their keys; arguments have none."""
    return {key: option for option in options if option.flags for key in option.keys}


def spreading(options: Iterable[Option]) -> tuple[Option, ...]:
    """Return these options with numbers that may be several: for commands that answer for each."""
    return tuple(option._replace(spreads=True) if option.number else option for option in options)


FORMATS = ("table", "json", "csv", "markdown", "latex", "plain")
COLORS = ("auto", "always", "never")
NOTATIONS = ("lbhn", "bsld", "names")

NAMED = (
    "a model's name, a Hub id, a config.json or its folder (REF:PATH: at a git revision), - for standard input;"
    " options override its sizes"
)
MODEL_ARGUMENT = Option("model", (), NAMED, argument=True, offers="models")
MODEL = Option("model_name", ("--model",), NAMED, group="model", offers="models")
READ_AS = (
    Option(
        "treat_as", ("--as",), "read the config as this model_type, whatever it says", group="model", offers="types"
    ),
    Option("offline", ("--offline",), "no network access, not even for a Hub id", switch=True, group="model"),
)
MODEL_FIELDS = tuple(of_fields(Transformer))
EDITS = (
    Option(
        "n_experts",
        ("--num-experts",),
        "of a mixture: experts of each layer (--experts N means it, too)",
        number=True,
        group="model",
        typed="--num-experts N",
        changes="a model's config",
        variable=False,
    ),
    Option(
        "experts_per_token",
        ("--active", "--num-experts-per-tok"),
        "of a mixture: experts that each token goes through",
        number=True,
        group="model",
        typed="--active N",
        changes="a model's config",
        variable=False,
    ),
    Option(
        "windows",
        ("--window",),
        "of a config: keys that its layers see, in the first 5 of every 6 layers: 4096, 4096:5/6, none",
        group="model",
        typed="--window W:K/N",
        changes="a model's config",
        variable=False,
    ),
    Option(
        "attention_kind",
        ("--attention-kind",),
        "of a config: other attention; mla:N is latent of this rank (--attention mla means it, too)",
        ("mha", "mqa", "mla", "mla:N"),
        group="model",
        typed="--attention-kind KIND",
        changes="a model's config",
        variable=False,
    ),
)
"""Changes of a named model's config, which the classic model has no fields for."""
MODEL_OPTIONS = (MODEL, *READ_AS, *MODEL_FIELDS, *EDITS)
DEPTH = Option(
    "depth",
    ("--depth",),
    "levels of the breakdown shown [default: down to the layers]",
    number=True,
    least=0,
    group="output",
)
RUN = (
    Option(
        "train",
        ("--train",),
        "short for --phase train",
        switch=True,
        short_for=(("phase", "train"),),
        group="training",
        front=True,
    ),
    *of_fields(Workload),
    Option(
        "gradient_checkpointing",
        ("--gradient-checkpointing",),
        "short for --checkpointing full",
        switch=True,
        short_for=(("recompute", "full"),),
        group="training",
    ),
)
OF_STEPS = tuple(one._replace(front=False) if one.name in ("cached", "phase", "train") else one for one in RUN)
"""The same for commands about training alone: none of these is needed there."""
OF_PLANS = tuple(one._replace(front=False) if one.name in ("cached", "phase") else one for one in RUN)
"""The same for commands that have --train and --serve."""
COUNT = tuple(of_fields(Conventions, "count"))
DTYPE = tuple(of_fields(Conventions, "dtype"))
UNITS = tuple(of_fields(Conventions, "units"))
CONVENTIONS = (*COUNT, *DTYPE, *UNITS)
SHOW = (
    Option("format", ("--format",), "output format [default: table]", FORMATS, group="output", front=True),
    Option(
        "json",
        ("--json",),
        "short for --format json",
        switch=True,
        short_for=(("format", "json"),),
        group="output",
        front=True,
    ),
    Option("quiet", ("--quiet", "-q"), "print only the answer, on one line", switch=True, group="output", front=True),
    Option(
        "output",
        ("--output", "-o"),
        "write to this file: .html is a page, .svg a picture; - is the standard output",
        typed="-o FILE",
        group="output",
        front=True,
    ),
    Option(
        "notation",
        ("--notation",),
        "letters of the formulas (JSON always has lbhn) [default: lbhn]",
        NOTATIONS,
        group="output",
    ),
    Option(
        "formulas", ("--formulas",), "show the formula column and its legend", switch=True, group="output", front=True
    ),
    Option(
        "assumptions",
        ("--assumptions",),
        "print every assumption and definition",
        switch=True,
        group="output",
        front=True,
    ),
    Option("ascii", ("--ascii",), "ASCII only", switch=True, group="output"),
    Option("color", ("--color",), "colour in tables [default: auto]", COLORS, group="output"),
    Option("debug", ("--debug",), "show the traceback of an internal error", switch=True, group="output"),
)


STEP_TIME = Option("step_time", ("--step-time",), "measured seconds of a step: 2.5 or 350ms", amount=True, timed=True)
TUNING = (
    Option(
        "lora",
        ("--lora",),
        "r: train LoRA adapters of this rank instead of the weights",
        number=True,
        alone=RANK,
        group="training",
        front=True,
    ),
    Option(
        "lora_targets",
        ("--lora-targets",),
        "modules to adapt, as comma-separated name suffixes [default: all-linear]",
        group="training",
    ),
    Option(
        "dora", ("--dora/--no-dora",), "DoRA: LoRA with a trained magnitude per output", switch=True, group="training"
    ),
    Option(
        "lora_dropout",
        ("--lora-dropout",),
        "probability of dropout before the adapters; any above 0 costs the same",
        group="training",
    ),
    Option("freeze", ("--freeze",), "modules not to train, as comma-separated names or patterns", group="training"),
)
"""What is trained of a model: those fields of a plan of training that decide on parameters and FLOPs, too."""


def training() -> tuple[Option, ...]:
    """Options of how a model is trained."""
    from tfcalc.plans import Training  # not at the door: few commands need it

    return (*of_fields(Training), QLORA, FSDP)


def serving() -> tuple[Option, ...]:
    """Options of how a model is served."""
    from tfcalc.plans import Serving

    return tuple(of_fields(Serving))


def plans() -> tuple[Option, ...]:
    """Options of how a model is trained and served."""
    return (*training(), *serving())


QLORA = Option(
    "qlora",
    ("--qlora",),
    "LoRA of this rank over 4-bit weights: --lora N --base-weights nf4-dq [alone: 16]",
    number=True,
    alone=RANK,
    short_for=(("lora", None), ("base_weights", "nf4-dq")),
    group="training",
    front=True,
)
UTILIZATION = Option(
    "utilization",
    ("--gpu-memory-utilization",),
    "fraction of a GPU's memory used for serving [default: 0.9 with a paged cache, or the engine's]",
    amount=True,
    group="gpus",
)
FSDP = Option(
    "fsdp",
    ("--fsdp",),
    "fully sharded: --zero 3 --layout fsdp2",
    switch=True,
    short_for=(("zero", "3"), ("layout", "fsdp2")),
    group="gpus",
    front=True,
)
OF_STACK = Option(
    "stack",
    ("--stack",),
    "whose code runs: megatron, fsdp, deepspeed [default: megatron]",
    group="training",
    front=True,
)
OF_LAYOUT = (
    Option(
        "expert_tensor_parallel",
        ("--etp", "--expert-tensor-parallel"),
        "GPUs that share each expert [default: --tp]",
        number=True,
        group="gpus",
    ),
    Option(
        "replicas",
        ("--replicas",),
        "replicas of whole shards, HSDP, with --stack fsdp [default: 1]",
        number=True,
        group="gpus",
    ),
    Option("first_layers", ("--first-stage-layers",), "layers on the first stage", number=True, least=0, group="gpus"),
    Option("last_layers", ("--last-stage-layers",), "layers on the last stage", number=True, least=0, group="gpus"),
    Option(
        "counts_embedding",
        ("--embedding-as-layer",),
        "count the embedding as one of the layers",
        switch=True,
        group="gpus",
    ),
    Option(
        "counts_loss",
        ("--loss-as-layer",),
        "count the head and its loss as one of the layers",
        switch=True,
        group="gpus",
    ),
    Option(
        "shares_latents",
        ("--shared-latents",),
        "maps down to latent vectors are shared, as by Megatron-core's local spec, and not whole",
        switch=True,
        group="gpus",
    ),
)
"""Options of a layout in training, beside those that a plan of training has."""
