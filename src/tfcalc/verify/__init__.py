"""Comparison with PyTorch's own counts; the only place that imports torch."""
