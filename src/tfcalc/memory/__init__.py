"""What a model holds in memory: weights, gradients, optimizer state, saved activations, caches."""
