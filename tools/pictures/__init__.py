"""The pictures of the course, drawn from tfcalc's own numbers: ``python -m tools.pictures [--write]``.

Each is an SVG of 360 units in width, in docs/pictures/, that follows the reader's light or dark scheme and fetches
nothing. :mod:`tools.pictures.svg` has the shapes, :mod:`tools.pictures.diagrams` and :mod:`tools.pictures.charts`
what is drawn with them. No number is typed in: all are asked from tfcalc when a picture is drawn.
"""
