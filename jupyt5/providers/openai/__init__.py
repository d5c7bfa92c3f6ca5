"""``openai:MODEL@BASE_URL``: any server that speaks OpenAI's protocol.

vLLM, Ollama, llama.cpp, LM Studio, ``jupyt5 serve``, hosted services. ``#chat`` (the default),
``#fim`` (prompt and suffix) or ``#completions`` (prompt alone) behind the URL says how the server
is asked.
"""

from jupyt5.providers.openai.provider import OpenAIProvider, load_openai_provider
from jupyt5.providers.openai.settings import OpenAISettings

__all__ = ["OpenAIProvider", "OpenAISettings", "load_openai_provider"]
