"""An open ledger of errors: tfcalc and its peers asked about the same public measurements (``docs/ledger.md``).

``points`` are the measurements, of tests/oracle; ``peers`` asks the others, each in an environment of its own that
tfcalc neither needs nor imports; ``answers/`` holds what each said, with the version and the day.
``python -m benchmarks.ledger --help`` says how to ask again.
"""
