"""The corpus pipeline: notebooks from anywhere become one Parquet corpus.

``jupyt5-corpus build`` is a walk through these modules::

    build ─▶ recipe (what to do), sources (what with), engines (who does it)
    stages:  reading    a unit of the input ─▶ rows, keys, signatures, early removals
             minhash    a band ─▶ pairs of near-duplicates
             plan       all keys ─▶ decisions about duplicates and copies; families, licences
             finishing  a unit's rows ─▶ shard and list of removals
             closing    manifest, card, decontamination report

Steps over one row are in ``filters``, one file each, and known by name in ``steps``.
"""
