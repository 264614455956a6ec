"""Ordinary attention with DeepSeek's experts: dense layers first, shared experts, a correction of the router's choice."""

from __future__ import annotations

from tfcalc.blocks import LLAMA_NAMES, Attention
from tfcalc.core.component import Component
from tfcalc.core.number import Num
from tfcalc.errors import InvalidModel
from tfcalc.families.config import Config
from tfcalc.families.deepseek import mlp_types, sparse_after
from tfcalc.families.family import family
from tfcalc.families.heads import CAUSAL_LM
from tfcalc.families.llama import SANDWICH, attention, decoder, gated, head_dim, qk_norms
from tfcalc.families.mixtral import correction, layers, mixture, shared, sinks, swiglu
from tfcalc.leaves import linear, parameter
from tfcalc.workload import Workload

SLIDING, FULL = "sliding_attention", "full_attention"
