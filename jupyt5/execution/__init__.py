"""Running cells in a sandbox and judging them; start at ``engine``.

Import from the modules; the package itself loads nothing.
"""
