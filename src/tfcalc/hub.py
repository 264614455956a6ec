"""The config.json of a model on the Hugging Face Hub: the only module with network access, and only for an id."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from tfcalc.errors import Unavailable
from tfcalc.reader import CONFIG, BadConfig, read

ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
ON = ("1", "on", "true", "yes")


def is_id(name: str) -> bool:
    """Return whether ``name`` is the id of a repository: ``owner/name``.

    >>> is_id("openai-community/gpt2"), is_id("gpt2"), is_id("a/b/c")
    (True, False, False)
    """
    return ID.fullmatch(name) is not None


def fetch(name: str, *, offline: bool = False) -> dict[str, object]:
    """Return the config.json of a repository: from the local cache, else over the network.

    Raises Unavailable if it is not in the cache and the network is not to be used (``offline``, HF_HUB_OFFLINE), the
    ``hub`` extra is not installed, or the Hub does not return it.
    """
    cached = _cache() / f"models--{name.replace('/', '--')}"
    if os.path.isdir(cached):  # Path.is_dir raises for a cache without search permission
        try:
            return read(str(cached))
        except BadConfig:
            if offline:
                raise
    if offline or os.environ.get("HF_HUB_OFFLINE", "").lower() in ON:
        raise Unavailable(f"{name} is not in the cache, and offline mode is on", "download its config.json first")
    return _download(name)


def _download(name: str) -> dict[str, object]:
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils import logging, tqdm
    except ImportError:
        raise Unavailable(
            f"{name} is not in the cache, and cannot be fetched", "pip install 'tfcalc[hub]', or give its config.json"
        ) from None
    _reach(constants.ENDPOINT, name)
    logging.set_verbosity_error()
    try:
        return read(hf_hub_download(name, CONFIG, tqdm_class=partial(tqdm, disable=True)))
    except HfHubHTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", "no")
        raise Unavailable(f"the Hub does not give {name}: status {status}", "check the id, or log in") from None
    except (OSError, ValueError) as error:
        raise Unavailable(f"the Hub cannot be reached for {name}: {type(error).__name__}", "see --offline") from None


def _reach(endpoint: str, name: str) -> None:
    """Raise Unavailable at once if there is no network: the library would retry for half a minute."""
    from socket import create_connection
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    address = urlsplit(endpoint)
    if getproxies() or not address.hostname:
        return
    try:
        create_connection((address.hostname, address.port or 443), timeout=5).close()
    except OSError:
        raise Unavailable(f"the Hub cannot be reached for {name}", "give its config.json, or a preset") from None


def _cache() -> Path:
    """Return the cache folder of the Hub's own library."""
    if given := os.environ.get("HF_HUB_CACHE"):
        return Path(given)
    home = os.environ.get("HF_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(os.path.expanduser(home)) / "hub"  # without a known home, ~ is not expanded
