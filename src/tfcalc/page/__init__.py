"""The program asked by links, with its answers as HTML: the part of tfcalc that only a page in a browser runs.

The page (tools/page) collects what is typed, asks the functions of :mod:`tfcalc.page.ask`, and shows what they return.
Which controls there are, what they are called and what a link means is decided here: the page holds no rule.
"""
