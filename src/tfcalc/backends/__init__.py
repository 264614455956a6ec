"""Whose code runs what is one operation to the mathematics: which kernels, in which order, on which tensors."""
