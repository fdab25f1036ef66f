"""What models' counting refers to outside of the policy: files, and secrets of servers."""

from __future__ import annotations

import importlib.util
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from tokenweir.config.files import Files
from tokenweir.config.problem import Problem
from tokenweir.config.schema import ModelEntry, PolicyFile
from tokenweir.config.secret_reference import resolve
from tokenweir.config.tokenize_entry import TokenizeEntry, origin_of
from tokenweir.core.policy import Secret
from tokenweir.core.tokenize_server import TokenizeServer
from tokenweir.core.tokenizer_name import MAX_FILE_BYTES, PACKAGE, path_in


def missing_files(file: PolicyFile) -> Iterator[Problem]:
    """Yield what is wrong with the tokenizers' files, as far as a look can tell."""
    for name, entry in file.models.items():
        path = path_in(entry.tokenizer)
        if path is not None:
            for text in _wrong_with(Path(path)):
                yield Problem(("models", name, "tokenizer"), text)


def tokenize_credentials(
    file: PolicyFile, env: Mapping[str, str], files: Files, problems: list[Problem]
) -> dict[str, Secret]:
    """Return the secrets of servers by model; what was not found goes to *problems*."""
    found = {}
    for name, entry in file.models.items():
        if entry.tokenize is None or entry.tokenize.credential is None:
            continue
        try:
            found[name] = resolve(entry.tokenize.credential, env, files)
        except ValueError as error:
            path = ("models", name, "tokenize", "credential")
            problems.append(Problem(path, str(error)))
    return found


def exposed(file: PolicyFile) -> Iterator[Problem]:
    """Yield where a credential would go over plain http to another machine."""
    for name, entry in file.models.items():
        server, provider = entry.tokenize, file.providers.get(entry.provider)
        if server is None or server.credential is None:
            continue
        origin = origin_of(server.url)
        allowed = provider is not None and provider.allow_plaintext
        if origin.scheme == "http" and not origin.is_loopback and not allowed:
            yield Problem(
                ("models", name, "tokenize", "url"),
                "would send the credential in plain text to another machine: use https, "
                "or say `allow_plaintext: true` of the provider",
            )


def compile_tokenize(
    entry: ModelEntry, credential: Secret | None
) -> TokenizeServer | None:
    """Return who is asked for counts of a model, with what is sent as *credential*."""
    server = entry.tokenize
    if server is None:
        return None
    return TokenizeServer(
        url=server.url,
        header=server.header.lower(),
        credential=_sent(server, credential),
        deadline_ms=server.deadline,
        min_bytes=server.min_bytes,
        max_bytes=server.max_bytes,
    )


def _sent(server: TokenizeEntry, credential: Secret | None) -> Secret | None:
    if credential is None or server.header.lower() != "authorization":
        return credential
    return Secret(f"Bearer {credential.reveal()}")


def _wrong_with(path: Path) -> Iterator[str]:
    if importlib.util.find_spec(PACKAGE) is None:
        yield (
            f"needs the package `{PACKAGE}`: pip install 'tokenweir[{PACKAGE}]', or name "
            "a family"
        )
    try:
        found = path.stat()
    except OSError as error:
        reason = (error.strerror or "no such file").lower()
        yield f"can't be read: {reason}"
        return
    if not stat.S_ISREG(found.st_mode):
        yield "is not a regular file"
    elif found.st_size > MAX_FILE_BYTES:
        yield f"is larger than {MAX_FILE_BYTES} bytes: is it a tokenizer.json?"
