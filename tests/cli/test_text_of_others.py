"""Text of a config, a file or the command line: to CI systems, spreadsheets and Markdown it is nothing but text."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import tfcalc as library
from tests.conftest import Quick
from tests.repositories import Repository
from tfcalc.printable import inert
from tfcalc.render.as_csv import defused
from tfcalc.render.markdown import line, text

FORMATS = ("table", "json", "csv", "markdown", "latex", "plain")
COMMAND = re.compile(r"^(\s|\x1b\[[\d;]*m)*::|##\w*\[", re.MULTILINE)
"""How GitHub's runner finds a command: ``::`` at the start of a line, spaces aside (ActionCommand.cs, TryParseV2), or
``##[`` anywhere in it (TryParse); ``##vso[`` is Azure's, ``##teamcity[`` TeamCity's."""
COMMANDS = (
    "::error file=x::pwned",
    "::stop-commands::x ",
    "  ::set-output name=a::b",
    "A ::error::pwned",
    "##[error]pwned",
    "a ##[add-mask]b",
    "##vso[task.setvariable variable=a]b",
    "##teamcity[message text='a']",
)


def config(head: str, **fields: object) -> str:
    return json.dumps({"model_type": "llama", "architectures": [f"{head}LlamaForCausalLM"], **fields})


