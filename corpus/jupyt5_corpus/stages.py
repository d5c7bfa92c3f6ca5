"""The stages of a build, as functions that any engine can run anywhere.

::

    read (a unit) ─▶ bands (a band) ─▶ plan ─▶ finish (a unit) ─▶ close

Stages meet only through files of the work folder. Each item of a stage leaves a marker file, last,
after its data: an item with a marker is done, also for a build that is started again, by whatever
engine and with however many tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import orjson
from numpy.typing import NDArray

from jupyt5.errors import CorpusError
from jupyt5.files import write_atomic
from jupyt5_corpus import minhash, near_duplicates
from jupyt5_corpus.filters import exact_duplicates
from jupyt5_corpus.finishing import finish_unit
from jupyt5_corpus.keys import Joined, read_keys
from jupyt5_corpus.layout import Layout
from jupyt5_corpus.plan import PlanRules, contents_to_compare, make_plan
from jupyt5_corpus.reading import read_unit
from jupyt5_corpus.spec import load_spec, stamp_of
from jupyt5_corpus.steps import HELD_OUT_BY, LICENCES, NEAR_DUPLICATES

__all__ = ["Stage", "list_stages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage: what to do for each of its items.

    Attributes:
        name: Also the markers' name.
        layout: The build's folder.
        num_items: Units or bands; 1 for a stage over the whole corpus.
        work: What to do for one item; what it returns goes into the marker.
    """

    name: str
    layout: Layout
    num_items: int
    work: Callable[[Layout, int], Mapping[str, object]]

    def run_item(self, item_idx: int) -> None:
        """Do one item unless it is done, and leave its marker."""
        if not self.is_done(item_idx):
            result = self.work(self.layout, item_idx)
            write_atomic(self.layout.marker(self.name, item_idx), orjson.dumps(result))

    def is_done(self, item_idx: int) -> bool:
        """Tell whether an item has its marker."""
        return self.layout.marker(self.name, item_idx).is_file()

    def missing(self) -> list[int]:
        """Return the items without a marker."""
        return [item_idx for item_idx in range(self.num_items) if not self.is_done(item_idx)]

    def results(self) -> list[Mapping[str, object]]:
        """Read what all items left.

        Raises:
            CorpusError: If an item is not done.
        """
        missing = self.missing()
        if missing:
            message = (
                f"{len(missing)} of {self.num_items} items of the stage {self.name} are not done "
                f"(the first is {missing[0]}). Run the same build command again."
            )
            raise CorpusError(message)
        paths = (self.layout.marker(self.name, item_idx) for item_idx in range(self.num_items))
        return [cast("Mapping[str, object]", orjson.loads(path.read_bytes())) for path in paths]


def list_stages(layout: Layout) -> dict[str, Stage]:
    """Return the stages of a build in their order, all but ``close``."""
    spec = load_spec(layout)
    num_bands = minhash.NUM_BANDS if spec.recipe.has(NEAR_DUPLICATES) else 0
    stages = [
        Stage(name="read", layout=layout, num_items=spec.num_units, work=read_unit),
        Stage(name="bands", layout=layout, num_items=num_bands, work=_find_pairs),
        Stage(name="plan", layout=layout, num_items=1, work=_make_plan),
        Stage(name="finish", layout=layout, num_items=spec.num_units, work=finish_unit),
    ]
    return {stage.name: stage for stage in stages}


def _find_pairs(layout: Layout, band_idx: int) -> Mapping[str, object]:
    """Find the similar notebooks that agree in one band; store pairs of contents."""
    stages = list_stages(layout)
    stages["read"].results()
    unit_idxs = range(stages["read"].num_items)
    chosen = _contents(layout, len(unit_idxs), stamp_of(layout))
    keys = np.concatenate(
        [np.load(layout.band_keys(idx), mmap_mode="r")[band_idx] for idx in unit_idxs]
    )
    signatures = Joined([layout.signatures(idx) for idx in unit_idxs], chosen)
    pairs = near_duplicates.find_pairs(keys[chosen], signatures)
    with layout.whole(layout.edges(band_idx)) as path, path.open("wb") as stream:
        np.save(stream, pairs, allow_pickle=False)
    return {"num_pairs": len(pairs)}


@lru_cache(maxsize=1)
def _contents(layout: Layout, num_units: int, _stamp: int) -> NDArray[np.int64]:
    """Return one notebook of each content; once a process, whatever the number of bands."""
    return contents_to_compare(read_keys([layout.keys(idx) for idx in range(num_units)]))


def _make_plan(layout: Layout, _: int) -> Mapping[str, object]:
    stages = list_stages(layout)
    for name in ("read", "bands"):
        stages[name].results()
    recipe = load_spec(layout).recipe
    rules = PlanRules(
        drop_exact=recipe.has(exact_duplicates.STEP),
        drop_near=recipe.has(NEAR_DUPLICATES),
        drop_held=any(map(recipe.has, HELD_OUT_BY)),
        is_wanted=_licence_rule(recipe.options(LICENCES)) if recipe.has(LICENCES) else _any_licence,
    )
    num_bands = stages["bands"].num_items
    return make_plan(layout, stages["read"].num_items, num_bands=num_bands, rules=rules)


def _licence_rule(options: Mapping[str, object]) -> Callable[[str | None], bool]:
    from jupyt5_corpus.filters.licences import is_allowed

    return partial(is_allowed, policy=str(options["policy"]))


def _any_licence(_: str | None) -> bool:
    return True
