"""What a platform team chooses about Envoy, as opposed to what a policy says."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SOCKET_PATH_BYTES = 107  # sockaddr_un.sun_path, less its final zero

_POSITIVE = (
    "concurrency",
    "admission_timeout_ms",
    "response_timeout_ms",
    "connect_timeout_ms",
    "retry_after_limit_ms",
    "max_connections",
    "upload_idle_timeout_ms",
    "upload_timeout_ms",
    "progress_interval_ms",
)


@dataclass(frozen=True, slots=True)
class EnvoySettings:
    """
    Settings of one Envoy.

    Raises: ValueError if a value can't be used.

    Attributes:
        listen_host: Address that apps connect to.
        listen_port: TCP port; 0: a free one.
        processor_sockets: Unix sockets of the processor, one for each worker.
        admin_socket: Unix socket of Envoy's admin interface; None: there is none.
        access_log_path: File that gets a JSON line for each request.
        concurrency: Envoy's worker threads; see `arguments`.
        admission_timeout_ms: How long an answer of the processor may take before
            the request is refused.
        response_timeout_ms: How long one may take on the way back before the rest
            of the response passes unmetered.
        connect_timeout_ms: To providers, TLS included.
        retry_after_limit_ms: The longest `Retry-After` of a provider that is waited
            for before a retry; a longer one goes to the app at once.
        ca_file: Certificates of the system, for providers that name no `ca_file`.
        max_connections: From apps, at the same time.
        upload_idle_timeout_ms: How long an app may send nothing in the middle of a
            request that is not admitted yet.
        upload_timeout_ms: How long it may take to send a whole request, however
            steadily: what is collected for admission is kept in memory.
        progress_interval_ms: How often Envoy tells of an answer that it reads itself
            and that goes on. Holds expire after 30 s: two of three may be lost.
        xds_dir: Folder of the files that a running Envoy follows; None: it has got
            everything at its start.
    """

    listen_host: str = "127.0.0.1"
    listen_port: int = 4000
    processor_sockets: tuple[str, ...] = ("/run/tokenweir/processor.sock",)
    admin_socket: str | None = None
    access_log_path: str = "/dev/stdout"
    concurrency: int = 1
    admission_timeout_ms: int = 2_000
    response_timeout_ms: int = 2_000
    connect_timeout_ms: int = 5_000
    retry_after_limit_ms: int = 2_000
    ca_file: str = "/etc/ssl/certs/ca-certificates.crt"
    max_connections: int = 10_000
    upload_idle_timeout_ms: int = 30_000
    upload_timeout_ms: int = 600_000
    progress_interval_ms: int = 10_000
    xds_dir: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65_535:
            raise ValueError(f"listen_port: {self.listen_port} is no TCP port")
        if not self.processor_sockets:
            raise ValueError("processor_sockets: must name at least one")
        admin = (self.admin_socket,) if self.admin_socket else ()
        for path in (*self.processor_sockets, *admin):
            if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
                raise ValueError(f"{path}: too long for the path of a unix socket")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")

    @property
    def arguments(self) -> tuple[str, ...]:
        """What belongs on Envoy's command line, beside ``-c FILE``."""
        return (
            *("--concurrency", str(self.concurrency)),
            "--disable-hot-restart",  # with it, two Envoys of a machine need base ids
            *("--file-flush-interval-msec", "1000"),  # the access log
        )
