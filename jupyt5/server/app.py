"""The jupyter-server extension and its settings."""

import os
import threading
from functools import cached_property
from pathlib import Path

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Float, Int, List, Unicode

from jupyt5.execution.jobs import Limits as TryLimits
from jupyt5.providers import DEFAULT_PROVIDER_URI, Provider, load_provider
from jupyt5.providers.places import find_default_uri
from jupyt5.server.engine import FillEngine
from jupyt5.server.handlers import HANDLERS
from jupyt5.server.messages import Limits
from jupyt5.server.shelf import ProviderShelf
from jupyt5.server.trying.consent import ConsentRecord
from jupyt5.server.trying.desk import TryDesk

__all__ = ["JuPyT5App"]

_LOCAL_SCHEMES = frozenset({"jupyt5", "gguf", "hf"})


class JuPyT5App(ExtensionApp):
    """Fills notebook cells for the JuPyT5 interface in JupyterLab and Notebook."""

    name = "jupyt5"
    load_other_extensions = True
    enabled = Bool(True, help="False turns the assistant off for everybody on this server.").tag(
        config=True
    )
    provider = Unicode(
        help="URI of the provider used when a request names none, e.g. jupyt5:nano (bundled). "
        "Empty (the default): jupyt5:mine where `jupyt5-train mine` has made that of the user's "
        "own notebooks and allowed_providers has nothing against it, else jupyt5:nano.",
    ).tag(config=True)
    allowed_providers = List(
        Unicode(),
        help="URIs that a request may name besides `provider`. Empty (the default): any URI.",
    ).tag(config=True)
    num_context_cells = Int(
        3, min=0, help="Cells before the target that the model sees, unless a request says."
    ).tag(config=True)
    num_following_cells = Int(
        1, min=0, help="Cells after the target that the model sees, unless a request says."
    ).tag(config=True)
    max_tokens = Int(
        128, min=1, help="Longest candidate, in the model's tokens, unless a request says."
    ).tag(config=True)
    max_tokens_limit = Int(
        1024, min=1, help="Most tokens a candidate that a request may ask for."
    ).tag(config=True)
    max_candidates = Int(10, min=1, help="Most candidates that one request may ask for.").tag(
        config=True
    )
    temperature = Float(
        0.8,
        min=0,
        help="Sampling temperature when several candidates are asked for; 0 is greedy. "
        "A single candidate is always decoded greedily.",
    ).tag(config=True)
    request_limit_bytes = Int(
        1_048_576, min=1024, help="Largest fill request, in bytes. Larger ones are refused."
    ).tag(config=True)
    timeout_s = Float(
        120.0, min=0.1, help="Seconds a fill request may take, loading the model included."
    ).tag(config=True)
    max_parallel_fills = Int(
        2, min=1, help="Requests that generate at the same time; others wait their turn."
    ).tag(config=True)
    max_waiting_fills = Int(
        64, min=0, help="Requests that may wait; what comes then is refused with 429."
    ).tag(config=True)
    max_waiting_fills_per_user = Int(
        16, min=0, help="Requests of one user that may wait. Turns go round among the users."
    ).tag(config=True)
    max_loaded_providers = Int(
        2, min=1, help="Providers kept in memory; the one unused for longest is dropped."
    ).tag(config=True)
    model_process = Bool(
        True,
        help="Whether a model of this machine runs in a process of its own, so that its crash or "
        "its want of memory does not end the Jupyter server. False, and on Windows: in threads.",
    ).tag(config=True)
    load_retry_s = Float(
        60.0, min=0, help="Seconds until a provider that failed to load is tried again."
    ).tag(config=True)

    allow_kernel_facts = Bool(
        True,
        help="Whether the model may be told names, types, shapes and columns of a kernel's "
        "variables, where a reader asks for that. Values are never told.",
    ).tag(config=True)
    kernel_facts_bytes = Int(
        1500, min=100, help="Longest text about a kernel's variables, in bytes."
    ).tag(config=True)

    allow_try = Bool(
        True,
        help="Whether people may allow candidates to be tried against the cell below, notebook by "
        "notebook. False: nobody may.",
    ).tag(config=True)
    try_timeout_s = Float(
        5.0,
        min=0.1,
        help="Processor seconds of one candidate with the cell that tests it; three times as much "
        "on the wall clock.",
    ).tag(config=True)
    try_total_s = Float(
        90.0,
        min=1,
        help="Seconds that all tries of a request may take, the cells above included where those "
        "must be run again.",
    ).tag(config=True)
    try_memory_mib = Int(
        2048, min=64, help="MiB of memory that one candidate may take beyond what was there."
    ).tag(config=True)
    max_parallel_tries = Int(
        2, min=1, help="Requests whose candidates are tried at the same time."
    ).tag(config=True)

    openai_base_url = Unicode(
        help="Server that a provider openai:MODEL means, and the only one that gets the key, e.g. "
        "https://models.example.org/v1. Empty (the default): $OPENAI_BASE_URL, or that of OpenAI.",
    ).tag(config=True)
    openai_key_env = Unicode(
        "OPENAI_API_KEY",
        help="Environment variable of the Jupyter server that holds the key of openai_base_url.",
    ).tag(config=True)
    openai_api_key = Unicode(
        help="The key itself, for configuration files that only the server can read; wins over "
        "openai_key_env. Never give it on a command line, where everybody can see it.",
    ).tag(config=True)
    openai_silence_s = Float(
        60.0, min=0.1, help="Longest silence of an OpenAI-compatible server, in seconds."
    ).tag(config=True)
    openai_retries = Int(
        3, min=0, help="Further tries when such a server is overloaded (429) or fails (5xx)."
    ).tag(config=True)

    openai_budget_tokens = Int(
        2048, min=64, help="Most tokens of a notebook that such a server is sent, as estimated."
    ).tag(config=True)

    @cached_property
    def engine(self) -> FillEngine:
        """The engine behind the handlers, made when the first request comes."""
        shelf = ProviderShelf(
            self._load_provider, max_loaded=self.max_loaded_providers, retry_s=self.load_retry_s
        )
        return FillEngine(
            shelf,
            max_parallel=self.max_parallel_fills,
            timeout_s=self.timeout_s,
            max_waiting=self.max_waiting_fills,
            max_waiting_per_user=self.max_waiting_fills_per_user,
        )

    @cached_property
    def consent(self) -> ConsentRecord:
        """Who has allowed candidates to be tried, in which notebook."""
        return ConsentRecord(Path(jupyter_data_dir()) / "jupyt5" / "try-consent.json")

    @cached_property
    def try_desk(self) -> TryDesk:
        """Where requests go that ask for a try."""
        limits = TryLimits(
            timeout_s=self.try_timeout_s,
            context_timeout_s=self.try_total_s,
            memory_bytes=self.try_memory_mib << 20,
        )
        return TryDesk(limits, timeout_s=self.try_total_s, max_parallel=self.max_parallel_tries)

    @cached_property
    def _ending(self) -> threading.Event:
        """Set when the server ends."""
        return threading.Event()

    def cancel(self, request_id: str) -> bool:
        """Stop a request down to its generator and its tries; False if there is none."""
        # Both: a request that is being tried may have come to the end of its generator.
        found = [self.engine.cancel(request_id), self.try_desk.cancel(request_id)]
        return any(found)

    def _load_provider(self, uri: str) -> Provider:
        """Load a provider in a thread; the settings for ``openai:`` are read when one is asked."""
        scheme = uri.partition(":")[0]
        if scheme in _LOCAL_SCHEMES and self.model_process and os.name == "posix":
            from jupyt5.server.process import ProcessProvider

            return ProcessProvider(uri, ending=self._ending)
        if scheme != "openai":
            return load_provider(uri)
        from jupyt5.providers.openai import OpenAISettings

        settings = OpenAISettings.from_environment(
            base_url=self.openai_base_url,
            key_env=self.openai_key_env,
            key=self.openai_api_key,
            read_timeout_s=self.openai_silence_s,
            num_retries=self.openai_retries,
            budget_tokens=self.openai_budget_tokens,
        )
        return load_provider(uri, openai=settings)

    @property
    def limits(self) -> Limits:
        """The settings that a request is checked against."""
        return Limits(
            provider=self._choose_default(),
            allowed_providers=tuple(self.allowed_providers),
            num_context_cells=self.num_context_cells,
            num_following_cells=self.num_following_cells,
            max_tokens=self.max_tokens,
            max_tokens_limit=self.max_tokens_limit,
            max_candidates=self.max_candidates,
            temperature=self.temperature,
        )

    def _choose_default(self) -> str:
        """Looked up each time: a model made while the server runs is picked up."""
        if self.provider:
            return self.provider
        uri, allowed = find_default_uri(), self.allowed_providers
        return uri if not allowed or uri in allowed else DEFAULT_PROVIDER_URI

    def initialize_settings(self) -> None:
        """Make the app known to its handlers."""
        self.settings["jupyt5_app"] = self

    def initialize_handlers(self) -> None:
        """Add the routes below the server's base URL."""
        self.handlers.extend(HANDLERS)

    async def stop_extension(self) -> None:
        """Cancel what is running or loading when the server stops."""
        self._ending.set()
        self.engine.close()
