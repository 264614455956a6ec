"""A model on several devices: the piece that stands on each, and the messages that these send one another."""
