"""Training of JuPyT5 models: token arrays, batches, the loop, checkpoints, recipes."""
