"""``gguf:`` providers: a GGUF file, run by llama.cpp on the CPU."""

from pathlib import Path

from jupyt5.errors import CheckpointError, ProviderError
from jupyt5.providers.causal import CausalProvider

__all__ = ["load_gguf_provider"]


def load_gguf_provider(name: str) -> CausalProvider:
    """Load a GGUF file as a provider.

    Args:
        name: Path of the file, as it stands after ``gguf:``.

    Raises:
        ProviderError: If llama-cpp-python is not installed, or the file is missing or damaged.
    """
    path = Path(name).expanduser()
    if not name or not path.is_file():
        message = f"There is no file {name!r}. Give the path of a model: gguf:/path/to/model.gguf"
        raise ProviderError(message)
    try:
        from jupyt5.model.llama_engine import LlamaEngine
    except ImportError as exc:
        message = (
            f"gguf: needs llama-cpp-python ({exc}). Install it with pip install 'jupyt5[gguf]'."
        )
        raise ProviderError(message) from exc
    try:
        return CausalProvider(f"gguf:{name}", LlamaEngine(path))
    except CheckpointError as exc:
        raise ProviderError(str(exc)) from exc
