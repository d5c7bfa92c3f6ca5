"""Fetching the notebooks of public git repositories, and nothing else of them.

``jupyt5-corpus fetch`` is a walk through these modules::

    targets ─▶ run ─▶ hosts ─▶ client ─▶ folder
    (a list)   (tasks, retries)  (one repository)  (shards, tables, state)
"""
