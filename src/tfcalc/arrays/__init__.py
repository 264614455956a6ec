"""Many sizes at once, as numpy arrays; the only place that imports numpy."""

WITHOUT_NUMPY = "numpy is not installed", "pip install 'tfcalc[sweep]'"
"""The fact and the remedy where numpy is missing."""
