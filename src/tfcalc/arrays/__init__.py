"""Many sizes at once, as numpy arrays; the only place that imports numpy."""
