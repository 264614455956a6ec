"""The same model counted by PyTorch; the only place that imports torch."""
