"""``jupyt5-corpus map``: where a corpus's notebooks lie by what they say, as one HTML page.

After the paper's figure 3::

    sample ─▶ words ─▶ vectors ─▶ places ─▶ page
    (draw)    (text)   (fastText) (t-SNE, k-means, terms)

Everything runs in one thread, so a seed gives the same page again, byte for byte, with the same
library versions on the same kind of processor. Other versions, or a processor for which fastText,
BLAS or openTSNE choose other instructions, round differently, and t-SNE makes that visible.
fastText has no seed of its own to set: it always starts from 0.
"""

from jupyt5_corpus.map.make import write_map
from jupyt5_corpus.map.settings import MapSettings

__all__ = ["MapSettings", "write_map"]
