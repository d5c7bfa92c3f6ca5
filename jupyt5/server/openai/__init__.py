"""``jupyt5 serve``: our providers behind OpenAI's protocol, for editors that speak it."""

from jupyt5.server.openai.app import ServeConfig, serve

__all__ = ["ServeConfig", "serve"]
