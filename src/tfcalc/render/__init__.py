"""From an answer to text: one module per format, and the notation that they share."""
