"""Whose code runs: it decides what is saved for backward, and what is live beside it."""