@pytest.mark.one_in(10)
@pytest.mark.parametrize("head", COMMANDS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_class_is_no_command_to_a_ci_system(quick: Quick, tmp_path: Path, head: str, form: str) -> None:
    (tmp_path / "c.json").write_text(config(head))
    for words in (
        ["params", "c.json", "--depth", "1"],
        ["compare", "c.json", "gpt2"],
        ["c.json"],
    ):
        for env in ({}, {"COLUMNS": "40"})[: 1 + (form == "table")]:  # where lines are broken, any word may begin one
            done = quick(*words, "--format", form, "--color", "always", env=env)
            assert done.returncode == 0
            assert COMMAND.search(done.stdout + done.stderr) is None
    written = quick("params", "c.json", "--format", form, "-o", "out")
    assert written.returncode == 0
    assert COMMAND.search((tmp_path / "out").read_text(encoding="utf-8")) is None
    if form == "json":
        assert json.loads((tmp_path / "out").read_text())["model"]["architecture"] == f"{head}LlamaForCausalLM"


@pytest.mark.parametrize("head", COMMANDS)
def test_a_report_of_the_library_has_no_command_either(head: str) -> None:
    report = library.params(library.from_config(json.loads(config(head))))
    assert COMMAND.search(str(report)) is None
    assert "LlamaForCausalLM" in str(report)


@pytest.mark.parametrize("word", COMMANDS)
@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
def test_an_error_and_a_warning_are_no_command(quick: Quick, tmp_path: Path, word: str, as_json: list[str]) -> None:
    near = {f"hidden_siz{word[:2]}": 1, word: 1}
    (tmp_path / "near.json").write_text(json.dumps({"model_type": "llama", **near}) + " ")
    (tmp_path / "twice.json").write_text(f'{{"model_type": "gpt2", {json.dumps(word)}: 1, {json.dumps(word)}: 2}}')
    for words in (
        ["params", word],
        [word],
        ["params", f"./{word}.json"],
        ["params", "--norm", word],
        ["params", "--as", word, "gpt2"],
        ["budget", "--file", word],
        ["memory", "gpt2", "--gpu", word],
        ["explain", word],
        ["params", "near.json", "-q"],
        ["params", "twice.json", "-q"],
        ["diff", f"HEAD:{word.strip()}/x.json"],
    ):
        done = quick(*words, *as_json)
        assert COMMAND.search(done.stdout + done.stderr) is None


@pytest.mark.parametrize("word", COMMANDS)
@pytest.mark.parametrize("form", [*FORMATS, "github", "junit", "sarif", "gitlab"])
def test_a_budget_is_no_command_but_those_for_github(quick: Quick, tmp_path: Path, word: str, form: str) -> None:
    name = json.dumps(word.strip())
    (tmp_path / "tfcalc.toml").write_text(
        f'[models.{name}]\npreset = "gpt2"\n[[budget]]\nmodel = "*"\nmetric = "params.total_params"\n'
        f"max = 1\nwhy = {name}"
    )
    for env in ({}, {"COLUMNS": "40"})[: 1 + (form == "table")]:
        done = quick("budget", "--format", form, env=env)
        assert done.returncode == 1
        lines = done.stdout.splitlines()
        if form == "github":
            assert [one.split()[0] for one in lines if COMMAND.search(one)] == ["::error"]
        else:
            assert COMMAND.search(done.stdout) is None


def test_a_first_file_is_no_command(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "##[error]x.json").write_text(config("::error::"))
    (tmp_path / "##[error]bad.json").write_text('{"model_type": "##[error]y"}')
    printed = quick("init", "-o", "-")
    assert printed.returncode == 0
    assert COMMAND.search(printed.stdout) is None
    assert quick("init").returncode == 0
    assert quick("budget").returncode == 0, "the file reads what was escaped"


@pytest.mark.parametrize(
    "honest", ["a::b", "x: ::y", "# heading", "## [x]", "a#[b]", ":tada:", " : :", "std::vector", "12::", "#1 ##"]
)
def test_honest_text_stays_as_it_is(honest: str) -> None:
    assert inert(honest) == honest


def test_many_spaces_take_no_longer() -> None:
    for long in (" " * 10**6 + ":", "\n" * 10**6 + "::", "#" * 10**6, "##" + "a" * 10**6):
        assert len(inert(long)) - len(long) in (0, 5)


# --- spreadsheets


FORMULAS = ("=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "-cmd|'x'!A", "@SUM(A1)", "＝1", "＋1+A1", "－1", "＠x")


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_is_a_formula_to_a_spreadsheet(quick: Quick, tmp_path: Path, formula: str) -> None:
    (tmp_path / "c.json").write_text(config(formula))
    (tmp_path / formula.replace("/", "")).write_text(config(""))
    found = False
    for words in (["params", "c.json"], ["flops", "c.json"], ["compare", "c.json", formula.replace("/", "")]):
        done = quick(*words, "--format", "csv")
        if done.returncode:
            continue  # such a name is no path
        for row in csv.reader(io.StringIO(done.stdout)):
            found |= any(cell.startswith(f"'{formula[0]}") for cell in row)
            assert not [cell for cell in row if cell.startswith(formula[0]) and formula[1:3] in cell]
    assert found


def test_a_model_is_no_formula_in_a_heading(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "=1+1.json").write_text(config(""))
    heading = quick("compare", "=1+1.json", "gpt2", "--format", "csv").stdout.splitlines()[0]
    assert not [cell for cell in heading.split(",") if cell.startswith("=")]


@pytest.mark.parametrize(
    "honest", ["-5", "+13.4 %", "-2,048", "+16.0 KiB", "--attention causal", "-", "", "4h² - 1", "×1.02", "- 1x"[2:]]
)
def test_amounts_and_options_are_written_as_they_are(honest: str) -> None:
    assert defused(honest) == honest


# --- Markdown


PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
GITHUB = {
    "a mention": r"(?<!\w)@\w",
    "an issue": r"#\d|\bGH-\d",
    "an address": r"\w+://\w|\bwww\.\w",
    "an emoji": r":(\+1|-1|[a-z]\w*|100):",
    "a commit": r"\b(?=[\da-f]*[a-f])(?=[\da-f]*\d)[\da-f]{7,40}\b",
}
"""What GitHub makes of text that is not code, once Markdown was read."""
ACTIVE = {
    "#1": "an issue",
    "owner/repo#1": "an issue",
    "GH-12": "an issue",
    "see gh-12": "",
    "@ada": "a mention",
    "@org/team": "a mention",
    "&#64;ada": "a mention",
    "&commat;ada": "a mention",
    "$x^2$": "",
    "https://evil.example": "an address",
    "HTTP://evil.example/a?b=c#d": "an address",
    "ftp://a.b": "an address",
    "www.evil.example": "an address",
    "https&#58;//evil.example": "an address",
    ":tada:": "an emoji",
    ":+1:": "an emoji",
    "a57df0c": "a commit",
    "a57df0c3b2a1908f7e6d5c4b3a29181706f5e4d3": "a commit",
    "ada@evil.example": "",
    "`code`": "code",
    "*a*": "em",
    "a**b**c": "strong",
    "_a_": "em",
    "__a__": "strong",
    "~~a~~": "s",
    "[a](https://b)": "a",
    "![a](//b)": "img",
    "\\[a](b)": "",
    "\\`a`": "",
    "\\*a*": "",
    "<https://evil.example>": "a",
    "<!-- a -->b": "",
    "<b>a</b>": "",
    "<img src=x>": "",
    "a | b": "",
    "# a": "h1",
    "- a": "ul",
    "+ a": "ul",
    "12. a": "ol",
    "> a": "blockquote",
    "---": "hr",
    "    a": "code",
    "a\\": "",
}


BEGIN_A_LINE = ("# a", "- a", "+ a", "12. a", "> a", "---", "    a")


def texts(source: str) -> tuple[str, set[str]]:
    """The text of a page outside of code, and the elements that Markdown makes of it."""
    found: list[str] = []
    tags: set[str] = set()
    for token in PARSER.parse(source):
        tags.add(token.tag)
        for inner in token.children or ():
            tags.add("html" if inner.type == "html_inline" else inner.tag)
            found.append(inner.content if inner.type in ("text", "text_special") else "\n" * (inner.type != "text"))
        tags |= {"html"} if token.type == "html_block" else set()
        found.append("\n")
    return "".join(found), tags - {""}


def seen(source: str) -> str:
    return texts(source)[0].replace("\u200b", "").strip()


@pytest.mark.parametrize("words", ACTIVE)
def test_words_are_words(words: str) -> None:
    for escape, allowed in ((text, {"p"}), (line, {"p"})):
        if escape is text and words in BEGIN_A_LINE:
            continue
        for place in ("{}", "a {} b", "({})"):
            if escape is line and place != "{}":
                continue
            source = escape(place.format(words))
            shown, tags = texts(source)
            assert tags <= allowed
            assert not [kind for kind, marked in GITHUB.items() if re.search(marked, shown, re.IGNORECASE)]
            assert seen(source) == place.format(words).strip()
            assert "$" not in source  # of mathematics GitHub looks in the source


@pytest.mark.parametrize("words", [words for words, kind in ACTIVE.items() if kind])
def test_without_that_they_would_be_more(words: str) -> None:
    """The test above can fail."""
    shown, tags = texts(words)
    assert ACTIVE[words] in tags | {kind for kind, marked in GITHUB.items() if re.search(marked, shown)}


@pytest.mark.parametrize(
    "honest",
    [
        "44.1M parameters (44,140,544), d_model 512, heads 8",
        "n(28h² + 32h) + 4h -> 12 * 13, a < "[:-3],
        "HEAD~1: batch 1 x 4,096 tokens; 9.3 % & more",
        "arXiv 2203.15556, appendix F: tfcalc.toml:41: chat",
        "--attention causal, x = y, #, a:b:c d"[:-8],
    ],
)
def test_honest_words_are_written_as_they_are(honest: str) -> None:
    assert line(honest) == text(honest) == honest


@pytest.mark.parametrize("words", ["~", ":a", "_", "`", "*", "&a", "#1", "a1", "\\", ":", "- ", "=", "1", " "])
def test_long_words_take_no_longer(words: str) -> None:
    """Twice as many take twice as long: a hundred thousand would not end otherwise."""
    assert len(line(words * 100_000)) >= 100_000 * len(words.strip())


ELEMENTS = {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "br"}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("words", ACTIVE)
def test_a_page_about_a_config_has_its_words_as_words(quick: Quick, tmp_path: Path, words: str) -> None:
    name = words.replace("/", "")
    (tmp_path / f"{name}.json").write_text(config(words, rope_scaling=None))
    for asked in (["params", f"{name}.json"], ["compare", f"./{name}.json", "gpt2"]):
        done = (
            quick(*asked, "--depth", "0", "--format", "markdown")
            if asked[0] == "params"
            else quick(*asked, "--format", "markdown")
        )
        if done.returncode:
            assert done.stdout == ""
            continue  # a pattern, or a revision
        shown, tags = texts(done.stdout)
        assert tags <= ELEMENTS
        assert not [kind for kind, marked in GITHUB.items() if re.search(marked, shown, re.IGNORECASE)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("words", ACTIVE)
def test_a_page_of_budgets_has_their_words_as_words(quick: Quick, tmp_path: Path, words: str) -> None:
    (tmp_path / "tfcalc.toml").write_text(
        '[models.a]\npreset = "gpt2"\n[[budget]]\nmodel = "a"\nmetric = "params.total_params"\nmax = "1B"\nwarn = 1\n'
        f"why = {json.dumps(words)}\n"
    )
    done = quick("budget", "--format", "markdown")
    assert done.returncode == 0
    shown, tags = texts(done.stdout)
    assert tags <= ELEMENTS | {"code"}
    assert not [kind for kind, marked in GITHUB.items() if re.search(marked, shown, re.IGNORECASE)]
    assert words.strip() in shown.replace("\u200b", "")


# --- a field that is given twice


TWICE = '{"model_type": "gpt2", "n_layer": 12, "n_layer": 2, "n_embd": 768, "n_embd": 768}'
SAID = "n_layer is given 2 times; the last counts, 2, and not 12"
TWO_LAYERS = "53561088\n"
"""50257·768 + 1024·768 + 2·(12·768² + 13·768) + 2·768."""


def test_a_field_that_is_given_twice_is_told(quick: Quick, tmp_path: Path) -> None:
    assert int(TWO_LAYERS) == 50257 * 768 + 1024 * 768 + 2 * (12 * 768**2 + 13 * 768) + 2 * 768
    (tmp_path / "c.json").write_text(TWICE)
    assert quick("params", "c.json", "-q") == (0, TWO_LAYERS, f"tfcalc: {SAID}\n")
    assert quick("params", "-", "-q", input=TWICE) == (0, TWO_LAYERS, f"tfcalc: {SAID}\n")
    assert quick("compare", "c.json", "gpt2").stderr == f"tfcalc: {SAID}\n"
    (tmp_path / "tfcalc.toml").write_text(
        '[models.a]\nconfig = "c.json"\n[[budget]]\nmodel = "a"\nmetric = "params.total_params"\nmax = "1B"\n'
    )
    assert quick("budget", "-q") == (0, "0\n", f"tfcalc: ./c.json: {SAID}\n")


def test_a_field_that_was_given_twice_is_told_of_a_revision(quick: Quick, tmp_path: Path) -> None:
    Repository(tmp_path).commit({"c.json": TWICE}, "twice")
    assert quick("params", "HEAD:c.json", "-q").stderr == f"tfcalc: {SAID}\n"


def test_fields_that_are_given_twice_inside_of_others_are_told_and_not_all(quick: Quick) -> None:
    inside = ", ".join(f'"k{number}": {number}, "k{number}": {[number] * 1000}' for number in range(9))
    told = quick("params", "-", "-q", input=f'{{"model_type": "gpt2", "x": [{{{inside}}}]}}').stderr.splitlines()
    assert [one.split()[1] for one in told] == ["k0", "k1", "k2", "6"]
    assert max(map(len, told)) < 300


def test_many_fields_that_are_given_twice_take_no_longer(quick: Quick) -> None:
    fields = ", ".join(f'"k{number % 20_000}": {number}' for number in range(80_000))
    told = quick("params", "-", "-q", input=f'{{"model_type": "gpt2", {fields}}}').stderr.splitlines()
    assert told[3:] == ["tfcalc: 19,997 more fields are given more than once; the last counts"]


@pytest.mark.parametrize("name", ["![a](b)ForCausalLM", "a.b.LlamaForCausalLM"])
def test_a_class_that_looks_like_a_path_changes_no_number(quick: Quick, name: str) -> None:
    """Paths of modules are read by their dots and brackets: FSDP found no layers in such a model."""
    asked = ("--train", "--fsdp", "--gpus", "8", "--json")
    plain, odd = (
        json.loads(
            quick("memory", "-", *asked, input=json.dumps({"model_type": "llama", "architectures": [each]})).stdout
        )
        for each in ("LlamaForCausalLM", name)
    )
    for said in (plain, odd):
        said.pop("model")
    assert odd == plain
