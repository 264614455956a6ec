"""Questions turned around: the sizes at which a condition on parameters, FLOPs or memory holds.

``names`` says what a name of a condition means, ``asked`` evaluates it at any size, and as a closed form in letters.
``signs`` finds where a polynomial is below, at and above 0 on the whole numbers; ``bounds`` does so for closed forms
with floors and minima; ``search`` where there is no closed form. ``solve`` puts them together.
"""
