"""Shapes for a budget: which sizes of a family give a number of parameters, FLOPs or bytes.

``family`` says which sizes of a model vary and how they follow from the width, ``amounts`` what a shape costs, and
``search`` ranks the shapes. ``practice`` has the rules by which they are ranked, each with its source. ``scaling`` is
the compute-optimal size and number of tokens by published fits.
"""
