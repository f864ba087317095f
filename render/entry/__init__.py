"""The user's side of a call: the file, its entry function, inputs and outputs, and one interpreted run of it."""
