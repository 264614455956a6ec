"""``tfcalc calibrate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcalc.answers.calibrate import Calibrated
from tfcalc.catalog import from_config, load, names
from tfcalc.cli.commands import Command
from tfcalc.cli.commands.plan import (
    BATCH,
    CHECKPOINTING,
    GPU,
    GPUS,
    MACHINE,
    PRECISION,
    SHARES,
    STACK,
    ZERO,
    tokens_of_batch,
)
from tfcalc.cli.messages import tell
from tfcalc.cli.options import MODEL, MODEL_FIELDS, READ_AS, SHOW, Option, of_fields
from tfcalc.cli.output import STANDARD_OUTPUT, deliver, show
from tfcalc.cli.settings import FLAG, Settings
from tfcalc.errors import BadFile, InvalidModel, UsageError, nearest
from tfcalc.files import content
from tfcalc.hardware import parse_gpu
from tfcalc.printable import quoted
from tfcalc.timing.measured_runs import KEYS, config_of, read_runs, unread
from tfcalc.timing.run_logs import LARGEST_LOG, rows_in
from tfcalc.workload import Workload

if TYPE_CHECKING:
    from tfcalc.model import Model
    from tfcalc.report.answer import Answered

MOST_FILES = 100
FILES = Option("logs", (), "logs of trainers, or files with a row of JSON for each run", argument=True, several=True)
OUTPUT = Option(
    "output",
    ("--output", "-o"),
    "write the rates to this file [default: to none]",
    typed="-o FILE",
    group="output",
    front=True,
)
ROW_KEYS = {
    "gpus": "n_gpus",
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "virtual_pipeline": "vpp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
    "zero": "zero",
    "micro_batch": "micro_batch",
    "seq_len": "seq",
    "global_batch_size": "global_batch",
    "precision": "precision",
    "recompute": "recompute",
    "stack": "stack",
    "gpus_per_node": "gpus_per_node",
}
"""Options that say what a log does not, and the key of a row that each is."""


def _described(option: Option) -> Option:
    return option._replace(help=f"{option.help.partition(' [')[0]} [default: as the log says]")


def answer(settings: Settings) -> Calibrated:
    """Constants by the runs of these files."""
    files = settings.get("logs") or ()
    if not files:
        raise UsageError("a calibration needs logs", "name one: tfcalc calibrate train.log --gpu 64xh100")
    if len(files) > MOST_FILES:
        raise UsageError(f"{len(files):,} files are given", f"give at most {MOST_FILES}")
    target = settings.get("output", STANDARD_OUTPUT)
    if target != STANDARD_OUTPUT and any(_same(target, file) for file in files):
        raise UsageError(f"-o {quoted(target)} is one of the logs", "write another file")
    rows: list[tuple[str, Mapping[str, Any]]] = []
    for file in files:
        rows += rows_in(file_text(file, LARGEST_LOG), file)
    said, typed = _said(settings)
    rows = [(place, _with(row, said, typed, place)) for place, row in rows]
    named = [settings.given[one.name] for one in (MODEL, *MODEL_FIELDS) if one.name in settings.given]
    typed_model = settings.model() if any(one.source == FLAG for one in named) else None
    runs, unused = read_runs(rows, lambda row, place: described(row, place, typed_model))
    if typed_model is not None and all(says_its_model(row) for _, row in rows):
        words = next(one.words for one in named if one.source == FLAG)
        raise UsageError(f"{words} has no effect: every run says its own model", "leave it out")
    if further := unread(row for _, row in rows):
        tell(f"tfcalc: keys that are not read: {quoted(', '.join(further))}", ascii_only=settings.get("ascii", False))
    sources = ", ".join(Path(file).name for file in files[:3]) + f" and {len(files) - 3} more" * (len(files) > 3)
    return Calibrated(runs, unused, sources=sources, target="" if target == STANDARD_OUTPUT else target)


def says_its_model(row: Mapping[str, Any]) -> bool:
    """Return whether a row describes its model, or names a preset."""
    return bool(row.get("config") or row.get("arch") or row.get("model") in names())


def described(row: Mapping[str, Any], place: str, typed: Model | None = None) -> Model:
    """The row's model: by its config, its sizes, or the preset of its name; else the one that was typed.

    A name that is no preset is not looked for elsewhere.
    """
    try:
        if row.get("config"):
            return from_config(row["config"])
        if row.get("arch"):
            return from_config(config_of(row["arch"], row.get("layers"), int(row["seq"])))
        if row.get("model") in names():
            return load(row["model"], offline=True)
        if typed is not None:
            return typed
    except InvalidModel as error:
        raise BadFile(f"{place}: {error.message}", error.hint) from None
    except (KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{place}: arch cannot be read: {error}", f"it is {KEYS['arch'].meaning}") from None
    if not row.get("model"):
        raise BadFile(f"{place} does not say the model", "add --model llama-3-8b")
    fact = f"{place}: model {quoted(row['model'])} is no preset"
    raise BadFile(fact, f"describe it by config or arch, or type --model; {nearest(row['model'], names())}")


def file_text(file: str, most: int) -> str:
    """Return the text of a file of at most this many bytes. Raises BadFile."""
    try:
        raw = content(Path(file), most)
    except OSError as error:
        hint = f"of a model it is --model {file}" if file in names() else ""
        raise BadFile(f"{quoted(file)} cannot be read: {error.strerror}", hint) from None
    if len(raw) > most:
        raise BadFile(f"{quoted(file)} is larger than {most >> 20} MiB", "give the part with the steps")
    return raw.decode("utf-8-sig", errors="replace")


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False


def _said(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what options say of the runs, by the keys of rows; and the words of those that were typed."""
    said: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for name, key in ROW_KEYS.items():
        if name in settings.given:
            value = settings.get(name)
            said[key] = int(value) if name == "zero" else value
            if settings.given[name].source == FLAG:
                typed[key] = settings.given[name].words
    if gpu := settings.get("gpu"):
        counted, said["gpu"] = parse_gpu(gpu)
        if counted > 1:
            said.setdefault("n_gpus", counted)
    if tokens := settings.get("global_batch"):
        said["global_batch"] = tokens_of_batch(tokens) / (said.get("seq") or 0) if said.get("seq") else None
        if said["global_batch"] is None:
            raise UsageError(f"--global-batch {tokens:g} tokens need a length", "add --seq 4k, or --global-batch-size")
    if nic := settings.get("nic"):
        said["nic_gbps_node"] = nic * 8 / 1e9 * (said.get("gpus_per_node") or 8)
    return said, typed


