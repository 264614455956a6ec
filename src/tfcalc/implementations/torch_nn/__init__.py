"""PyTorch's own modules as they run: torch.nn.Transformer, and around it nn.Embedding, nn.Linear and F.cross_entropy.

Each file follows the forward functions of torch 2.13 for one kind of part; the sizes are those of the model's tree.
"""
