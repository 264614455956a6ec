"""Questions turned around: the size at which a condition on parameters, FLOPs or memory holds.

``conditions`` says what a name of a condition means, and evaluates it at any size or as a closed form in letters;
``unknown`` is the size to solve for. ``signs`` finds where a difference is below, at and above 0 on the whole numbers,
``solver`` where the condition holds, ``closed_form`` the same in letters. ``solve`` puts them together.
"""
