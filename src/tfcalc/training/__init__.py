"""Memory of a training step: model states, adapters, sharding, what is saved for backward, the peak, the allocator."""
