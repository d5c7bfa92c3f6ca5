"""Import of BART checkpoints of fairseq and Hugging Face. Importing this loads no torch."""
