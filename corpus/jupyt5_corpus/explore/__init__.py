"""The commands that look into a finished corpus or make another one from it."""
