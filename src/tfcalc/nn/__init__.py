"""Modules: what a part of a transformer holds, and how its forward pass goes."""
