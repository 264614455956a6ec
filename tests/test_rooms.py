"""The house: who may import whom, and what the door must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.laws.house import nodes, tree

SOURCE = Path(__file__).parents[1] / "src" / "tfcalc"

ROOMS = [
    ("testing", "page"),
    ("cli",),
    ("exercises",),
    ("verify", "arrays", "symbolic", "catalog", "solving"),
    ("budgets",),
    ("render",),
    ("analysis", "answers"),
    ("report", "schemas"),
    ("search",),
    ("timing",),
    ("training", "serving", "defaults", "plans"),
    ("backends",),
    ("hub", "revisions"),
    ("placed",),
    ("reader", "zoo"),
    ("configs",),
    ("model",),
    ("nn",),
    ("ops",),
    ("workload",),
    ("dimensions",),
    ("tape",),
    ("expressions",),
    ("core", "units", "hardware"),
    ("number_formats", "settings_file", "toml_lines"),
    ("files",),
    ("errors",),
    ("printable", "named_tuple"),
]
"""Each may import from its own row and from those below it."""

HEAVY = {"numpy": ["arrays", "timing/numbers.py", "timing/step.py", "search/layouts.py"], "sympy": ["symbolic.py"]}
HEAVY |= {"torch": ["verify/"], "transformers": ["verify/"], "huggingface_hub": ["hub.py"]}
HEAVY |= {"plotext": ["render/chart.py"], "vl_convert": ["render/drawing.py"], "pyarrow": ["arrays"]}
HEAVY |= {"pydantic": [], "rich": ["render/table.py", "render/progress.py"], "typer": ["cli/app.py", "cli/main.py"]}
HEAVY |= {"pytest": ["testing/plugin.py"], "pandas": [], "polars": []}  # render/as_frame.py finds these two by name


@cache
def imports(path: Path, *, everywhere: bool) -> set[str]:
    """The modules that a file imports: at its head, or anywhere in it (but for type checkers alone)."""
    for_types = {
        inner
        for node in nodes(path)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in nodes(path) if everywhere else tree(path).body:
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{name.name}" for name in node.names}
    return found


def room(module: str) -> int:
    return next(index for index, names in enumerate(ROOMS) if module in names)


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_room_imports_only_from_below(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__", "models"):
        return
    for module in imports(path, everywhere=False):
        parts = module.split(".")
        if (
            parts[0] == "tfcalc"
            and len(parts) > 1
            and (SOURCE / parts[1]).is_dir() | (SOURCE / f"{parts[1]}.py").exists()
        ):
            assert room(parts[1]) >= room(own), f"{own} imports {module}"


KIN = {
    "gemma4": {"gemma3n"},
    "git": {"clip"},
    "hybrid": {"granite_moe"},
    "idefics": {"clip"},
    "modernvbert": {"modernbert"},
    "phi4_multimodal": {"clip"},
    "qwen_vl": {"qwen_moe"},
    "transformer": {"classic", "textbook", "transformer_check"},
    "transformer_check": {"transformer"},
}
"""Of a file of the zoo: those whose models it extends. The classic Transformer has several files."""


@pytest.mark.parametrize("path", sorted((SOURCE / "zoo").rglob("*.py")), ids=lambda path: path.stem)
def test_an_architecture_imports_blocks_rows_and_its_kin(path: Path) -> None:
    own = path.relative_to(SOURCE / "zoo").with_suffix("").parts
    allowed = {"blocks", "decoders", *own, *KIN.get(own[0], ())}
    for module in imports(path, everywhere=True):
        if module.startswith("tfcalc.zoo."):
            remedy = "what two share is in zoo/blocks, or a row of zoo/decoders.py"
            assert module.split(".")[2] in allowed, f"{'.'.join(own)} imports {module}; {remedy}"


@pytest.mark.parametrize("library", HEAVY)
def test_each_heavy_library_has_its_room(library: str) -> None:
    users = [
        str(path.relative_to(SOURCE))
        for path in FILES
        if any(module.split(".")[0] == library for module in imports(path, everywhere=True))
    ]
    rooms = HEAVY[library]
    assert bool(users) == bool(rooms)
    assert [user for user in users if not user.startswith(tuple(rooms))] == []


def loaded(code: str) -> set[str]:
    """What a fresh interpreter has loaded after this code."""
    program = f"import sys\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {module.split(".")[0] for module in done.stdout.splitlines()[-1].split()}


TRAIN = "train gpt2 --tokens 1M --gpu h100 --seq 64 --json"
PLAN = (
    "plan gpt2 --gpu 8xh100 --global-batch-size 16 --seq 64 --tp 1 --pp 1 --cp 1 --micro-batch 1 --zero 1 "
    "--checkpointing none --json"
)
"""A layout whose axes are all fixed: nothing is searched."""
SEARCH = "plan llama-3-8b --gpus 8 --gpu h100 --global-batch-size 64 --json"
"""A search of some hundred layouts, which are evaluated one by one."""


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import tfcalc", set()),
        ("import tfcalc; tfcalc.params(tfcalc.Transformer()).to_json()", set()),
        ("import tfcalc; str(tfcalc.formula('mha', 'time')); str(tfcalc.explain('core', tfcalc.Transformer()))", set()),
        ("from tfcalc.testing import assert_budget; assert_budget('gpt2', 'total_params', max='1B')", set()),
        ("from tfcalc.cli.main import main; main(['params', '--json'])", {"typer"}),
        ("from tfcalc.cli.main import main; main(['flops', '-q'])", {"typer"}),
        ("from tfcalc.cli.main import main; main(['params'])", {"typer", "rich"}),
        (f"from tfcalc.cli.main import main; main({TRAIN.split()})", {"typer"}),
        (f"from tfcalc.cli.main import main; main({PLAN.split()})", {"typer"}),
        (f"from tfcalc.cli.main import main; main({SEARCH.split()})", {"typer"}),
    ],
)
def test_the_door_is_light(code: str, allowed: set[str]) -> None:
    assert loaded(code) & set(HEAVY) <= allowed


def test_only_the_called_command_is_imported() -> None:
    code = "import sys; from tfcalc.cli.main import main; main(['params', '-q']); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "tfcalc.cli.commands.params" in done.stdout
    assert "tfcalc.cli.commands.verify" not in done.stdout
    assert "tfcalc.verify" not in done.stdout
