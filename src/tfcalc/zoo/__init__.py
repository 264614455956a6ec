"""Whole models: compositions of blocks, one file per group of variants."""
