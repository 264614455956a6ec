"""Which modules pytest does not open in search of doctests: they import torch at their head, and have none."""

collect_ignore_glob = [
    "src/tfcalc/verify/*.py",
    "tests/verify/[!_t]*.py",
    "tests/placed/collectives.py",
    "tests/placed/megatron_core.py",
    "tests/placed/torch_distributed.py",
    "tests/cuda/training.py",
    "tests/cuda/kernels.py",
    "tests/cuda/serving.py",
]
