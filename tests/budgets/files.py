"""Files of budgets: those that are read, and those with one mistake each."""

from __future__ import annotations

WHOLE = """\
version = 1
units = "si"

[conventions]
dtype = "bf16"
count = "matmul"

[models.chat]
config = "configs/chat.json"

[models.chat-long]
preset = "llama-3-8b"
num-hidden-layers = 16

[models.base]
d_model = 512
layers = "6"

[scenarios.tune]
train = true
seq = "4k"
lora = 16
gpu = "h100"

[[budget]]
model = "chat*"
scenario = "tune"
metric = "memory.peak_bytes"
max = "24GiB"
warn = "20 GiB"
why = "one RTX 4090"
expires = 2027-01-31

[[budget]] # three limits
model = ["chat", "base"]
metric = "params.total_params"
max = "1.4B"
min = 1000
max_increase = "10%"

[[budget]]
model = "base"
metric = "flops.components.decoder.flops"
equals = 4096
severity = "warning"
expires = "2030-02-28"
""".replace("20 GiB", "20GiB")
"""Every key, at least once."""

MODEL = '[models.a]\npreset = "gpt2"\n'
GOOD = {
    "nothing": "",
    "only options": "d_model = 64\n",
    "only a version": "version = 1\n",
    "no budgets": MODEL,
    "a model by its type": '[models.a]\nconfig = "../c.json"\nas = "llama"\n',
    "a budget without a scenario": MODEL + '[[budget]]\nmodel = "*"\nmetric = "total_params"\nmax = "1B"\n',
    "two cards of one size": MODEL
    + "".join(f'[[budget]]\nmodel = "*"\nfits_gpu = "{card}"\n' for card in ("rtx-3060", "rtx-4070")),
    "a card": MODEL + '[[budget]]\nmodel = "*"\nfits_gpu = "8xh100"\nwhy = "a node"\n',
    "a share": MODEL + '[[budget]]\nmodel = "*"\nmetric = "params.trainable_percent"\nmin = 5.5\n',
}


def of_budget(*lines: str) -> str:
    """A file of one model and one budget, which begins on line 4."""
    return "\n".join([MODEL, "[[budget]]", *lines, ""])


def limited(*lines: str, metric: str = "total_params") -> str:
    return of_budget('model = "a"', f'metric = "{metric}"', *lines)


