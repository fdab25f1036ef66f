"""
Errors as Amazon Bedrock writes them: the kind in a header, a message in the body.

https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html
"""

from __future__ import annotations

from tokenweir.core.dialects.base import ErrorFacts
from tokenweir.core.json_text import write_value

# AWS' SDKs take the kind from it.
ERROR_TYPE_HEADER = "x-amzn-errortype"
_BY_STATUS = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
}
# SDKs wait for a throttled call and send it again. A budget is not worth waiting for.
_BY_CODE = {"insufficient_quota": "ServiceQuotaExceededException"}
_OTHER_SERVER_ERROR = "InternalServerException"
_OTHER_CLIENT_ERROR = "ValidationException"


def error_type(error: ErrorFacts) -> str:
    """Return what AWS calls an error such as *error*."""
    other = _OTHER_SERVER_ERROR if error.status >= 500 else _OTHER_CLIENT_ERROR
    by_status = _BY_STATUS.get(error.status, other)
    return _BY_CODE.get(error.code or "", by_status)


def error_body(error: ErrorFacts) -> bytes:
    """Write *error*; the kind goes into a header."""
    return write_value({"message": error.message, "tokenweir": dict(error.detail)})
