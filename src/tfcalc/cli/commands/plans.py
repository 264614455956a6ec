"""The options of training and of serving, for the commands that ask about their memory."""

from __future__ import annotations

from tfcalc.cli.options import Option, of_fields
from tfcalc.held.plans import Serving, Training

TRAINING = tuple(of_fields(Training))
SERVING = tuple(of_fields(Serving))
SERVE = Option("serve", ("--serve",), "serving: weights, cache, and what is live beside them", switch=True)
PLANS = (*TRAINING, SERVE, *SERVING)
