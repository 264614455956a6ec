"""Backends: the kernels that a library runs for a model's operations, in which order and on which tensors."""
