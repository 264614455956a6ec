"""What the formulas are made of: numbers of any kind, costs, and the tree of components."""
