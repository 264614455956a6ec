"""Classes as people write them, right and wrong; the tests hand these files to ``tfcalc verify --module``."""
