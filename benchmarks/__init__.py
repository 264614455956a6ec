"""What is timed, and what is held beside other programs: make benchmark, make ledger."""
