"""From an answer to text: one module per format, from the same sheet."""
