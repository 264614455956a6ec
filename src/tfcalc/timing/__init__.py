"""Seconds of a training step: a floor that physics sets, and an estimate by rates fitted to published runs."""
