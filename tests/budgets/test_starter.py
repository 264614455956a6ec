"""The configs of a folder, their names, and round numbers above what they take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tfcalc.budgets import config_search
from tfcalc.budgets.config_search import configs, names
from tfcalc.budgets.limits import amount
from tfcalc.budgets.starter import BYTES, COUNTS, above


def put(folder: Path, path: str, text: str = '{"model_type": "gpt2"}') -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def test_configs_are_found_below_a_folder(tmp_path: Path) -> None:
    for path in ("config.json", "b/config.json", "a/deep/er/model.json"):
        put(tmp_path, path)
    for path in (".git/config.json", "node_modules/x/config.json", "lib/site-packages/x/config.json", ".hidden.json"):
        put(tmp_path, path)
    put(tmp_path, "own/pyvenv.cfg", "")
    put(tmp_path, "own/lib/config.json")
    put(tmp_path, "package.json", '{"name": "x"}')
    put(tmp_path, "broken.json", '{"model_type": ')
    put(tmp_path, "list.json", '["model_type"]')
    put(tmp_path, "number.json", '{"model_type": 1}')
    put(tmp_path, "nested.json", '{"text": {"model_type": "gpt2"}}')
    put(tmp_path, "data.json", '{"model_type": "gpt2", "x": "' + "y" * config_search.LARGEST + '"}')
    put(tmp_path, "/".join(["d"] * (config_search.DEEPEST + 1)) + "/config.json")
    looked = configs(tmp_path)
    assert [config.path for config in looked.configs] == ["config.json", "a/deep/er/model.json", "b/config.json"]
    assert not looked.more


def test_links_are_not_followed(tmp_path: Path) -> None:
    put(tmp_path, "real/config.json")
    (tmp_path / "real" / "back").symlink_to(tmp_path, target_is_directory=True)
    assert [config.path for config in configs(tmp_path).configs] == ["real/config.json"]


@pytest.mark.parametrize("limit", ["MOST_READ", "MOST_MODELS"])
def test_there_may_be_more_than_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    for number in range(3):
        put(tmp_path, f"{number}.json")
    monkeypatch.setattr(config_search, limit, 3)
    assert (len(configs(tmp_path).configs), configs(tmp_path).more) == (3, False)
    monkeypatch.setattr(config_search, limit, 2)
    assert (len(configs(tmp_path).configs), configs(tmp_path).more) == (2, True)


@pytest.mark.parametrize(
    ("paths", "called"),
    [
        (["config.json"], ["here"]),
        (["chat/config.json", "chat_config.json"], ["chat", "chat-2"]),
        (["prod/model.json", "dev/model.json", "base.json"], ["prod-model", "dev-model", "base"]),
        (["a/x/config.json", "b/x/config.json", "a/y.config.json"], ["a-x", "b-x", "y"]),
        (["llama 3.1.json", "ä.json"], ["llama-3-1", "model"]),
        (["x" * 300 + ".json", "x" * 301 + ".json"], ["x" * 100, "x" * 96 + "-2"]),
    ],
)
def test_names_tell_the_configs_apart(paths: list[str], called: list[str]) -> None:
    assert names(paths, "here") == called


@given(st.integers(0, 10**24), st.sampled_from([(COUNTS, "params"), (BYTES, "bytes")]))
@examples(300)
def test_a_round_number_is_a_little_above(value: int, kind: tuple[tuple[tuple[str, int], ...], str]) -> None:
    scales, unit = kind
    text = above(value, scales)
    limit = amount(text, "max", unit).value
    # two figures: at most a tenth more, and below a thousand at most one
    assert value <= limit <= value * 1.1 + 1
    figures = re.sub(r"\D", "", text).strip("0")
    assert len(figures) <= 2
