"""
Whom Envoy trusts, and by what it says who it is.

An Envoy that got everything at its start reads the files that a policy names then, and
never again. One that follows files is pointed to a *secret* (SDS) for each: those it
reads anew as they change, without another cluster and without a closed connection.

A secret of authorities holds their certificates: they are public, and what was checked
is what Envoy reads. One of ours with its key only says where the two are: a private key
has no copy. Envoy sees them change if files are moved to their place, as Kubernetes
does it; what is written over in place it does not see.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from envoy_data_plane.envoy.config.core.v3 import (
    ApiVersion,
    ConfigSource,
    DataSource,
    PathConfigSource,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    CommonTlsContextCombinedCertificateValidationContext,
    SdsSecretConfig,
    Secret,
    TlsCertificate,
)

from tokenweir.core.policy import Policy, Provider
from tokenweir.envoyconf.settings import EnvoySettings

SYSTEM_AUTHORITIES: Final = "system-authorities"


def tls_context(
    provider: Provider, settings: EnvoySettings, trust: CertificateValidationContext
) -> CommonTlsContext:
    """Return how *provider* is spoken to; *trust* says what its certificate must be."""
    context = CommonTlsContext()
    if settings.xds_dir is None:
        trust.trusted_ca = DataSource(filename=provider.ca_file or settings.ca_file)
        context.validation_context = trust
        if provider.cert_file and provider.key_file:
            context.tls_certificates = [_pair(provider.cert_file, provider.key_file)]
        return context
    context.combined_validation_context = (
        CommonTlsContextCombinedCertificateValidationContext(
            default_validation_context=trust,
            validation_context_sds_secret_config=_follow(
                _authorities(provider), settings.xds_dir
            ),
        )
    )
    if provider.cert_file:
        own = _follow(_own(provider), settings.xds_dir)
        context.tls_certificate_sds_secret_configs = [own]
    return context


def source(xds_dir: str, name: str) -> ConfigSource:
    """Return where Envoy finds what is in the file *name* of *xds_dir*."""
    path = PathConfigSource(path=str(Path(xds_dir) / name))
    return ConfigSource(path_config_source=path, resource_api_version=ApiVersion.V3)


def file_of(secret: str) -> str:
    """Return the name of the file that *secret* is in."""
    return f"secret-{secret}.json"


def secrets_of(policy: Policy, settings: EnvoySettings) -> Iterator[Secret]:
    """Yield what providers of *policy* need. Raises: OSError, of a policy's file."""
    trusted = [each for each in policy.providers.values() if each.scheme == "https"]
    if any(each.ca_file is None for each in trusted):
        system = DataSource(filename=settings.ca_file)
        yield Secret(
            name=SYSTEM_AUTHORITIES,
            validation_context=CertificateValidationContext(trusted_ca=system),
        )
    for provider in trusted:
        if provider.ca_file:
            content = Path(provider.ca_file).read_text(encoding="latin-1")
            trust = CertificateValidationContext(
                trusted_ca=DataSource(inline_string=content)
            )
            yield Secret(name=_authorities(provider), validation_context=trust)
        if provider.cert_file and provider.key_file:
            pair = _pair(provider.cert_file, provider.key_file)
            yield Secret(name=_own(provider), tls_certificate=pair)


def lacks_authorities(policy: Policy, settings: EnvoySettings) -> bool:
    """Tell if a provider's certificate is checked against what is not there."""
    needed = any(
        each.scheme == "https" and each.ca_file is None
        for each in policy.providers.values()
    )
    return needed and not Path(settings.ca_file).is_file()


def problems_of(policy: Policy) -> Iterator[str]:
    """Yield what Envoy could not use of the files that *policy* names, by its path."""
    for provider in policy.providers.values():
        where = f"providers.{provider.name}"
        if provider.ca_file and not _trusts(provider.ca_file):
            yield f"{where}.ca_file: holds a certificate that can't be read"
        if provider.cert_file and provider.key_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                # An empty passphrase, so that nobody is asked for one.
                context.load_cert_chain(provider.cert_file, provider.key_file, "")
            except (ssl.SSLError, OSError, ValueError):
                yield f"{where}.key_file: is not the key of cert_file, or can't be read"


def _trusts(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (ssl.SSLError, OSError, ValueError):
        return False
    return True


def _follow(secret: str, xds_dir: str) -> SdsSecretConfig:
    return SdsSecretConfig(name=secret, sds_config=source(xds_dir, file_of(secret)))


def _authorities(provider: Provider) -> str:
    return f"{provider.cluster}-authorities" if provider.ca_file else SYSTEM_AUTHORITIES


def _own(provider: Provider) -> str:
    return f"{provider.cluster}-own"


def _pair(cert_file: str, key_file: str) -> TlsCertificate:
    return TlsCertificate(
        certificate_chain=DataSource(filename=cert_file),
        private_key=DataSource(filename=key_file),
    )
