"""
An exchange of every API that is metered, as apps and providers speak it.

Each is a `Row`: what is asked, what is answered, and what must be settled. Rows of an
API are in a module of their own, and are listed here.
"""

from __future__ import annotations

from tests.every_dialect.anthropic_rows import ANTHROPIC_ROWS
from tests.every_dialect.azure_rows import AZURE_ROWS
from tests.every_dialect.bedrock_rows import BEDROCK_ROWS
from tests.every_dialect.gemini_rows import GEMINI_ROWS
from tests.every_dialect.media_rows import MEDIA_ROWS
from tests.every_dialect.openai_rows import OPENAI_ROWS
from tests.every_dialect.row import Row
from tests.every_dialect.vllm_rows import VLLM_ROWS

ROWS: tuple[Row, ...] = (
    *OPENAI_ROWS,
    *MEDIA_ROWS,
    *ANTHROPIC_ROWS,
    *AZURE_ROWS,
    *GEMINI_ROWS,
    *BEDROCK_ROWS,
    *VLLM_ROWS,
)
