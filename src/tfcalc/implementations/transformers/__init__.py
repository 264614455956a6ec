"""transformers' modules as they run: which operations of PyTorch, in which order, on which tensors.

Each file follows the forward functions of transformers 5 for one kind of part; the sizes are those of the model's tree.
"""
