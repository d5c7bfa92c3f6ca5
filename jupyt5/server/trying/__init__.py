"""Candidates tried against the cell below before they are shown; see docs/security.md."""

__all__: list[str] = []
