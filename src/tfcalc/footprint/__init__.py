"""What memory holds: weights in their formats, the states of training, and caches; each a tree of stored tensors."""