def _with(row: Mapping[str, Any], said: Mapping[str, Any], typed: Mapping[str, str], place: str) -> dict[str, Any]:
    """Return the row with what options say in the place of what it does not. Raises UsageError where they differ."""
    found = dict(row)
    for key, value in said.items():
        if found.get(key) is None:
            found[key] = value
        elif key in typed and found[key] != value:
            raise UsageError(f"{typed[key]} contradicts {quoted(place)}: {key} {quoted(found[key])}", "leave it out")
    return found


def write(found: Calibrated, settings: Settings) -> None:
    """The file that was typed, where the runs agree; and the answer."""
    if found.target and found.succeeded:
        deliver(found.file_text.removesuffix("\n"), settings)
    show(found, settings.with_values(output=STANDARD_OUTPUT))


def _code(found: Answered) -> int:
    return 0 if getattr(found, "succeeded", True) else 1


def _options() -> Iterator[Option]:
    yield from (MODEL, *READ_AS, *MODEL_FIELDS)
    yield GPU
    for option in (
        GPUS,
        *SHARES,
        ZERO,
        *of_fields(Workload, "seq_len"),
        *BATCH,
        PRECISION,
        CHECKPOINTING,
        STACK,
        *MACHINE,
    ):
        yield _described(option)
    yield OUTPUT
    yield from (option for option in SHOW if option.name != "output")


COMMAND = Command(
    answer,
    (FILES, *_options()),
    (
        "tfcalc calibrate runs.jsonl -o rates.toml",
        "tfcalc calibrate train.log --gpu a100-80",
    ),
    _code,
    write,
)
