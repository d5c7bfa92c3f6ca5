"""``report.html``: one self-contained page about a run. Sample texts are hostile.

No text of a sample is ever markup: the page's static part is escaped by its template, everything
else lies compressed in data blocks and is shown as text content by the page's one script, which
the content security policy names by its hash.
"""

from jupyt5_dsp.report.references import write_references
from jupyt5_dsp.report.write import write_report

__all__ = ["write_references", "write_report"]
