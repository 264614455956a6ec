"""Operations that transformers are made of: each states once its result, its costs, and what it saves for backward.

An operation is a function of tensors that have sizes and no numbers (:class:`tfcalc.tape.tensor.Tensor`). It describes
itself by a :class:`tfcalc.tape.tensor.Call`, which the tensors' trace counts or runs.
"""
