"""Text of a config that means something elsewhere: to GitHub's runner, to a spreadsheet, to a reader of Markdown."""

from __future__ import annotations

import copy
import csv
import io
import random
import re

from markdown_it import MarkdownIt

from tools.fuzz.checks import look
from tools.fuzz.configs import TYPES, base_of, encoded
from tools.fuzz.findings import FOUND
from tools.fuzz.program import call

SUFFIXES = ("ForCausalLM", "Model", "ForConditionalGeneration", "LMHeadModel", "")
COMMANDS = ("::error file=x::y", "::stop-commands::x", " ::notice::x", "##[error]x", "::add-mask::1", "##[group]x")
CELLS = ("=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "=HYPERLINK(1)")
MARKS = (
    *("#1", "`a`", "$x$", "$`x`$", "https://evil.example", "www.evil.example", "@someone", "<b>x</b>", "<!-- x"),
    *("[a](b)", "![a](b)", "**b**", "_i_", "~~s~~", "| a |", "- a", "1. a", "> a", "# a", "---", "&lt;", "\\"),
    *("http://a.b", "a@b.example", "ftp://a.b", "mailto:a@b.cd", "GH-1", "a/b#1", ":tada:", "[^1]", "\\(x\\)"),
)
ACTIVE_WORDS = re.compile(r"(?<![\w&;])#\d|@[A-Za-z]|\w://\w|\bwww\.\w|\$[^$\s][^$]*\$|\bGH-\d")
"""What GitHub reads in the text that Markdown leaves."""
FORMATS = ("table", "markdown", "markdown", "csv", "csv", "plain", "latex", "json")
ASKED = (
    "params",
    "flops",
    "flops --train",
    "memory",
    "memory --train",
    "memory --serve",
    "params --formulas",
    "params --lora 8",
    "params --assumptions",
    "memory --train --gpu h100",
    "overview",
    "compare gpt2",
    "explain layer --model",
    "formula layer --model",
    "shapes layer --model",
    "sweep --layers 1,2",
    "params --max 1",
)
OURS = re.compile(r"-|-(rho|tau|mu)|--[a-z].*")
"""Cells that begin as formulas do: an empty one, letters of a peak's closed form, and options of what is proposed."""
PARSER = MarkdownIt("commonmark").enable("table").enable("strikethrough")


def outside_text(draw: random.Random) -> None:
    """An answer in some format about a config with a hostile text in one of its places."""
    marked, plain = (base_of(draw.choice(TYPES)) for _ in range(2))
    plain = copy.deepcopy(marked)
    suffix = draw.choice(SUFFIXES)
    mark = draw.choice((*COMMANDS, *CELLS, *MARKS))
    where = draw.choice(("architectures", "architectures", "architectures", "slip", "dtype", "type", "label"))
    for data, text in ((marked, mark), (plain, "word".ljust(len(mark), "d"))):  # as long, for as many lines
        if where == "architectures":
            data["architectures"] = [f"{text}{draw.choice(('', ' '))}{suffix}" if data is marked else f"{text}{suffix}"]
        elif where == "slip":
            data[f"{text}hidden_sizee"] = 7
        elif where == "dtype":
            data["dtype"] = text
        elif where == "type":
            data["model_type"] = text
        else:
            data["id2label"] = {"0": text, "1": f"{text}{text}"}
    name, *rest = draw.choice(ASKED).split()
    form = draw.choice(FORMATS)
    argv = [name, *rest[:1], "-", *rest[1:]] if name == "compare" else [name, "-", *rest]
    if "--model" in rest:
        argv = [name, *rest, "-"]
    argv += ["--format", form]
    outcome = call(argv, stdin=encoded(marked))
    look(argv, outcome, stdin=encoded(marked))
    shown = (argv, where, mark)
    for stream, raw in (("stdout", outcome.out), ("stderr", outcome.err)):
        text = raw.decode("utf-8", "replace")
        commands = [line for line in text.splitlines() if re.match(r"\s*::", line) or "##[" in line]
        if commands:
            FOUND.bug("workflow-command", f"{stream} of {name} as {form}", (shown, commands[0][:200]))
    if outcome.code not in (0, 1):
        return
    written = outcome.out.decode()
    if form == "csv":
        for row in csv.reader(io.StringIO(written)):
            for cell in row:
                if re.match(r"\s*[=@]|\s*[+-](?![\d.∞])|[\t\r]", cell) and not OURS.fullmatch(cell):
                    FOUND.bug("csv-formula", f"{name}: a cell that a spreadsheet runs", (shown, cell[:200]))
    if form == "markdown":
        _markdown(written, call(argv, stdin=encoded(plain)).out.decode(), shown)


def _markdown(written: str, beside: str, shown: object) -> None:
    """It is read as the same with a plain word in the place of the hostile one; GitHub reads no more in its text."""
    if _kinds(written) != _kinds(beside):
        FOUND.bug("markdown", "text of a config is live Markdown", (shown, written[:300]))
    for text in _texts(written):
        if (found := ACTIVE_WORDS.search(text)) and not ACTIVE_WORDS.search(beside):
            FOUND.bug("markdown", f"text that GitHub reads: {found[0]}", (shown, text[:200]))


def _kinds(written: str) -> str:
    """The kinds of all that is no text, in order; equal rows in turn count as one, as fewer fit below longer lines."""
    found = []
    for token in PARSER.parse(written):
        found += [token.type, *(child.type for child in token.children or ())]
    kinds = "".join(f"{kind} " for kind in found if kind not in ("text", "softbreak", "text_special"))
    return re.sub(r"(tr_open (?:(?!tr_open ).)*tr_close )\1+", r"\1", kinds)


def _texts(written: str) -> list[str]:
    """Runs of text as GitHub's own rules get them: what is a reference or an escape in Markdown breaks them."""
    source = re.sub(r"`[^`\n]*`", "`", written)
    return re.split(r"&#?\w+;|\\[!-/:-@\[-`{-~]|\n", source)
