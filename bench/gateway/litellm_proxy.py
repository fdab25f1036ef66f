"""
LiteLLM's proxy, as its pages for production say: one worker on uvloop, no debugging,
Redis by host and port, and limits of requests, tokens and parallel requests on a key.

A virtual key with limits needs PostgreSQL, or a `custom_auth` that returns the key with
its limits: that is the cheaper way, and it is this. Answers are not cached
(`supported_call_types` is empty), no spend is logged.
"""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bench.gateway.children import START_SECONDS, Child, environment, spawn
from bench.gateway.loads import KEY, MODEL
from tokenweir.stack.ports import free_port

if TYPE_CHECKING:
    from bench.gateway.stand import Site

LIMIT = 10_000_000_000
_ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOG": "ERROR",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing here may ask the network
    "PYTHONDONTWRITEBYTECODE": "1",
}
_AUTH = """\
from litellm.proxy._types import UserAPIKeyAuth

KEY = "{key}"


async def user_api_key_auth(request, api_key):
    if api_key != KEY:
        raise ValueError("unknown key")
    return UserAPIKeyAuth(
        api_key=api_key,
        user_id="bench",
        rpm_limit={limit},
        tpm_limit={limit},
        max_parallel_requests=100000,
    )
"""


def configuration(upstream_port: int, redis_port: int) -> dict[str, Any]:
    """Return the proxy's ``config.yaml``."""
    return {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"openai/{MODEL}",
                    "api_base": f"http://127.0.0.1:{upstream_port}/v1",
                    "api_key": "sk-provider",
                },
            }
        ],
        "general_settings": {
            "master_key": "sk-master",
            "custom_auth": "bench_auth.user_api_key_auth",
            "disable_spend_logs": True,
        },
        "router_settings": {"redis_host": "127.0.0.1", "redis_port": redis_port},
        "litellm_settings": {
            "set_verbose": False,
            "request_timeout": 600,
            "cache": True,
            "cache_params": {
                "type": "redis",
                "host": "127.0.0.1",
                "port": redis_port,
                "supported_call_types": [],
            },
        },
    }


def start(site: Site, python: Path, redis_port: int) -> tuple[int, Child]:
    """Start it, and return its port once it serves. Raises: RuntimeError."""
    folder = site.path("litellm")
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(configuration(site.upstream_port, redis_port)))
    auth = _AUTH.format(key=KEY.format(number=0), limit=LIMIT)
    (folder / "bench_auth.py").write_text(auth)
    port = free_port()
    program = python.with_name("litellm")
    command: list[str | Path] = [
        program,
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
    ]
    command += ["--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    env = {k: v for k, v in environment().items() if k != "PYTHONPATH"}
    child = spawn(command, folder / "log", site.stack, env | _ENVIRONMENT)
    _until_alive(child, port)
    return port, child


def _until_alive(child: Child, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while child.process.poll() is None and time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health/liveliness")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError(f"LiteLLM did not start:\n{child.log.read_text()[-4000:]}")
