"""The questions that can be asked: each folds the tree, one file per question."""
