"""Hostile and random inputs for the whole program: ``python -m tools.fuzz --n 20000 --seed 1``, or ``make fuzz``.

Every input follows from the seed and its number, so each can be run alone: ``--only NUMBER`` (with the same
``--kinds``). It drives ``tfcalc.cli.main.main`` with streams, environment and folder of its own, the library's
functions, and each parser by itself: most inputs are for these, because thousands a second can be tried. Inputs for a
parser are put together so that what they mean is known without reading them, or are such texts with a slip. Exit 1 when
a bug was found. What is held against every answer, by the names in the report:

===================  ==================================================================================
exit-70, uncaught    an internal error, or an exception other than TfcalcError
exit-code            a code that is not promised for this
stdout-on-error      anything on stdout beside an exit code of 2, 3, 4
error-lines          an error that is not one line (warnings of a config's fields are counted apart)
error-long           an error line of more than 600 characters
control-characters   C0, C1, ESC or bidi characters that a terminal would obey
hang                 no answer after 30 s of the processor's time
slow                 an answer that takes over 1 s of it, or over what limits.py gives to searches and several models:
                     the shorter of two runs, and longer where the machine is slower at that moment
memory               more than 300 MB were asked for to answer one input; they are refused
side-effect          a file written, a socket, a process that was not asked for
json-…               no JSON, NaN, doubled keys, a float where an int is promised, negative, zero
sum-…                totals that are not the sum of their parts
format-…             JSON, -q, csv, plain, markdown and table say different numbers
formula              a formula at the sizes differs from the number in its row
deterministic        other bytes for the same question
law-…                what must hold between two answers
law …                what a parser must make of its text: the number that was written, say
===================  ==================================================================================
"""
