"""The children's side of children.Child: answers pickled requests from stdin on stdout until stdin ends."""

import os
import pickle
import sys


def serve(answer):
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not land between two replies.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with replies:
        while True:
            try:
                request = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                reply = (True, answer(*request))
            except Exception as error:  # noqa: BLE001 - raised again by the parent
                reply = (False, f"{type(error).__name__}: {error}")
            pickle.dump(reply, replies)
            replies.flush()
