"""``python -m tfcalc`` is the same program as ``tfcalc``."""

import sys

from tfcalc.cli.main import main

sys.exit(main())
