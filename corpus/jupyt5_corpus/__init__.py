"""The corpus pipeline: notebooks in shards, archives or folders become one Parquet corpus.

``jupyt5-corpus build`` is a walk through these modules::

    sources ─▶ filters.parse ─▶ filters.holdout ─▶ filters.markdown_focused ─▶ tables
               (one row at a time, one worker an input unit)
    keys ─▶ filters.exact_duplicates, split ─▶ tables ─▶ manifest
               (all notebooks at once, but only their keys)
"""
