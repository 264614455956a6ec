"""Searches over a number as a function of a size, a plan or a GPU: what fits, and what would."""
