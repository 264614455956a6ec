"""What a training step holds: model states by recipe and optimizer, shared among devices; activations; its peak."""
