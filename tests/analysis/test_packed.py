"""Several documents in one row: what docs/training-memory.md says of their memory and FLOPs."""

from __future__ import annotations

import pytest

from tfcalc import Training, Workload, flops, load, memory

ROW = Workload(phase="train", batch_size=1, seq_len=4096, kernel="flash")
DOCUMENTS = ROW.replaced(batch_size=8, seq_len=512)


def test_a_row_takes_what_its_documents_do_side_by_side() -> None:
    """With flash attention every tensor has a row for each token, but for the angles of positions."""
    plan = Training(precision="bf16")
    row, documents = (memory(load("llama-3.2-1b"), run, training=plan) for run in (ROW, DOCUMENTS))
    assert row.answer == pytest.approx(documents.answer, rel=0.001)
    assert row.totals["activations_bytes"] == pytest.approx(documents.totals["activations_bytes"], rel=0.001)


def test_flops_of_documents_are_less_by_the_pairs_of_two_documents() -> None:
    """Q Kᵀ and P V are 2·l²·a·d FLOPs each and layer, twice that in backward, and Q Kᵀ once more (flash)."""
    row, documents = (flops(load("llama-3.2-1b"), run).answer for run in (ROW, DOCUMENTS))
    layers, width = 16, 32 * 64
    pairs = 4096**2 - 8 * 512**2
    assert row - documents == layers * 2 * pairs * width * (2 * 3 + 1)
