"""The model: sizes, checkpoint folders, decoding, export. Importing this loads no torch."""
