"""Running cells and judging them: ``verdicts`` (pure), ``sandbox``, ``workspace``, ``kernel``.

Import from the modules; the package itself loads nothing.
"""
