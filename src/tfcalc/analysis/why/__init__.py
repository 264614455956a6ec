"""Origin of a number: the conventions that give it.

``given`` reads the number, ``why`` says what it may be of; for each of these, ``params_starts``, ``params_steps``,
``flops``, ``weights`` and ``cache`` have the numbers to start from and the steps that people take, which ``search``
tries together. ``answer`` tells what gives the number.

A log line goes another way: ``log_lines`` reads its numbers, ``log_causes`` has what the model gives for each, by
``log_engines``, ``log_trainers`` and ``log_oom``, and compares; what a line says twice has to agree with itself.
"""
