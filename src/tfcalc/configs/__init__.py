"""How a config.json becomes a model: its fields, the families that know them, and the heads put on top."""
