"""A tape of tensors and operations: what PyTorch's autograd saves, and what is live at each moment, without PyTorch."""
