"""Blocks that several architectures share, and most models do not have."""
