"""Models on several GPUs: the piece of the model on each, and the messages between them."""
