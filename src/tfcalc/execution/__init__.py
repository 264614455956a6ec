"""A training step, or a step of inference, run on the tape: what is saved for backward, and what is live beside it."""
