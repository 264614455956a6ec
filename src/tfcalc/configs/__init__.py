"""Models from config.json: its fields, the families that read them, and the heads on top."""
