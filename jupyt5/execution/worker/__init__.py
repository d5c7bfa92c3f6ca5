"""What runs inside an interpreter that executes notebooks: standard library and IPython only.

It works under any Python from 3.8 and IPython from 7.3, so it uses nothing newer and imports
nothing of ``jupyt5``. ``bootstrap.py`` is its entry; ``warden.py`` builds the outer wall around it.
"""
