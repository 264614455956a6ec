"""Number formats of weights, quantized or not, and which tensors of a model are stored in which."""
