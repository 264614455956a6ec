"""What serving holds beside the weights: caches as transformers has them, and pages as an engine shares them out."""
