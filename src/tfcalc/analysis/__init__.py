"""The analyses: each folds the tree of components, one file per question."""
