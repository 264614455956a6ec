"""Classes without PyTorch: arrays as attributes, and what ends badly."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import numpy as np


class Linear:
    def __init__(self, n_in: int, n_out: int) -> None:
        self.weight, self.bias = np.zeros((n_in, n_out)), np.zeros(n_out)
        self.seen: Any = None

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class Attention:
    """A framework of one's own; the list and the attribute are the same four maps."""

    def __init__(self, embed: int, heads: int) -> None:
        self.heads = heads
        self.q, self.k, self.v, self.out = (Linear(embed, embed) for _ in range(4))
        self.maps = [self.q, self.k, self.v, self.out]
        self.steps = np.arange(heads)


class Empty:
    """Nothing to count."""


class Endless:
    def __init__(self) -> None:
        time.sleep(60)


class Ends:
    def __init__(self) -> None:
        os._exit(7)


class Connects:
    def __init__(self) -> None:
        socket.create_connection(("127.0.0.1", 9), timeout=1)


class Fails:
    def __init__(self, size: int) -> None:
        raise ValueError(f"no size {size}\nmore lines")
