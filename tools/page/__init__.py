"""The page that runs tfcalc in a browser: its files, and what builds it (``make page``)."""
