"""``python -m tools.pictures``: 0 where all pictures are fresh, 1 where one is stale; ``--write`` draws them anew."""

from __future__ import annotations

import sys

from tools.pictures.drawn import FOLDER, PICTURES


def main(arguments: list[str]) -> int:
    """Compare the pictures with what tfcalc says now, or write them."""
    stale = 0
    for name, draw in PICTURES.items():
        path, fresh = FOLDER / f"{name}.svg", draw().svg()
        if path.is_file() and path.read_text(encoding="utf-8") == fresh:
            continue
        if "--write" in arguments:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(fresh, encoding="utf-8")
        else:
            stale = 1
            print(f"{path.name} is stale: run make pictures", file=sys.stderr)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
