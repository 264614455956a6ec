"""The operations that transformers are made of: each states once what it makes, what it costs, and what it keeps.

An operation is a function of tensors that have sizes and no numbers (:class:`tfcalc.tape.tensor.Tensor`). It describes
itself by a :class:`tfcalc.tape.call.Call`, which the tensors' trace counts or runs.
"""
