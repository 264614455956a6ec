"""Budgets: the limits that tfcalc.toml sets to the numbers of its models."""
