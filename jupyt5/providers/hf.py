"""``hf:`` providers: a causal or encoder-decoder model, run by transformers."""

from jupyt5.errors import CheckpointError, ProviderError
from jupyt5.providers.causal import CausalProvider

__all__ = ["load_hf_provider"]


def load_hf_provider(name: str) -> CausalProvider:
    """Load a folder or model id as a provider.

    Args:
        name: What stands after ``hf:``. An id that is not in the local cache is fetched from the
            Hugging Face hub, unless ``HF_HUB_OFFLINE=1`` is set.

    Raises:
        ProviderError: If torch or transformers is not installed, or the model cannot be loaded.
    """
    if not name:
        message = "hf: names no model. Give a folder or an id: hf:/path/to/model"
        raise ProviderError(message)
    try:
        from jupyt5.model.hf_engine import HfEngine
    except ImportError as exc:
        message = f"hf: needs transformers ({exc}). Install it with pip install 'jupyt5[hf]'."
        raise ProviderError(message) from exc
    try:
        return CausalProvider(f"hf:{name}", HfEngine(name))
    except CheckpointError as exc:
        raise ProviderError(str(exc)) from exc
