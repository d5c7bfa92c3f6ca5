"""``jupyt5-corpus map``: where a corpus's notebooks lie by what they say, as one HTML page.

After the paper's figure 3::

    sample ─▶ words ─▶ vectors ─▶ places ─▶ page
    (draw)    (text)   (fastText) (t-SNE, k-means, terms)

Everything runs in one thread, and t-SNE starts from rounded places, so a seed gives the same page
again, byte for byte, with the same library versions, also under another BLAS kernel. Other
versions of fastText, openTSNE, scikit-learn or zlib, or processors whose rounding differs inside
fastText or openTSNE, may give other bytes. fastText has no seed to set: it always starts from 0.
"""

from jupyt5_corpus.map.make import write_map
from jupyt5_corpus.map.settings import MapSettings

__all__ = ["MapSettings", "write_map"]
