"""Make a problem set out of nbgrader notebooks (``dsp-eval build``)."""
