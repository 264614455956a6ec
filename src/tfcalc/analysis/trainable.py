"""How many parameters are trained where others are frozen, as peft's ``print_trainable_parameters`` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfcalc.analysis.params import embedded
from tfcalc.analysis.stated import for_programs, in_words
from tfcalc.conventions import Conventions
from tfcalc.core.measure import active_params, buffer_elements, trainable_params
from tfcalc.core.measure import params as parameters
from tfcalc.report import Footer, Report, exact

if TYPE_CHECKING:
    from tfcalc.analysis.common import Subject


def trainable(asked: Subject, depth: int | None) -> Report:
    """The parameters that are trained, in which part, and their share of all.

    Source: peft's ``PeftModel.get_nb_trainable_parameters``, which counts the adapters among all parameters.
    """
    assert asked.tuning is not None
    root = asked.node.component
    trained, count, tables = (
        exact(part) for part in (root.total(trainable_params), root.total(parameters), embedded(root))
    )
    entry = asked.entry(trainable_params, {"trainable_params": trainable_params}, depth)
    share = 100 * trained / count
    return Report(
        command="params",
        heading=f"{asked.model.summary}, {asked.tuning.heading}",
        title="trainable parameters",
        unit="params",
        answer=trained,
        totals={
            "total_params": count,
            "active_params": exact(root.total(active_params)),
            "embedding_params": tables,
            "non_embedding_params": count - tables,
            "trainable_params": trained,
            "trainable_percent": share,
            "buffer_elements": exact(root.total(buffer_elements)),
        },
        model=asked.model.described(),
        conventions=for_programs("params", asked.run, Conventions()) | asked.tuning.described,
        whole=entry,
        depth=depth,
        legend=asked.legend(entry),
        notes=(
            f"trainable params: {trained:,} || all params: {count:,} || trainable%: {share:.4f} (as peft prints it)",
            *([] if trained else ["0: all of it is frozen"]),
        ),
        footer=Footer(
            see_also=("--formulas", "--depth 5", "--json"),
            assumptions=(*in_words("params", asked.run, Conventions()), *asked.model.assumptions),
        ),
    )
