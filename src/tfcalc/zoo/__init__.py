"""Whole models: compositions of blocks, one file per kinship."""
