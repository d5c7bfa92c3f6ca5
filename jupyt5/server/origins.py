"""Pages of other sites get a refusal in words, not the page-not-found of jupyter-server."""

from jupyter_server.base.handlers import APIHandler
from tornado import web

__all__ = ["SameOriginHandler"]


class SameOriginHandler(APIHandler):
    """What all handlers of the extension are; an allowed origin is jupyter-server's to say."""

    auth_resource = "jupyt5"

    def check_origin(self, origin_to_satisfy_tornado: str = "") -> bool:
        """Check the Origin header as jupyter-server does.

        Raises:
            HTTPError: 403 if it is another site's.
        """
        if not super().check_origin(origin_to_satisfy_tornado):
            message = f"Requests from {self.request.headers.get('Origin')} are not allowed here."
            raise web.HTTPError(403, message)
        return True
