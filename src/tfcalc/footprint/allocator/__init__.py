"""PyTorch's caching allocator of CUDA memory, simulated: which segments it asks the driver for, and what it reuses."""
