"""The command line: ``tfcalc COMMAND …``, and nothing that a library user needs."""
