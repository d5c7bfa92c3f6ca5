# pyright: standard
"""The onnxruntime engine: int8 encoder and decoder graphs on the CPU, no torch.

B hypotheses still growing, T ids a call, S source ids, V ids in all, D width.
"""

import io
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from jupyt5.errors import CheckpointError
from jupyt5.model.copying import SourceCopier
from jupyt5.model.decoding import DecodeRequest, Step
from jupyt5.model.sampling import choose, draw_uniforms
from jupyt5.tokenizer import Tokenizer

__all__ = ["DECODER_NAME", "ENCODER_NAME", "NUM_TOP", "TABLES_NAME", "OnnxEngine"]

ENCODER_NAME = "encoder.onnx"
DECODER_NAME = "decoder.onnx"
TABLES_NAME = "tables.npz"
# The decoder's graph hands out this many of the best ids; the assistant's top-k of 50 is within.
NUM_TOP = 64
# Sources whose keys and values are kept: 5 MB each for `nano` at 768 ids.
_NUM_CACHED = 4

Floats = npt.NDArray[np.float32]


class OnnxEngine:
    """Decodes with one exported model; what the encoder made of recent sources is kept."""

    def __init__(
        self, folder: Path, tokenizer: Tokenizer, *, num_threads: int = 0, copies: bool = True
    ) -> None:
        """Load a folder.

        Args:
            folder: As written by ``export_onnx``.
            tokenizer: The folder's tokenizer.
            num_threads: CPU threads of one request; 0 leaves the library's choice.
            copies: Guess ids from the source for a single hypothesis (``SourceCopier``).

        Raises:
            CheckpointError: If the folder is incomplete or damaged.
        """
        self._name = str(folder)
        self._special = tokenizer.special_id_set
        self._eos = tokenizer.special.eos
        self._copies = copies
        try:
            self._encoder = _open(folder / ENCODER_NAME, num_threads)
            self._decoder = _open(folder / DECODER_NAME, num_threads)
            content = io.BytesIO((folder / TABLES_NAME).read_bytes())
            with np.load(content, allow_pickle=False) as arrays:
                self._tables = {name: arrays[name] for name in arrays.files}
            self._start_id = int(self._tables["start_id"])
            shapes = {item.name: item.shape for item in self._decoder.get_inputs()}
            self._num_past = sum(name.startswith("past_") for name in shapes)
            _, self._heads, _, self._size = shapes["past_0"]
        except (*_LIBRARY_ERRORS, OSError, ValueError, KeyError, BadZipFile) as exc:
            message = f"{folder} cannot be loaded: {exc}. Export the checkpoint again."
            raise CheckpointError(message) from exc
        self._encoded: OrderedDict[tuple[int, ...], list[Floats]] = OrderedDict()
        self._lock = threading.Lock()

    def decode(self, request: DecodeRequest, cancel: threading.Event) -> Iterator[Step]:
        """Draw hypotheses; see ``Engine.decode``."""
        try:
            yield from _Decoding(self, request).run(cancel)
        except _LIBRARY_ERRORS as exc:
            message = f"{self._name} failed while decoding: {exc}"
            raise CheckpointError(message) from exc

    def encode(self, source_ids: Sequence[int]) -> list[Floats]:
        """Return all layers' cross-attention keys and values; at once for a recent source."""
        key = tuple(source_ids)
        with self._lock:
            if key in self._encoded:
                self._encoded.move_to_end(key)
                return self._encoded[key]
        embedded_1SD = self._embed(np.array([key]), 0, "encoder")
        cross: list[Floats] = self._encoder.run(None, {"embedded": embedded_1SD})  # pyright: ignore[reportAssignmentType]
        with self._lock:
            self._encoded[key] = cross
            while len(self._encoded) > _NUM_CACHED:
                self._encoded.popitem(last=False)
        return cross

    def step(
        self,
        ids_BT: npt.NDArray[np.integer],
        past: Sequence[Floats],
        cross: Sequence[Floats],
        outputs: Sequence[str],
    ) -> tuple[list[npt.NDArray], list[Floats]]:
        """Run the decoder on ids that follow ``past``; return these outputs and the new past."""
        length, start = ids_BT.shape[1], past[0].shape[2]
        mask_TK = np.triu(np.full((length, start + length), -np.inf, np.float32), start + 1)
        feed = {"embedded": self._embed(ids_BT, start, "decoder"), "mask": mask_TK[None, None]}
        feed |= {f"past_{idx}": array for idx, array in enumerate(past)}
        feed |= {f"cross_{idx}": array for idx, array in enumerate(cross)}
        names = [*outputs, *(f"present_{idx}" for idx in range(self._num_past))]
        made: list[npt.NDArray] = self._decoder.run(names, feed)  # pyright: ignore[reportAssignmentType]
        return made[: len(outputs)], made[len(outputs) :]

    def empty_past(self) -> list[Floats]:
        """Return the past of a hypothesis that has no ids yet."""
        return [np.zeros((1, self._heads, 0, self._size), np.float32)] * self._num_past

    def _embed(self, ids_BT: npt.NDArray[np.integer], start: int, side: str) -> Floats:
        tables = self._tables
        positions_TD = tables[f"{side}_positions"][start : start + ids_BT.shape[1]]
        if len(positions_TD) < ids_BT.shape[1]:
            message = (
                f"{self._name} has {len(tables[f'{side}_positions'])} positions, fewer than the "
                f"{start + ids_BT.shape[1]} ids of this request. Shorten it."
            )
            raise CheckpointError(message)
        return tables["ids"][ids_BT] * tables["ids_scale"][ids_BT] + positions_TD.astype(np.float32)


