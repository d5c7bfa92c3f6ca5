"""What a request sends besides the notebook's cells, and how a reader sees all of it."""
