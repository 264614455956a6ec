"""A tape of tensors and operations: what PyTorch's autograd keeps, and what is live at each moment, without PyTorch."""