class _Decoding:
    """One request on its way: the growing hypotheses, their past and their random numbers."""

    def __init__(self, engine: OnnxEngine, request: DecodeRequest) -> None:
        self._engine = engine
        self._request = request
        n = 1 if request.temperature == 0 else request.n
        self._uniform_BL = draw_uniforms(request.seed, n, request.max_tokens)
        self._rows = np.arange(n)  # hypothesis of each row
        self._num_done = 0  # ids that each growing hypothesis has, without the forced ones
        self._outputs = ["top_ids", "top", "log_sum"]
        if request.temperature and not 0 < request.top_k <= NUM_TOP:
            self._outputs.append("logits")
        self._copier = None
        if n == 1 and engine._copies:
            self._copier = SourceCopier(request.source_ids, engine._special)
        self._ids = [engine._start_id, *request.forced_ids]  # of a single hypothesis

    def run(self, cancel: threading.Event) -> Iterator[Step]:
        engine, request = self._engine, self._request
        cross = engine.encode(request.source_ids)
        ids_BT, past = np.array([self._ids]), engine.empty_past()
        num_guessed = 0
        while not cancel.is_set():
            wanted = self._outputs if self._num_done else [*self._outputs, "logits"]
            made, past = engine.step(ids_BT, past, cross, wanted)
            if not self._num_done and len(self._rows) > 1:
                past = [np.repeat(array, len(self._rows), 0) for array in past]
                made = [np.repeat(array, len(self._rows), 0) for array in made]
            first = ids_BT.shape[1] - num_guessed - 1
            for place in range(num_guessed + 1):
                chosen = self._choose([array[:, first + place] for array in made])
                growing: list[bool] = []
                for item in self._to_steps(chosen):
                    yield item
                    if cancel.is_set():
                        return
                    growing.append(not item.finished)
                if not any(growing):
                    return
                if place == num_guessed or chosen[0][0] != ids_BT[0, first + place + 1]:
                    if self._copier is not None:
                        self._copier.note(num_guessed, place)
                    past = _keep(past, np.array(growing), num_guessed - place)
                    ids_BT = self._next_ids(chosen[0], np.array(growing))
                    break
            num_guessed = 0 if self._copier is None else ids_BT.shape[1] - 1

    def _choose(self, made: Sequence[npt.NDArray]) -> tuple[npt.NDArray, npt.NDArray]:
        """Return chosen ids and their log-probabilities, shapes (B,)."""
        request = self._request
        ids_BK, logits_BK, log_sum_B = made[:3]
        logits_BV = made[3] if len(made) > 3 else None
        if not self._num_done and not request.forced_ids:  # as CTranslate2: at least one id in all
            assert logits_BV is not None
            logits_BV = logits_BV.copy()
            logits_BV[:, self._engine._eos] = -np.inf
            peak_B = logits_BV.max(1)
            log_sum_B = peak_B + np.log(np.exp(logits_BV - peak_B[:, None]).sum(1))
            ids_BK = np.argsort(-logits_BV, axis=1, kind="stable")[:, :NUM_TOP]
            logits_BK = np.take_along_axis(logits_BV, ids_BK, 1)
        ids_B, chosen_B = choose(
            (ids_BK, logits_BK),
            logits_BV,
            self._uniform_BL[self._rows, self._num_done],
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
        )
        return ids_B, chosen_B - log_sum_B

    def _to_steps(self, chosen: tuple[npt.NDArray, npt.NDArray]) -> Iterator[Step]:
        self._num_done += 1
        is_last = self._num_done == self._request.max_tokens
        for row, token_id, log_prob in zip(self._rows, *chosen, strict=True):
            is_end = int(token_id) == self._engine._eos
            shown = None if is_end else int(token_id)
            yield Step(int(row), shown, float(log_prob), is_end or is_last)
        if len(self._rows) == 1:
            self._ids.append(int(chosen[0][0]))

    def _next_ids(self, ids_B: npt.NDArray, growing_B: npt.NDArray[np.bool_]) -> npt.NDArray:
        """Return the next call's ids: the chosen ones, and guesses for a single hypothesis."""
        self._rows, ids_B = self._rows[growing_B], ids_B[growing_B]
        if self._copier is None:
            return ids_B[:, None]
        room = self._request.max_tokens - self._num_done - 1
        return np.array([[ids_B[0], *self._copier.guess(self._ids, room)]])


def _keep(past: list[Floats], growing_B: npt.NDArray[np.bool_], num_wrong: int) -> list[Floats]:
    """Return the past without hypotheses that have ended and without guesses that were wrong."""
    if not growing_B.all():
        past = [array[growing_B] for array in past]
    if num_wrong:
        past = [np.ascontiguousarray(array[:, :, :-num_wrong]) for array in past]
    return past


def _open(path: Path, num_threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # lengths differ from call to call
    options.log_severity_level = 3
    return ort.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])


# What the library raises has no common base but Exception.
_LIBRARY_ERRORS = tuple(
    kind
    for kind in vars(ort.capi.onnxruntime_pybind11_state).values()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(kind, type) and issubclass(kind, Exception)
)
