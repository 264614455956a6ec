"""Operations whose weights are counted elsewhere."""

from __future__ import annotations