HERE = ": budget 1 (line 4): "
OF_COUNT = "write 1.4B, 125M, 4_096 or 124439808"
OF_BYTES = "write 24GiB, 80GB or a number of bytes"
RULES = "max, min, equals, max_increase, max_decrease"
MISTAKES = {
    # at the top
    "a key": ("dmodel = 64\n", ": key 'dmodel' is not known; did you mean d_model?"),
    "a table": ("[scenario.x]\ntrain = true\n", ": key 'scenario' is not known; did you mean scenarios?"),
    "a later version": ("version = 2\n", ": version 2 is not known; write version = 1"),
    "a version in words": ('version = "1"\n', ": version '1' is not known; write version = 1"),
    "a version that is true": ("version = true\n", ": version True is not known; write version = 1"),
    # conventions
    "conventions": ("conventions = 1\n", ": conventions is no table; write [conventions]"),
    "a convention": ('[conventions]\ndtyp = "bf16"\n', ": conventions: key 'dtyp' is not known; did you mean dtype?"),
    "its word": ('[conventions]\ndtype = "bf61"\n', ": conventions: dtype 'bf61' is not known; did you mean bf16?"),
    # models
    "models": ("models = 1\n", ": models is no table; write [models.NAME]"),
    "a model": ("[models]\na = 1\n", ": models.a is no table; write [models.a]"),
    "a model without a name": (
        '[models." "]\npreset = "gpt2"\n',
        ": models has the name ' '; give it 1 to 100 printable characters",
    ),
    "a model's name that obeys": (
        '[models."a\\u001b[31m"]\npreset = "gpt2"\n',
        ": models has the name 'a\\x1b[31m'; give it 1 to 100 printable characters",
    ),
    "an empty model": ("[models.a]\n", ": models.a is empty; give it a config, a preset or sizes"),
    "two sources": (
        '[models.a]\nconfig = "a.json"\npreset = "gpt2"\n',
        ": models.a has the config 'a.json' and the preset 'gpt2'; leave one of them out",
    ),
    "an empty config": ('[models.a]\nconfig = ""\n', ": models.a: config '' is no name; write config in quotes"),
    "a config that is none": ("[models.a]\nconfig = 1\n", ": models.a: config 1 is no name; write config in quotes"),
    "an absolute config": (
        '[models.a]\nconfig = "/etc/a.json"\n',
        ": models.a: config '/etc/a.json' is absolute; write the path from the folder of this file",
    ),
    "a drive": (
        "[models.a]\nconfig = 'C:\\a.json'\n",
        ": models.a: config 'C:\\\\a.json' is absolute; write the path from the folder of this file",
    ),
    "a config that obeys": (
        '[models.a]\nconfig = "a\\u0000.json"\n',
        ": models.a: config 'a\\x00.json' is no name of a file; write the path from the folder of this file",
    ),
    "an option of a model": (
        '[models.a]\npreset = "gpt2"\nlayer = 2\n',
        ": models.a: key 'layer' is not known; did you mean layers?",
    ),
    "an option of a run": (
        '[models.a]\npreset = "gpt2"\nseq = 2\n',
        ": models.a: key 'seq' is not known here; write it in [scenarios.NAME]",
    ),
    "a source": (
        '[models.a]\npreset = "gpt2"\nconfg = "x"\n',
        ": models.a: key 'confg' is not known; did you mean config?",
    ),
    "an option twice": (
        "[models.a]\nlayers = 2\nnum_hidden_layers = 2\n",
        ": models.a: layers and num_hidden_layers are the same option; leave one of them out",
    ),
    "a list": (
        "[models.a]\nlayers = [2]\n",
        ": models.a: layers [2] is not a single value; write a text, a number or a bool",
    ),
    # scenarios
    "a scenario": ("[scenarios]\na = 1\n", ": scenarios.a is no table; write [scenarios.a]"),
    "an option of a scenario": (
        "[scenarios.a]\ntrian = true\n",
        ": scenarios.a: key 'trian' is not known; did you mean train?",
    ),
    "a model in a scenario": (
        "[scenarios.a]\nd_ff = 2\n",
        ": scenarios.a: key 'd_ff' is not known here; write it in [models.NAME]",
    ),
    # budgets
    "one budget": ("[budget]\nmax = 1\n", ": budget is not a list of tables; write [[budget]] above each"),
    "a budget of a word": ('budget = ["a"]\n', ": budget is not a list of tables; write [[budget]] above each"),
    "a key of a budget": (limited("maxx = 1"), f"{HERE}key 'maxx' is not known; did you mean max?"),
    "no model": (of_budget('metric = "total_params"', "max = 1"), f'{HERE}it has no model; write model = "chat*"'),
    "no metric": (
        of_budget('model = "a"', "max = 1"),
        f'{HERE}it has no metric; write metric = "memory.peak_bytes", or fits_gpu = "h100"',
    ),
    "a card and a limit": (
        of_budget('model = "a"', 'fits_gpu = "h100"', 'max = "24GiB"'),
        f"{HERE}it has fits_gpu and max; write them as two budgets",
    ),
    "a card and a metric": (
        limited('fits_gpu = "h100"'),
        f"{HERE}it has fits_gpu and metric; write them as two budgets",
    ),
    "another card": (
        of_budget('model = "a"', 'fits_gpu = "h1000"'),
        f"{HERE}fits_gpu: accelerator 'h1000' is not known; did you mean H100?",
    ),
    "a card of its scenario": (
        '[scenarios.s]\ntrain = true\ngpu = "h200"\n\n'
        + of_budget('model = "a"', 'scenario = "s"', 'fits_gpu = "h100"'),
        ": budget 1 (line 8): fits_gpu h100 is beside gpu h200 of scenario s; leave one of them out",
    ),
    "no limit": (limited(), f"{HERE}it has no limit; write one of {RULES}"),
    "another model": (
        of_budget('model = "aa"', 'metric = "total_params"', "max = 1"),
        f"{HERE}model 'aa' matches none of [models]; did you mean a?",
    ),
    "no models": (
        '[[budget]]\nmodel = "a"\nmetric = "total_params"\nmax = 1\n',
        ": budget 1 (line 1): model 'a' matches none of [models]; add [models.NAME] with its config",
    ),
    "a model that is none": (
        of_budget("model = []", 'metric = "total_params"', "max = 1"),
        f'{HERE}model [] is neither a name nor a list of names; write model = "chat*"',
    ),
    "another scenario": (
        limited('scenario = "tun"', "max = 1") + "[scenarios.tune]\ntrain = true\n",
        f"{HERE}scenario 'tun' is not defined; did you mean tune?",
    ),
    "no scenarios": (
        limited('scenario = "tune"', "max = 1"),
        f"{HERE}scenario 'tune' is not defined; add [scenarios.tune]",
    ),
    "another metric": (
        limited("max = 1", metric="total_parms"),
        f"{HERE}metric 'total_parms' is not known; did you mean total_params?",
    ),
    "another command": (
        limited("max = 1", metric="parms.total_params"),
        f"{HERE}metric 'parms.total_params': 'parms' is no command; did you mean params?",
    ),
    "a command alone": (
        limited("max = 1", metric="params"),
        f"{HERE}metric 'params' names no key; for example params.total_params",
    ),
    "an ambiguous metric": (
        limited("max = 1", metric="components.wte.params"),
        f"{HERE}metric 'components' is ambiguous: params.components and flops.components and memory.components; "
        "write the command in front of it",
    ),
    "a metric with a hole": (
        limited("max = 1", metric="params..x"),
        f"{HERE}metric 'params..x' has an empty part; write it as memory.peak_bytes",
    ),
    # limits
    "a limit in words": (limited('max = "many"'), f"{HERE}max 'many' is not a number; {OF_COUNT}"),
    "a limit that is true": (limited("max = true"), f"{HERE}max True is not a number; {OF_COUNT}"),
    "a limit without end": (limited("max = inf"), f"{HERE}max 'inf' is not a number; {OF_COUNT}"),
    "part of a parameter": (
        limited("equals = 1.5"),
        f"{HERE}equals 1.5 is not a whole number; the nearest are 1 and 2",
    ),
    "bytes of parameters": (
        limited('max = "24GiB"'),
        f"{HERE}max '24GiB' is an amount of memory, and the metric is not; it counts parameters: {OF_COUNT}",
    ),
    "a count of bytes": (
        limited('max = "24G"', metric="memory.total_bytes"),
        f"{HERE}max '24G' is ambiguous; say 24GiB (powers of 1024) or 24GB (powers of 1000)",
    ),
    "bytes in words": (
        limited('max = "much"', metric="memory.total_bytes"),
        f"{HERE}max 'much' is not a number; {OF_BYTES}",
    ),
    "a percentage": (
        limited('max = "10%"'),
        f"{HERE}max '10%' is a percentage; {OF_COUNT}, or limit max_increase or max_decrease",
    ),
    "a rise that falls": (
        limited('max_increase = "-5%"'),
        f"{HERE}max_increase '-5%' is not a change from 0% to 1000000%; "
        "give 0 or more; max_decrease limits what goes down",
    ),
    "a fall that rises": (
        limited("max_decrease = -5"),
        f"{HERE}max_decrease -5 is below 0; give 0 or more; max_increase limits what goes up",
    ),
    "nothing between": (limited("max = 1", "min = 2"), f"{HERE}max 1 is below min 2; exchange them"),
    "equals and max": (limited("equals = 1", "max = 2"), f"{HERE}it has equals and max; leave one of them out"),
    "a warning behind": (
        limited("max = 10", "warn = 11"),
        f"{HERE}warn 11 is beyond max 10; it is a warning in advance: write one below it",
    ),
    "a warning under a least": (
        limited("min = 10", "warn = 9"),
        f"{HERE}warn 9 is beyond min 10; it is a warning in advance: write one above it",
    ),
    "a warning in per cent": (
        limited('max_increase = "1M"', 'warn = "5%"'),
        f"{HERE}warn 5% is not an amount, which max_increase 1M is; write both in the same way",
    ),
    "a warning of two": (
        limited("max = 10", "min = 1", "warn = 5"),
        f"{HERE}warn 5 is beside max and min; write it beside one max, min or change",
    ),
    "a warning of one value": (
        limited("equals = 10", "warn = 5"),
        f"{HERE}warn 5 is beside equals; write it beside one max, min or change",
    ),
    # the rest
    "a severity": (
        limited("max = 1", 'severity = "warn"'),
        f"{HERE}severity 'warn' is not known; did you mean warning?",
    ),
    "a reason": (limited("max = 1", "why = 1"), f"{HERE}why 1 is not text; put it in quotes"),
    "a day": (
        limited("max = 1", 'expires = "2027-02-30"'),
        f"{HERE}expires '2027-02-30' is not a date; write expires = 2027-01-31",
    ),
    "a moment": (
        limited("max = 1", "expires = 2027-01-31T00:00:00"),
        f"{HERE}expires '2027-01-31 00:00:00' is not a date; write expires = 2027-01-31",
    ),
    "the same twice": (
        limited("max = 1000") + '[[budget]]\nmodel = ["a"]\nmetric = "total_params"\nmax = "1k"\nwhy = "again"\n',
        ": budget 2 (line 8) is the same as budget 1; leave one of them out",
    ),
}
"""A file, and what is said of it behind its name."""
