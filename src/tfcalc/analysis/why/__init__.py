"""Origin of a number: the conventions that give it.

``given`` reads the number, ``why`` says what it may be of; for each of these, ``params_starts``, ``params_steps``,
``flops``, ``weights`` and ``cache`` have the numbers to start from and the steps that people take, which ``search``
tries together. ``answer`` tells what gives the number.
"""
