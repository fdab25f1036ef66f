"""One policy, from its bytes to the snapshot."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pydantic import ValidationError

from tokenweir.config.compile import compile_policy, compile_webhook
from tokenweir.config.compile_pricing import compile_pricing
from tokenweir.config.document import (
    MAX_SOURCE_BYTES,
    Document,
    UnreadableDocumentError,
    read_document,
)
from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.config.outside import LookUp, Outside, look_up
from tokenweir.config.problem import Problem, listed
from tokenweir.config.references import References
from tokenweir.config.salvage import VERSION, LeftOut, salvage
from tokenweir.config.schema import PolicyFile
from tokenweir.config.schema_problem import problems_of
from tokenweir.config.stand_in import stand_in
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Policy

# A pod's own word for `single_tenant`: pods of several tenants may have one policy.
TENANT_VARIABLE = "TOKENWEIR_TENANT"
_DIGEST_CHARS = 12


def load_policy(
    path: pathlib.Path,
    env: Mapping[str, str],
    *,
    files: Files | None = None,
    credentials: bool = True,
    look: LookUp = look_up,
) -> Policy:
    """
    Return the policy in the file *path*, with its secrets from *env* and files.

    Args:
        path: YAML.
        env: The environment that ``env:NAME`` means, with `TENANT_VARIABLE`.
        files: Reads all files, and remembers which.
        credentials: If false, secrets and certificates are not looked up: for
            checking a policy where they are not at hand.
        look: How they are, and prices.

    Raises:
        PolicyError: With every problem, one a line, in the file's order.
    """
    files = Files() if files is None else files
    try:
        source = files.read(path, MAX_SOURCE_BYTES)
    except UnreadableFileError as error:
        raise PolicyError([f"policy: {error}"]) from None
    return parse_policy(source, env, files=files, credentials=credentials, look=look)


def parse_policy(
    source: bytes,
    env: Mapping[str, str],
    *,
    files: Files | None = None,
    credentials: bool = True,
    look: LookUp = look_up,
) -> Policy:
    """
    Return the policy that *source* (YAML) is.

    For the rest see `load_policy`: *files* reads what the policy refers to.
    """
    files = Files() if files is None else files
    try:
        document = read_document(source)
    except UnreadableDocumentError as error:
        raise PolicyError([error.problem]) from None
    content = _content(document)
    if tenant := env.get(TENANT_VARIABLE):
        content = {**content, "single_tenant": tenant}
    find = partial(look, env=env, files=files) if credentials else _nothing
    file, left_out, wrong = _validated(content)
    outside, others = _judged(file, left_out, find)
    problems = [*document.problems, *wrong, *others]
    if wrong:
        problems += _hidden(content, wrong, find)
    if problems:
        raise _error(problems, document)
    pricing = compile_pricing(file, outside.overlays)
    policy = compile_policy(
        file,
        _digest(source),
        outside.credentials,
        outside.files_digests,
        outside.tokenize_credentials,
    )
    webhook = compile_webhook(file, outside.webhook_secret)
    return replace(policy, pricing=pricing, webhook=webhook)


def _validated(
    content: Mapping[str, object],
) -> tuple[PolicyFile, LeftOut, list[Problem]]:
    """Return what is right in *content*, what was left out, and why."""
    try:
        return PolicyFile.model_validate(content), LeftOut(), []
    except ValidationError as error:
        wrong = list(problems_of(error))
    rest, left_out = salvage(content, [problem.path for problem in wrong])
    return PolicyFile.model_validate(rest), left_out, wrong


def _judged(
    file: PolicyFile, left_out: LeftOut, find: Callable[[PolicyFile], Outside]
) -> tuple[Outside, list[Problem]]:
    """Return what *file* refers to outside of itself, and what is wrong with it all."""
    outside = find(file)
    found = (*References(file, left_out).problems(), *outside.problems)
    return outside, [
        replace(problem, path=left_out.original(problem.path)) for problem in found
    ]


def _hidden(
    content: Mapping[str, object],
    wrong: Sequence[Problem],
    find: Callable[[PolicyFile], Outside],
) -> Iterator[Problem]:
    """Yield what else is wrong in the entries that have something *wrong*."""
    known = [problem.path for problem in wrong]
    made = stand_in(content, known)
    file, left_out, more = _validated(made.content)
    # Of single fields the schema has said all by now, but not of how they go together.
    entries = [problem for problem in made.told(more) if problem.path not in known]
    yield from entries
    if entries:
        yield from _hidden(content, [*wrong, *entries], find)
    else:
        yield from made.told(_judged(file, left_out, find)[1])


def _nothing(_: PolicyFile) -> Outside:
    return Outside()


def _content(document: Document) -> Mapping[str, object]:
    content = document.value
    if content is None:
        raise PolicyError(["policy: is empty"])
    if not isinstance(content, Mapping):
        raise PolicyError(["policy: must be a mapping"])
    version = content.get("version", VERSION)
    # True equals 1 to Python.
    if version != VERSION or not isinstance(version, int) or isinstance(version, bool):
        text = f"must be {VERSION}: this is all that this release can read"
        raise _error([Problem(("version",), text)], document)
    return content


def _error(problems: Iterable[Problem], document: Document) -> PolicyError:
    located = (
        replace(problem, line=problem.line or document.line(problem.path))
        for problem in problems
    )
    return PolicyError(listed(located))


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:_DIGEST_CHARS]
