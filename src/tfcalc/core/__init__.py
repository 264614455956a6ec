"""Numbers of any kind, costs, and the tree of components: what formulas are made of."""
